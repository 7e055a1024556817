"""A pod of higher priority gets the slices of the fewest others, whoever evicts them."""

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import check_disjoint, held, inventory
from tests.e2e.waiting import PATIENCE, eventually
from tests.e2e.workloads import container, pod, slice_of, slice_pod


def fill(kubectl: Kubectl, mem: int, cores: int, each: int) -> dict[str, list[str]]:
    """Put `each` pods of a size on every card of the first node; the pods by card."""
    by_card: dict[str, list[str]] = {}
    for number, card in enumerate(inventory(nodes.first())["cards"]):
        by_card[card["uuid"]] = [f"low-{number}-{i}" for i in range(each)]
        for name in by_card[card["uuid"]]:
            body = slice_pod(name, mem=mem, cores=cores, **nodes.on(nodes.first()))
            body["metadata"]["annotations"] = {"vgpu.io/card-uuid": card["uuid"]}
            kubectl.create(body)
    kubectl.running()
    return by_card


def evicted(kubectl: Kubectl, by_card: dict[str, list[str]]) -> dict[str, list[str]]:
    """Of each card the pods that are gone or going."""
    staying = {
        pod["metadata"]["name"] for pod in kubectl.items() if "deletionTimestamp" not in pod["metadata"]
    }
    gone = {card: [name for name in names if name not in staying] for card, names in by_card.items()}
    return {card: names for card, names in gone.items() if names}


def test_where_only_the_cards_are_short_one_victim_goes_and_no_more(kubectl: Kubectl, important: str) -> None:
    by_card = fill(kubectl, mem=12, cores=45, each=1)
    # 16 units are left on the node, and 4 on each card: kube-scheduler finds nobody to evict.
    kubectl.create(slice_pod("vip", mem=8, cores=30, priorityClassName=important, **nodes.on(nodes.first())))
    kubectl.running("vip")
    (slice_,) = held(kubectl, "vip")
    gone = evicted(kubectl, by_card)
    assert gone == {slice_.card: by_card[slice_.card]}
    (victim,) = gone[slice_.card]
    assert eventually(
        lambda: any("Preempted" in event and "vip" in event for event in kubectl.events(victim)), 30
    )
    assert eventually(
        lambda: any(victim in event for event in kubectl.events("vip") if event.startswith("Preempting")), 30
    )
    staying = [name for names in by_card.values() for name in names if name != victim]
    check_disjoint([one for name in ("vip", *staying) for one in held(kubectl, name)])


def test_where_units_are_short_kube_scheduler_evicts_those_that_share_a_card(
    kubectl: Kubectl, important: str
) -> None:
    by_card = fill(kubectl, mem=8, cores=30, each=2)
    kubectl.create(slice_pod("vip", mem=16, cores=60, priorityClassName=important, **nodes.on(nodes.first())))
    kubectl.running("vip")
    (slice_,) = held(kubectl, "vip")
    assert evicted(kubectl, by_card) == {slice_.card: by_card[slice_.card]}


def test_a_pod_that_never_preempts_waits(kubectl: Kubectl) -> None:
    name = f"polite-{uuid.uuid4().hex[:8]}"
    Kubectl("")("create", "priorityclass", name, "--value=1000", "--preemption-policy=Never")
    try:
        by_card = fill(kubectl, mem=12, cores=45, each=1)
        kubectl.create(
            slice_pod("polite", mem=8, cores=30, priorityClassName=name, **nodes.on(nodes.first()))
        )
        assert eventually(lambda: any("lack memory" in event for event in kubectl.events("polite")), 60)
        kubectl.create(slice_pod("small", mem=2, cores=5, **nodes.on(nodes.first())))
        kubectl.running("small")
        assert evicted(kubectl, by_card) == {}
    finally:
        Kubectl("")("delete", "priorityclass", name)


@pytest.fixture
def unready(kubectl: Kubectl) -> Iterator[str]:
    """A claim for a volume that nobody ever makes, of a class that waits for its first pod."""
    name = f"never-{uuid.uuid4().hex[:8]}"
    storage = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "example.com/never", "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    spec = {
        "storageClassName": name, "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }  # fmt: skip
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}
    kubectl.create(storage, claim)
    yield name
    Kubectl("")("delete", "storageclass", name)


def since(kubectl: Kubectl, name: str, status: str) -> datetime:
    """When the pod's condition PodScheduled took this status, in whole seconds."""
    (found,) = [
        each for each in kubectl.pod(name)["status"]["conditions"]
        if (each["type"], each["status"]) == ("PodScheduled", status)
    ]  # fmt: skip
    return datetime.fromisoformat(found["lastTransitionTime"])


def is_assumed_at_once(kubectl: Kubectl, body: dict[str, Any]) -> bool:
    """Make the pod, again if it is there; true if it was not refused before it was assumed to be on the first node.

    It may be refused until kube-scheduler knows the claim, and the ledger the end of the pods before. Its condition
    would then be older than its preemption.
    """
    name = body["metadata"]["name"]
    kubectl.gone(name)
    kubectl.create(body)
    assert eventually(lambda: kubectl.pod(name)["status"].get("nominatedNodeName") == nodes.first(), 30)
    conditions = kubectl.pod(name)["status"].get("conditions", [])
    return "PodScheduled" not in {each["type"] for each in conditions}


def test_a_pod_that_is_preempted_while_it_waits_for_a_volume_gives_back_its_cards(
    kubectl: Kubectl, important: str, unready: str
) -> None:
    """kube-scheduler deletes nobody then: it takes the pod back, before it was bound."""
    here = nodes.on(nodes.first())
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": unready}}
    low = pod("low", container(resources=slice_of(whole=4)), volumes=[volume], **here)
    assert eventually(lambda: is_assumed_at_once(kubectl, low), 60)
    kubectl.create(pod("vip", container(resources=slice_of(whole=4)), priorityClassName=important, **here))
    kubectl.running("vip")
    waited = since(kubectl, "vip", "True") - since(kubectl, "low", "False")
    assert waited <= timedelta(seconds=PATIENCE * 2 + 1), "2 s, and times are in whole seconds"
    assert "nodeName" not in kubectl.pod("low")["spec"]
