"""The admission policies of manifests/admission: what is refused, and that the message says what to do."""

from typing import Any

import pytest

from tests.builders.cards import CORES, FAMILY, MEM, PERCENT, SLICES
from tests.builders.objects import pod
from tests.contract.asking import asking, container, refused
from tests.contract.cluster import PODS, Cluster
from tests.release import NAMED, since

GRANT = "vgpu.io/grant"


@since("1.36", "MutatingAdmissionPolicy")
def test_a_pod_that_asks_and_names_no_scheduler_is_sent_to_ours(name: str, accepted: Any) -> None:
    assert accepted(asking(name))["schedulerName"] == "vgpu-scheduler"


@pytest.mark.parametrize(
    "resource",
    [FAMILY, MEM, CORES, PERCENT, "hygon.com/hcu-mem", "hygon.com/hcu-cores", "hygon.com/hcu-percent"],
)
def test_every_resource_of_every_family_counts_as_asking(name: str, accepted: Any, resource: str) -> None:
    body = asking(name, containers=[container(limits={resource: "1"})])
    assert accepted(body)["schedulerName"] == "vgpu-scheduler"


@pytest.mark.parametrize(
    "limits", [{MEM: "4", SLICES: "1"}, {PERCENT: "100", SLICES: "1"}, {FAMILY: "2", SLICES: "8"}]
)
def test_slices_may_be_counted_beside_what_they_are(name: str, accepted: Any, limits: dict[str, str]) -> None:
    accepted(asking(name, containers=[container(limits=limits)]))


def test_a_sidecar_may_ask(name: str, accepted: Any) -> None:
    spec: dict[str, Any] = {"initContainers": [container("side", restartPolicy="Always")], **NAMED}
    body = pod(name, **spec)
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
        ({MEM: "4Gi"}, ["container main: hygon.com/dcu-mem: 4Gi is 4294967296 units of 1 GiB: write 4"]),
        ({MEM: "4G"}, ["hygon.com/dcu-mem: 4G is 4000000000 units of 1 GiB: write 4"]),
        ({MEM: "512Mi"}, ["hygon.com/dcu-mem: 512Mi is 536870912 units of 1 GiB: write 1"]),
        ({MEM: "4000"}, ["hygon.com/dcu-mem: 4k is 4000 units of 1 GiB: write 4 if you mean 4000 MiB"]),
        ({MEM: "1025"}, ["write 2 if you mean 1025 MiB (no card has more than 1024 units)"]),
        ({MEM: str(2**63 - 1)}, [f"{2**63 - 1} is too many: no card has more than 1024 units of 1 GiB"]),
        ({MEM: "2Ti"}, ["hygon.com/dcu-mem: 2Ti is too many: no card has more than 1024 units of 1 GiB"]),
        ({CORES: "2000"}, ["hygon.com/dcu-cores: 2k is too many: no card has more than 1024 core groups"]),
        ({FAMILY: str(2**63 - 1)}, [f"{2**63 - 1} is too many: no node has more than 64 cards"]),
        ({FAMILY: "1", MEM: "4"}, ["asks for whole cards and a slice: write either hygon.com/dcu: N"]),
        ({FAMILY: "1", CORES: "4"}, ["asks for whole cards and a slice: write either hygon.com/dcu: N"]),
        ({MEM: "1", "hygon.com/hcu-mem": "1"}, ["hygon.com/dcu and hygon.com/hcu: ask for one kind of card"]),
        (
            {PERCENT: "25", "hygon.com/hcu": "1"},
            ["hygon.com/dcu and hygon.com/hcu: ask for one kind of card"],
        ),
        ({FAMILY: "1", PERCENT: "25"}, ["asks for whole cards and a slice: write either hygon.com/dcu: N"]),
        (
            {PERCENT: "25", CORES: "4"},
            ["main asks for hygon.com/dcu-percent beside hygon.com/dcu-mem or hygon.com/dcu-cores: percent"],
        ),
        (
            {PERCENT: "25", MEM: "4"},
            ["either hygon.com/dcu-percent, or hygon.com/dcu-mem and hygon.com/dcu-cores"],
        ),
        (
            {PERCENT: "101"},
            ["-percent: 101: write 1 to 100, the percent of one card, or hygon.com/dcu for whole"],
        ),
        ({PERCENT: "0"}, ["hygon.com/dcu-percent is 0: write a whole number of at least 1"]),
        (
            {SLICES: "1"},
            ["main asks for hygon.com/dcu-slices alone, which only counts slices for a quota: write also"],
        ),
        ({"hygon.com/hcu-slices": "4"}, ["asks for hygon.com/hcu-slices alone"]),
        ({MEM: "4", SLICES: "2"}, ["hygon.com/dcu-slices is 2: write 1, as it asks for one slice"]),
        (
            {FAMILY: "2", SLICES: "5"},
            ["-slices is 5: write all slices that its whole cards can give, an equal"],
        ),
        ({FAMILY: "1", SLICES: "70000"}, ["70k is too many: no container has more than 65536 slices"]),
    ],
)
def test_requests_that_can_never_be_granted(
    cluster: Cluster, name: str, limits: dict[str, str], words: list[str]
) -> None:
    answer = cluster.post(PODS, asking(name, containers=[container(limits=limits)]), "tenant")
    refused(answer, "vgpu-requests", *words)


SEVERAL = "vgpu.io/slices"


@pytest.mark.parametrize(
    ("slices", "limits"),
    [
        ("2", {MEM: "8", CORES: "30", SLICES: "2"}),
        ("2", {PERCENT: "150"}),
        ("16", {PERCENT: "1600", SLICES: "16"}),
        ("1", {MEM: "3"}),
    ],
)
def test_slices_of_several_cards(name: str, accepted: Any, slices: str, limits: dict[str, str]) -> None:
    body = asking(name, containers=[container(limits=limits)])
    body["metadata"]["annotations"] = {SEVERAL: slices}
    accepted(body)


@pytest.mark.parametrize(
    ("slices", "limits", "words"),
    [
        (
            "2",
            {MEM: "7"},
            "hygon.com/dcu-mem is 7 for 2 slices (annotation vgpu.io/slices): write the sum of equal",
        ),
        ("3", {MEM: "6", CORES: "10"}, "main: hygon.com/dcu-cores is 10 for 3 slices"),
        ("2", {PERCENT: "202"}, "hygon.com/dcu-percent: 202: write 1 to 100, the percent of one card"),
        ("2", {FAMILY: "2"}, "leave out the annotation vgpu.io/slices; their number is hygon.com/dcu: N"),
        ("2", {MEM: "4", SLICES: "1"}, "dcu-slices is 1: write 2, as it asks for so many slices"),
        ("17", {MEM: "17"}, "annotation vgpu.io/slices is 17: write a whole number from 1 to 16"),
        ("", {MEM: "0"}, "write a whole number of at least 1"),
        ("two", {MEM: "4"}, "annotation vgpu.io/slices is two: write"),
    ],
)
def test_slices_of_several_cards_that_are_not_equal(
    cluster: Cluster, name: str, slices: str, limits: dict[str, str], words: str
) -> None:
    body = asking(name, containers=[container(limits=limits)])
    body["metadata"]["annotations"] = {SEVERAL: slices}
    refused(cluster.post(PODS, body, "tenant"), "vgpu-requests", words)


def test_slices_of_several_cards_are_of_one_container(cluster: Cluster, name: str) -> None:
    body = asking(name, containers=[container("a"), container("b")])
    body["metadata"]["annotations"] = {SEVERAL: "2"}
    refused(cluster.post(PODS, body, "tenant"), "vgpu-requests", "2 containers ask for slices: leave it out")


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


@pytest.mark.parametrize("limits", [{MEM: "1024"}, {FAMILY: "64"}, {CORES: "1024"}])
def test_what_a_card_to_come_could_have_waits_for_it(
    name: str, accepted: Any, limits: dict[str, str]
) -> None:
    accepted(asking(name, containers=[container(limits=limits)]))


@pytest.mark.parametrize("kind", ["annotations", "labels"])
@pytest.mark.parametrize("key", ["vgpu.io/card_model", "vgpu.io/card-models", "vgpu.io/gang"])
def test_a_key_that_nobody_reads(cluster: Cluster, name: str, kind: str, key: str) -> None:
    body = asking(name)
    body["metadata"][kind] = {key: "1", "example.com/other": "1"}
    refused(
        cluster.post(PODS, body, "tenant"), "vgpu-requests", f"{key} is no key of vgpu: remove it",
        "the annotations vgpu.io/app-type, vgpu.io/card-model, ", "the labels vgpu.io/group, ",
    )  # fmt: skip


def test_keys_of_a_pod_that_asks_for_nothing_are_its_own(name: str, accepted: Any) -> None:
    body = pod(name)
    body["metadata"]["annotations"] = {"vgpu.io/gang": "1"}
    accepted(body)


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("hygon.com/dcumem", "write hygon.com/dcu-mem (memory units of one card)"),
        (
            "hygon.com/hcu-share-4c-16g",
            "write hygon.com/hcu-mem (memory units of one card) and hygon.com/hcu-cores",
        ),
        (
            "hygon.com/hcu-mig-2g-15gb",
            "write hygon.com/hcu-mem (memory units of one card) and hygon.com/hcu-cores",
        ),
        ("hygon.com/dcu_mem", "write hygon.com/dcu-mem"),
        ("hygon.com/dcu-memory", "write hygon.com/dcu-mem"),
        ("hygon.com/DCU-mem", "write hygon.com/dcu-mem"),
        ("hygon.com/dcu-core", "write hygon.com/dcu-cores (core groups of one card)"),
        ("hygon.com/dcucores", "write hygon.com/dcu-cores"),
        ("hygon.com/dcu_percent", "write hygon.com/dcu-percent (percent of one card)"),
        ("hygon.com/dcumem-percentage", "write hygon.com/dcu-percent"),
        ("hygon.com/dcu-slice", "write hygon.com/dcu-slices (slices, for a quota)"),
        ("hygon.com/dcunum", "write hygon.com/dcu (whole cards), or hygon.com/dcu-mem (a slice of one card)"),
        ("hygon.com/Hcu", "write hygon.com/hcu (whole cards)"),
    ],
)
@pytest.mark.parametrize("beside", [{}, {MEM: "4"}])
def test_a_resource_that_differs_from_ours_only_in_form(
    cluster: Cluster, name: str, resource: str, words: str, beside: dict[str, str]
) -> None:
    body = asking(name, containers=[container(limits={resource: "4", **beside})])
    refused(cluster.post(PODS, body, "tenant"), "vgpu-names", f"no node has the resource {resource}: ", words)


@pytest.mark.parametrize("resource", ["hygon.com/dcux", "hygon.com/dcu-mems", "example.com/dcumem"])
def test_other_resources_are_their_owners_own(name: str, accepted: Any, resource: str) -> None:
    assert accepted(pod(name, {resource: "4"}))["schedulerName"] == "default-scheduler"


@pytest.mark.parametrize("key", ["vgpu.io/card-model", "vgpu.io/card-uuid"])
@pytest.mark.parametrize(
    ("text", "allowed"),
    [(",".join(["Z100"] * 64), True), (",".join(["Z100"] * 65), False), ("Z" * 4097, False)],
)
def test_lists_of_cards_are_bounded_at_creation_and_later(
    cluster: Cluster, pending: str, name: str, key: str, text: str, allowed: bool
) -> None:
    body = asking(f"{name}-new")
    body["metadata"]["annotations"] = {key: text}
    change = {"metadata": {"annotations": {key: text}}}
    answers = (
        cluster.post(f"{PODS}?dryRun=All", body, "tenant"),
        cluster.patch(pending, change, "tenant"),
        cluster.patch(f"{pending}/status", change, "tenant"),
    )
    for answer in answers:
        if allowed:
            assert answer.code in (200, 201), answer.body
        else:
            refused(answer, "vgpu-selectors", f"annotation {key} is too long: write at most 64 words")
    cluster.delete(f"{PODS}/{name}-new?gracePeriodSeconds=0")


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
