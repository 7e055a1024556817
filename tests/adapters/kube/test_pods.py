"""JSON of pods: what is read, and how little is kept of what anybody may write."""

import json
from typing import Any

import msgspec
import pytest

from device_plugin.adapters.kube.pods import read_pod, template_pod
from device_plugin.adapters.kube.structs import DecodeError, RawTemplate
from device_plugin.core.claims import MAX_CLAIMS
from device_plugin.core.contract.annotations import GRANT
from device_plugin.core.contract.grants import MAX_CONTAINERS, CardSize, Grant, Slice
from device_plugin.core.obstacles import NONE, Obstacles
from device_plugin.core.pods import Container, ContainerKind, Pod


def owned_pod(owners: list[dict[str, Any]], **spec: Any) -> bytes:
    metadata = {"name": "p", "uid": "u", "ownerReferences": owners}
    return json.dumps({"metadata": metadata, "spec": {"containers": [{"name": "main"}], **spec}}).encode()


def test_the_owner_is_the_one_that_would_make_the_pod_again() -> None:
    controller = {"kind": "Job", "name": "train", "uid": "job-1", "controller": True}
    made = read_pod(owned_pod([{"kind": "ConfigMap", "name": "c", "uid": "c"}, controller]))
    assert (made.owner, made.owner_name, made.owner_uid) == ("Job", "train", "job-1")
    assert read_pod(owned_pod([])).owner_uid == ""


@pytest.mark.parametrize(
    ("written", "index"),
    [
        ("0", 0),
        ("41", 41),
        ("999999", 999999),
        ("", None),
        ("-1", None),
        ("1e3", None),
        ("٣", None),
        ("9" * 63, None),
    ],
)
def test_the_number_in_its_job_is_read_where_it_is_one(written: str, index: int | None) -> None:
    metadata = {"name": "p", "labels": {"batch.kubernetes.io/job-completion-index": written}}
    assert read_pod(json.dumps({"metadata": metadata, "spec": {"containers": []}}).encode()).index == index


@pytest.mark.parametrize(
    "more",
    [
        {"nodeSelector": {"zone": "a"}},
        {"affinity": {"nodeAffinity": {}}},
        {"tolerations": [{"key": "k", "operator": "Exists"}]},
    ],
)
def test_pods_with_equal_constraints_may_go_to_the_same_nodes(more: dict[str, Any]) -> None:
    plain, narrow = read_pod(owned_pod([])), read_pod(owned_pod([], **more))
    assert read_pod(owned_pod([], **more)).constraints == narrow.constraints != plain.constraints


def test_of_what_anybody_may_write_into_a_pod_little_is_kept() -> None:
    """Ten thousand pods with as much as Kubernetes takes would fill the memory of whoever watches them."""
    much = "x" * 200_000
    metadata = {
        "name": "p",
        "uid": "u",
        "annotations": {
            "vgpu.io/junk": much,
            "vgpu.io/policy": much,
            "vgpu.io/group": "g",
            "vgpu.io/role-order": much,
            "other": much,
        },
        "labels": {
            **{f"vgpu.io/{n}": "x" for n in range(1000)},
            "vgpu.io/role": "r",
            "vgpu.io/policy": "pack",
            "training.kubeflow.org/replica-type": "ps",
            "training.kubeflow.org/job-name": "j",
        },
        "ownerReferences": [{"kind": much, "uid": much, "controller": True}],
    }
    idle = [{"name": f"c{n}", "resources": {"limits": {"cpu": "1"}}} for n in range(1000)]
    asking = {"name": "main", "resources": {"limits": {"hygon.com/dcu-mem": "4", "cpu": "1"}}}
    found = read_pod(json.dumps({"metadata": metadata, "spec": {"containers": [*idle, asking]}}).encode())
    assert found.labels == {
        "vgpu.io/role": "r", "vgpu.io/policy": "pack", "training.kubeflow.org/replica-type": "ps",
    }  # fmt: skip
    assert found.annotations == {
        "vgpu.io/policy": "x" * 4097, "vgpu.io/group": "g", "vgpu.io/role-order": "x" * 257,
    }  # fmt: skip
    assert found.containers == (Container("main", ContainerKind.MAIN, {"hygon.com/dcu-mem": "4"}),)
    assert len(found.owner) == len(found.owner_uid) == 63


def hungry_pod(*containers: dict[str, Any], grant: str = "") -> bytes:
    """A pod of containers with these limits, named c0, c1 and so on."""
    metadata = {"name": "p", "uid": "u", "annotations": {"vgpu.io/grant": grant} if grant else {}}
    named = [{"name": f"c{n}", "resources": {"limits": limits}} for n, limits in enumerate(containers)]
    return json.dumps({"metadata": metadata, "spec": {"containers": named}}).encode()


MEM = "hygon.com/dcu-mem"
INVENTED = {f"a.b/{n}": "1" for n in range(6000)}


def test_of_limits_those_of_our_resources_are_kept_and_no_longer_than_they_can_be_read() -> None:
    found = read_pod(hungry_pod(INVENTED, {**INVENTED, MEM: "4"}, {MEM: "1" * 200_000}), frozenset({MEM}))
    assert [(one.name, one.limits) for one in found.containers] == [
        ("c1", {MEM: "4"}),
        ("c2", {MEM: "1" * 64}),
    ]


def test_a_container_that_a_grant_names_is_kept_whatever_it_asked_for() -> None:
    """Its resources are perhaps no longer configured, and the grant must not be void for that."""
    found = read_pod(hungry_pod(INVENTED, INVENTED, grant='{"containers":{"c1":[]}}'), frozenset({MEM}))
    assert found.containers == (Container("c1", ContainerKind.MAIN, {}),)


def test_limits_of_equal_text_are_one_object() -> None:
    one, other = (read_pod(hungry_pod({MEM: "4", "cpu": "1"}), frozenset({MEM})).containers for _ in range(2))
    assert one[0].limits is other[0].limits
    everything = read_pod(hungry_pod({MEM: "4", "a.b/c": "1"}), None).containers[0].limits
    assert everything == {MEM: "4", "a.b/c": "1"}, "what is kept depends on the reader, too"


def test_limits_of_long_text_are_not_remembered() -> None:
    """A tenant may write another one into each of thousands of pods."""
    long = {MEM: "4", "a.b/c": "1" * 600}
    one, other = (read_pod(hungry_pod(long), frozenset({MEM})).containers for _ in range(2))
    assert one == other
    assert one[0].limits is not other[0].limits


@pytest.mark.parametrize("resources", ["5", '{"limits": 5}', '{"limits": {"cpu": []}}', '"text"'])
def test_a_pod_with_resources_of_another_form_cannot_be_read(resources: str) -> None:
    spec = f'{{"containers": [{{"name": "main", "resources": {resources}}}]}}'
    with pytest.raises(DecodeError):
        read_pod(f'{{"metadata": {{"name": "p", "uid": "u"}}, "spec": {spec}}}'.encode())


def test_of_thousands_of_asking_containers_as_many_are_kept_as_a_refusal_needs() -> None:
    asking = [{MEM: "1"}] * 5000
    assert len(read_pod(hungry_pod(*asking), frozenset({MEM})).containers) == MAX_CONTAINERS + 1


def waiting_pod(said: str = "", **spec: Any) -> bytes:
    container = {"name": "main", "resources": {"limits": {"hygon.com/dcu-mem": "4"}}}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    made = {"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [container], **spec}}
    return json.dumps({**made, "status": {"conditions": [condition]}}).encode()


def test_what_keeps_a_pod_from_a_node_beside_cards_is_read() -> None:
    found = read_pod(
        waiting_pod(
            "3 node(s) had untolerated taint(s)",
            schedulingGates=[{"name": "x/y"}],
            nodeSelector={"zone": "a", "disk": "ssd"},
            affinity={"nodeAffinity": {}},
            volumes=[
                {"name": "tmp", "emptyDir": {}},
                {"name": "v", "persistentVolumeClaim": {"claimName": "data"}},
            ],
        )
    )
    assert found.obstacles == Obstacles(
        ("x/y",),
        "nodeSelector zone=a, disk=ssd and affinity",
        ("data",),
        "3 node(s) had untolerated taint(s)",
    )


@pytest.mark.parametrize(
    "spec", [{}, {"nodeSelector": None, "affinity": {}, "volumes": [], "schedulingGates": []}]
)
def test_nothing_keeps_it(spec: dict[str, Any]) -> None:
    assert read_pod(waiting_pod(**spec)).obstacles is NONE


def test_who_has_a_node_or_asks_for_nothing_is_kept_by_nothing() -> None:
    assert read_pod(waiting_pod("taint", nodeName="n1")).obstacles is NONE
    assert read_pod(waiting_pod("taint", containers=[{"name": "main"}])).obstacles is NONE


def test_of_obstacles_little_is_kept() -> None:
    many = [f"{n:0>253}" for n in range(500)]
    found = read_pod(
        waiting_pod(
            "x" * 30_000,
            schedulingGates=[{"name": text} for text in many],
            nodeSelector={text: text for text in many},
            volumes=[{"name": text, "persistentVolumeClaim": {"claimName": text}} for text in many],
        )
    ).obstacles
    assert sum(map(len, (*found.gates, found.selector, *found.claims, found.said))) < 2000


def test_a_grant_is_kept_whole_as_long_as_it_can_be_read() -> None:
    metadata = {"name": "p", "uid": "u", "annotations": {"vgpu.io/grant": "x" * 64 * 1024}}
    found = read_pod(json.dumps({"metadata": metadata, "spec": {"containers": []}}).encode())
    assert len(found.annotation("vgpu.io/grant")) == 64 * 1024


def test_what_kube_scheduler_says_of_a_pod_that_it_took_back_is_told_apart() -> None:
    """Of the text only a fingerprint is kept: it may be long, and there may be thousands."""

    def shown(status: str, message: str, **more: str) -> Pod:
        condition = {"type": "PodScheduled", "status": status, "reason": "SchedulerError", "message": message}
        body = {
            "metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [{"name": "main"}]},
            "status": {"conditions": [condition], **more},
        }  # fmt: skip
        return read_pod(json.dumps(body).encode())

    first, second = shown("False", "preempted"), shown("False", "timed out")
    assert 0 not in (first.refused, second.refused)
    assert first.refused != second.refused
    assert first == shown("False", "preempted")
    assert shown("True", "").refused == 0
    assert (first.nominated, shown("False", "", nominatedNodeName="n1").nominated) == ("", "n1")


def test_equal_names_of_pods_are_in_memory_once() -> None:
    metadata = {"namespace": "team", "creationTimestamp": "2026-01-01T00:00:00Z"}
    grant = Grant("u", "n1", {"main": (Slice("c0", 1024, (0,)),)}, cards={"c0": CardSize(16368, 4)})
    one, other = (
        read_pod(
            json.dumps({
                "metadata": {**metadata, "name": name, "uid": "u", "annotations": {GRANT: grant.encode()}},
                "spec": {"containers": [{"name": "main"}], "nodeName": "n1", "schedulerName": "vgpu-scheduler"},
            }).encode()
        )
        for name in ("a", "b")
    )  # fmt: skip
    assert one.namespace is other.namespace
    assert one.node is other.node
    assert one.scheduler is other.scheduler
    assert one.created is other.created
    held = one.grant()
    assert held == grant
    assert held.pod is one.uid
    assert held.node is one.node
    ((card, _),) = held.cards.items()
    assert card is held.containers["main"][0].card


def claiming_pod(
    claims: list[dict[str, Any]], *used: list[str], made: list[dict[str, str]] | None = None
) -> bytes:
    """A pod with these spec.resourceClaims, whose containers c0, c1 and so on use the named ones."""
    containers = [
        {"name": f"c{n}", "resources": {"claims": [{"name": name} for name in names]}}
        for n, names in enumerate(used)
    ]
    return json.dumps({
        "metadata": {"name": "p", "uid": "u"},
        "spec": {"containers": containers, "resourceClaims": claims},
        "status": {"resourceClaimStatuses": made or []},
    }).encode()  # fmt: skip


def test_claims_are_read_from_the_spec_and_those_of_templates_from_the_status() -> None:
    claims = [
        {"name": "own", "resourceClaimName": "slice"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "later", "resourceClaimTemplateName": "t"},
        {"name": "unused", "resourceClaimName": "x"},
    ]
    found = read_pod(
        claiming_pod(
            claims, ["own"], ["made"], ["later"], made=[{"name": "made", "resourceClaimName": "p-made-x"}]
        )
    )
    assert [container.claims for container in found.containers] == [("own",), ("made",), ("later",)]
    assert found.claims == {"own": "slice", "made": "p-made-x", "later": "", "unused": "x"}


def test_a_pod_without_claims_has_none() -> None:
    assert read_pod(owned_pod([])).claims is None


def test_a_claim_that_no_container_uses_is_kept_and_no_container_for_it() -> None:
    unused = read_pod(claiming_pod([{"name": "own", "resourceClaimName": "slice"}], []))
    assert (unused.claims, unused.containers) == ({"own": "slice"}, ())


def test_the_claims_that_containers_use_are_kept_before_thousands_of_others() -> None:
    claims = [{"name": f"c{n}", "resourceClaimName": f"s{n}"} for n in range(4000)]
    found = read_pod(claiming_pod(claims, ["c3999"])).claims or {}
    assert next(iter(found.items())) == ("c3999", "s3999")
    assert len(found) == MAX_CLAIMS + 1


def test_of_thousands_of_claims_few_are_kept() -> None:
    names = [f"c{n}" for n in range(4000)]
    claims = [{"name": name, "resourceClaimName": name} for name in names]
    found = read_pod(claiming_pod(claims, names, *([name] for name in names)))
    assert found.containers[0].claims == ("c0", "c1")
    assert len(found.containers) == MAX_CONTAINERS + 1
    assert len(found.claims or ()) == MAX_CLAIMS + 1


def test_the_request_of_a_claim_that_a_container_uses_is_kept() -> None:
    used = {"name": "main", "resources": {"claims": [{"name": "gpu", "request": "card"}]}}
    claims = [{"name": "gpu", "resourceClaimName": "slice"}]
    spec = {"containers": [used], "resourceClaims": claims}
    (found,) = read_pod(json.dumps({"metadata": {"name": "p"}, "spec": spec}).encode()).containers
    assert (found.claims, found.of_claims) == (("gpu",), ("card",))


def test_the_pod_of_a_template_has_the_claims_that_it_names() -> None:
    spec = {
        "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
    }
    raw = msgspec.json.decode(json.dumps({"spec": spec}), type=RawTemplate)
    found = template_pod("default", raw, None)
    assert (found.containers[0].claims, found.claims) == (("gpu",), {"gpu": ""})
