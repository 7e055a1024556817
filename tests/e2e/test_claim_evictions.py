"""Pods by ResourceClaims that are evicted, or for which others are, as pods by limits are: on a real cluster."""

from collections.abc import Iterator
from typing import Any

import pytest

from device_plugin.core.contract.annotations import CARD_UUID, IDLE_LIMIT
from device_plugin.kube.api import PODS
from tests.e2e import nodes
from tests.e2e.claims import CLAIMS, asking, claim, claim_of, claim_pod, devices, template
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import check_disjoint, held, inventory
from tests.e2e.test_claims import allow
from tests.e2e.test_cordon import vgpu
from tests.e2e.test_idle_limits import HOLDS, LIMIT, SECONDS, least_idle, says, use
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

TWELVE = asking("12Gi", 45)
FOUR = asking("4Gi", 15)


@pytest.fixture
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace that may ask by claims."""
    with in_own_namespace() as made:
        allow(made)
        yield made


def annotated(body: dict[str, Any], key: str, text: str) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "annotations": {key: text}}}


def staying(kubectl: Kubectl) -> set[str]:
    """The names of the pods that are not being deleted."""
    return {
        each["metadata"]["name"] for each in kubectl.items() if "deletionTimestamp" not in each["metadata"]
    }


def freed(kubectl: Kubectl, name: str) -> bool:
    """True once the claim `name`, which a person made, has no device."""
    return not devices(kubectl.get(CLAIMS, name))


def test_a_claim_of_higher_priority_takes_the_slices_of_claims_and_of_limits(
    kubectl: Kubectl, important: str
) -> None:
    node = nodes.first()
    here, uuids = nodes.on(node), [card["uuid"] for card in inventory(node)["cards"]]
    kubectl.create(claim("kept", TWELVE), template("two", asking("8Gi", 30, count=2)))
    names = [f"low-{number}" for number in range(len(uuids))]
    for number, (name, uuid) in enumerate(zip(names, uuids, strict=True)):
        body = claim_pod(name, named="kept", **here) if number == 0 else slice_pod(name, 12, 45, **here)
        kubectl.create(annotated(body, CARD_UUID, uuid))
    kubectl.running(*names)
    vip = claim_pod("vip", "two", priorityClassName=important, **here)
    kubectl.create(annotated(vip, CARD_UUID, ",".join(uuids[:2])))
    kubectl.running("vip")
    assert {each.card for each in held(kubectl, "vip")} == set(uuids[:2])
    assert staying(kubectl) == {"vip", *names[2:]}
    assert "Preempted" in " ".join(kubectl.events("low-0"))
    assert any(event.startswith("Preempting") for event in kubectl.events("vip"))
    check_disjoint([each for name in ("vip", *names[2:]) for each in held(kubectl, name)])
    assert eventually(lambda: freed(kubectl, "kept"), 30)


def test_limits_of_higher_priority_take_the_slice_of_a_claim(kubectl: Kubectl, important: str) -> None:
    node = nodes.first()
    here, uuid = nodes.on(node), inventory(node)["cards"][0]["uuid"]
    kubectl.create(claim("kept", TWELVE))
    kubectl.create(annotated(claim_pod("low", named="kept", **here), CARD_UUID, uuid))
    kubectl.running("low")
    kubectl.create(annotated(slice_pod("vip", 12, 45, priorityClassName=important, **here), CARD_UUID, uuid))
    kubectl.running("vip")
    assert staying(kubectl) == {"vip"}
    assert eventually(lambda: freed(kubectl, "kept"), 30)


def test_an_idle_pod_by_a_claim_is_announced_and_evicted(kubectl: Kubectl) -> None:
    here = nodes.on(nodes.first())
    kubectl.create(claim("kept", FOUR), template("four", FOUR))
    with least_idle(kubectl):
        kubectl.create(annotated(claim_pod("busy", "four", **here), IDLE_LIMIT, LIMIT))
        kubectl.running("busy")
        kubectl.inside("busy", "sh", "-c", HOLDS)
        use(kubectl, "busy", "--busy-units", "5")
        kubectl.create(annotated(claim_pod("idle", named="kept", **here), IDLE_LIMIT, LIMIT))
        kubectl.running("idle")
        assert eventually(lambda: says(kubectl, "idle", "SlicesIdle"), SECONDS), kubectl.events("idle")
        assert eventually(lambda: not kubectl.has(PODS, "idle"), SECONDS), kubectl.events("idle")
    assert "idle for 1 min (vgpu.io/idle-limit)" in says(kubectl, "idle", "IdlePodEvicted")
    assert staying(kubectl) == {"busy"}
    assert not says(kubectl, "busy", "SlicesIdle")
    assert eventually(lambda: freed(kubectl, "kept"), 30)


def test_a_drained_card_loses_its_claims_and_gets_no_more(kubectl: Kubectl) -> None:
    kubectl.create(claim("kept", FOUR), claim_pod("drained", named="kept"), template("four", FOUR))
    kubectl.running("drained")
    (slice_,) = held(kubectl, "drained")
    try:
        assert vgpu("drain", "--force", slice_.card).splitlines()[-1] == f"{slice_.card} is empty"
        assert not kubectl.has(PODS, "drained")
        assert eventually(lambda: freed(kubectl, "kept"), 30)
        kubectl.create(annotated(claim_pod("wanted", "four"), CARD_UUID, slice_.card))
        assert eventually(lambda: any("cordoned" in event for event in kubectl.events("wanted")), 60)
        assert not devices(claim_of(kubectl, "wanted"))
    finally:
        vgpu("uncordon", slice_.card)
    kubectl.running("wanted")
    assert held(kubectl, "wanted")[0].card == slice_.card
