"""The admission policies of manifests/admission: what is refused, and that the message says what to do."""

from typing import Any

import pytest

from tests.contract.asking import CORES, MEM, WHOLE, asking, container, refused
from tests.contract.cluster import PODS, Cluster, pod

GRANT = "vgpu.io/grant"


def test_a_pod_that_asks_and_names_no_scheduler_is_sent_to_ours(name: str, accepted: Any) -> None:
    assert accepted(asking(name))["schedulerName"] == "vgpu-scheduler"


@pytest.mark.parametrize("resource", [WHOLE, MEM, CORES, "hygon.com/hcu-mem", "hygon.com/hcu-cores"])
def test_every_resource_of_every_family_counts_as_asking(name: str, accepted: Any, resource: str) -> None:
    body = asking(name, containers=[container(limits={resource: "1"})])
    assert accepted(body)["schedulerName"] == "vgpu-scheduler"


def test_a_sidecar_may_ask(name: str, accepted: Any) -> None:
    body = pod(name, initContainers=[container("side", restartPolicy="Always")])
    assert accepted(body)["schedulerName"] == "vgpu-scheduler"


@pytest.mark.parametrize(
    "limits", [{}, {"cpu": "1"}, {"hygon.com/dcu-like": "0"}, {"amd.com/gpu": "1"}, {"nvidia.com/gpu": "1"}]
)
def test_a_pod_that_does_not_ask_may_do_what_it_likes(
    name: str, accepted: Any, limits: dict[str, str]
) -> None:
    body = pod(name, limits, hostPID=True, nodeName="n1", schedulerName="theirs")
    body["spec"]["volumes"] = [{"name": "root", "hostPath": {"path": "/"}}]
    body["spec"]["containers"][0]["volumeMounts"] = [{"name": "root", "mountPath": "/etc"}]
    body["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    assert accepted(body, "admin")["schedulerName"] == "theirs"


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({MEM: "0"}, ["container main: hygon.com/dcu-mem is 0: write a whole number of at least 1"]),
        ({WHOLE: "1", MEM: "4"}, ["asks for whole cards and a slice: write either PREFIX: N"]),
        ({WHOLE: "1", CORES: "4"}, ["asks for whole cards and a slice: write either PREFIX: N"]),
        ({MEM: "1", "hygon.com/hcu-mem": "1"}, ["hygon.com/dcu and hygon.com/hcu: ask for one kind of card"]),
    ],
)
def test_requests_that_can_never_be_granted(
    cluster: Cluster, name: str, limits: dict[str, str], words: list[str]
) -> None:
    answer = cluster.post(PODS, asking(name, containers=[container(limits=limits)]), "tenant")
    refused(answer, "vgpu-requests", *words)


@pytest.mark.parametrize(
    ("amount", "rule"), [("-1", "must be greater than or equal to 0"), ("1.5", "must be an integer")]
)
def test_amounts_that_kubernetes_itself_refuses(cluster: Cluster, name: str, amount: str, rule: str) -> None:
    answer = cluster.post(PODS, asking(name, containers=[container(limits={MEM: amount})]), "tenant")
    assert answer.refusal == (422, "Invalid")
    assert f"spec.containers[0].resources.limits[{MEM}]: Invalid value" in answer.message
    assert rule in answer.message


def test_an_init_container_cannot_hold_a_slice(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, pod(name, initContainers=[container("fetch")]), "tenant")
    refused(
        answer, "vgpu-requests", "init container fetch asks", "ask in a main container, or make it a sidecar"
    )


def of_group(name: str, **labels: str) -> dict[str, Any]:
    body = asking(name)
    body["metadata"]["labels"] = {f"vgpu.io/{key.replace('_', '-')}": value for key, value in labels.items()}
    return body


@pytest.mark.parametrize("size", ["1", "8", "10", "99", "999", "1000", "1019", "1024"])
def test_a_gang_says_how_many_pods_it_has(name: str, accepted: Any, size: str) -> None:
    accepted(of_group(name, group="train", group_size=size))


@pytest.mark.parametrize("size", ["0", "08", "1025", "1100", "2000", "10000", "1.5", "eight"])
def test_a_gang_of_no_sensible_size(cluster: Cluster, name: str, size: str) -> None:
    answer = cluster.post(PODS, of_group(name, group="train", group_size=size), "tenant")
    refused(answer, "vgpu-requests", f"group-size is {size}: write a whole number from 1 to 1024")


@pytest.mark.parametrize("labels", [{}, {"group": ""}])
def test_a_gang_without_a_name(cluster: Cluster, name: str, labels: dict[str, str]) -> None:
    answer = cluster.post(PODS, of_group(name, group_size="8", **labels), "tenant")
    refused(answer, "vgpu-requests", "label vgpu.io/group-size needs vgpu.io/group")


@pytest.mark.parametrize(
    ("kind", "key", "words"),
    [
        ("annotations", "vgpu.io/group", "annotation vgpu.io/group: write a label instead"),
        ("annotations", "vgpu.io/group-size", "annotation vgpu.io/group-size: write a label instead"),
        ("annotations", "vgpu.io/role", "annotation vgpu.io/role: write a label instead"),
        ("labels", "vgpu.io/app-type", "label vgpu.io/app-type: write an annotation instead"),
        ("labels", "vgpu.io/card-model", "label vgpu.io/card-model: write an annotation instead"),
        ("labels", "vgpu.io/card-uuid", "label vgpu.io/card-uuid: write an annotation instead"),
        ("labels", "vgpu.io/policy", "label vgpu.io/policy: write an annotation instead"),
        ("labels", "vgpu.io/role-order", "label vgpu.io/role-order: write an annotation instead"),
    ],
)
def test_what_stands_where_nobody_looks(cluster: Cluster, name: str, kind: str, key: str, words: str) -> None:
    body = asking(name)
    body["metadata"][kind] = {key: "1"}
    refused(cluster.post(PODS, body, "tenant"), "vgpu-requests", words)


@pytest.mark.parametrize("labels", [{"group": "train"}, {"group": "train", "group_size": ""}])
def test_a_group_without_a_size_is_no_gang(name: str, accepted: Any, labels: dict[str, str]) -> None:
    accepted(of_group(name, **labels))


def test_another_scheduler_would_place_without_a_grant(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, asking(name, schedulerName="theirs"), "tenant")
    refused(answer, "vgpu-requests", "write schedulerName: vgpu-scheduler (found theirs)")


def test_a_preset_node_goes_round_every_scheduler(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, asking(name, nodeName="n1"), "tenant")
    refused(answer, "vgpu-requests", "leave nodeName out", "nodeSelector or affinity")


def test_a_static_pod_never_gets_a_grant(cluster: Cluster, name: str) -> None:
    body = asking(name, nodeName="n1")
    body["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "0123"}
    refused(cluster.post(PODS, body), "vgpu-requests", "static pods cannot hold a slice", "use a DaemonSet")
