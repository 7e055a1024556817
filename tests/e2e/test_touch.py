"""Room that comes without an event that wakes refused pods: they are touched, as many as it serves."""

import uuid
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from device_plugin.cluster.touch import ASKED_SECONDS
from hack.testbed import audit
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod, slice_of, slice_pod

TOUCHED = "vgpu.io/touched"


@pytest.fixture
def slow() -> Iterator[str]:
    """A storage class whose volumes never come: a pod that asks for one is assumed to be on its node, and not bound."""
    name = f"slow-{uuid.uuid4().hex[:8]}"
    made = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "example.com/nobody", "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    Kubectl("").create(made)
    yield name
    Kubectl("")("delete", "storageclass", name)


def waiting_for_volume(name: str, storage: str, whole: int) -> list[dict[str, Any]]:
    """A pod of all cards of the first node, and its claim."""
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": storage,
            "resources": {"requests": {"storage": "1Mi"}},
        },
    }  # fmt: skip
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return [claim, pod(name, container(resources=slice_of(whole=whole)), volumes=volumes, **here())]


def here() -> dict[str, Any]:
    return nodes.on(nodes.first())


def refused(kubectl: Kubectl, name: str) -> bool:
    conditions = kubectl.pod(name)["status"].get("conditions", [])
    return any((c["type"], c.get("reason")) == ("PodScheduled", "Unschedulable") for c in conditions)


def bound(kubectl: Kubectl, names: Collection[str]) -> list[str]:
    """Those of these pods that have a node."""
    found = {one["metadata"]["name"] for one in kubectl.items() if "nodeName" in one["spec"]}
    return [name for name in names if name in found]


def holds(pod_name: str) -> int:
    """How many slices the leader's ledger keeps for a pod that is not bound."""
    slices = service.ledger_slices(service.leader())
    return sum(pod_name in one["pod"] and not one["bound"] for _, one in slices)


def test_a_reservation_that_ends_unbound_is_offered_to_as_many_as_it_serves(
    kubectl: Kubectl, slow: str, log: Path
) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(*waiting_for_volume("holder", slow, cards))
    assert eventually(lambda: holds("holder") == cards, 30)
    # More ask than there is room for, one of them for what no card has.
    names = [f"half-{number}" for number in range(2 * cards + 1)]
    kubectl.create(slice_pod("hopeless", mem=17, cores=60, **here()))
    for name in names:
        kubectl.create(slice_pod(name, mem=8, cores=30, **here()))
    for name in (*names, "hopeless"):
        assert eventually(partial(refused, kubectl, name), 30)
    size = log.stat().st_size
    # What it asks for is another thing now, so its reservation ends: no event of this wakes the others.
    kubectl("annotate", "pod", "holder", "vgpu.io/card-model=none")
    assert eventually(lambda: len(bound(kubectl, names)) == 2 * cards, 20), bound(kubectl, names)
    kubectl.running(*bound(kubectl, names))
    touched = {
        one["metadata"]["name"]
        for one in kubectl.items()
        if TOUCHED in one["metadata"].get("annotations", {})
    }
    # The first that are bound wake the others.
    assert touched
    assert "hopeless" not in touched
    calls = [
        call
        for call in audit.calls(log, size)
        if call.ours and call.writes and call.namespace == kubectl.namespace
    ]
    assert {f"{call.verb} {call.resource}" for call in calls} == {"create pods/binding", "patch pods/status"}
    touches = [call.at for call in calls if call.resource == "pods/status"]
    # For whom nobody asks in time, on a busy machine, his room is offered to another one.
    assert sum(at < touches[0] + ASKED_SECONDS for at in touches) <= 2 * cards
