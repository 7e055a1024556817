"""Tickets are reused many times by pods that one failed start ends for good: none of them fails to start."""

import os
from typing import Any

from device_plugin.kube.api import Kind
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PREFIX, job, slice_pod

JOBS = Kind("batch", "v1", "jobs", "Job", dict)
REUSES = int(os.environ.get("VGPU_E2E_REUSES", "60"))
# Tickets of each pod: the only ones of its node that others leave.
MEM, CORES = 1, 2


def offered(node: str) -> tuple[int, int]:
    """Memory units and core groups of the node that pods may ask for."""
    allocatable = nodes.get(node)["status"]["allocatable"]
    return int(allocatable.get(f"{PREFIX}-mem", 0)), int(allocatable.get(f"{PREFIX}-cores", 0))


def fill(kubectl: Kubectl, node: str) -> None:
    """Hold every ticket of a node but MEM and CORES of them."""
    sizes = [(card["units"], card["coreGroups"]) for card in inventory(node)["cards"]]
    full = sum(units for units, _ in sizes), sum(groups for _, groups in sizes)
    assert eventually(lambda: offered(node) == full, 30), (offered(node), full)
    sizes[-1] = (sizes[-1][0] - MEM, sizes[-1][1] - CORES)
    kubectl.create(*(slice_pod(f"{node}-{i}", *size, **nodes.on(node)) for i, size in enumerate(sizes)))


def end(pod: Any) -> str:
    """Completed, or the phase, the reason and the message of a pod that did not complete."""
    status = pod["status"]
    (container,) = status.get("containerStatuses") or [{"state": {}}]
    (state,) = container["state"].values() or [{}]
    if state.get("reason") == "Completed":
        return "Completed"
    told = (
        state.get("reason") or status.get("reason", ""),
        state.get("message") or status.get("message", ""),
    )
    return f"{pod['metadata']['name']} {status['phase']}: {': '.join(told)}"


def test_no_start_fails_where_tickets_are_used_again(kubectl: Kubectl) -> None:
    """A CDI spec that the runtime has not read again names files of the pod before: such a start would fail."""
    for node in nodes.names():
        fill(kubectl, node)
    kubectl.running()
    short = slice_pod("short", MEM, CORES, command=["true"])
    kubectl.create(
        job("short", short, completions=REUSES, parallelism=len(nodes.names()), backoffLimit=REUSES)
    )
    complete = eventually(lambda: kubectl.get(JOBS, "short")["status"].get("succeeded") == REUSES, 2 * REUSES)
    # Of a pod that ended, only its own start can have failed: nothing restarts it.
    failed = [told for told in map(end, kubectl.items(labels="app=short")) if told != "Completed"]
    assert not failed
    assert complete, f"not {REUSES} pods in time"
