"""What placing costs the API server: one Binding for each pod, and nothing while nothing happens."""

import time
from pathlib import Path

from hack.testbed import audit
from tests.e2e.kubectl import Kubectl
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import slice_pod

PODS = 12
STEADY_SECONDS = 120


def bindings() -> int:
    """Bindings that the API server has taken, by its own count."""
    lines = Kubectl()("get", "--raw", "/metrics").splitlines()
    wanted = (
        "apiserver_request_total{",
        'resource="pods"',
        'subresource="binding"',
        'verb="POST"',
        'code="201"',
    )
    return int(sum(float(line.split()[-1]) for line in lines if all(word in line for word in wanted)))


def writes(log: Path, after: int) -> list[str]:
    """Writes by our own programs since the log had this size; kube-scheduler's events and Lease are its own."""
    return [f"{call.verb} {call.resource}" for call in audit.calls(log, after) if call.writes and call.ours]


def test_each_placed_pod_costs_one_binding(kubectl: Kubectl, log: Path) -> None:
    before, size = bindings(), log.stat().st_size
    kubectl.create(*(slice_pod(f"p{i}", mem=4, cores=15) for i in range(PODS)))
    kubectl.running()
    assert bindings() - before == PODS
    assert eventually(lambda: len(writes(log, size)) >= PODS, 30)  # the log is written in batches
    assert writes(log, size) == PODS * ["create pods/binding"]


def test_nothing_is_written_while_nothing_happens(kubectl: Kubectl, log: Path) -> None:
    kubectl.create(*(slice_pod(f"p{i}", mem=4, cores=15) for i in range(PODS)))
    kubectl.running()
    bound, size = bindings(), log.stat().st_size
    end = time.monotonic() + STEADY_SECONDS
    assert within(lambda: time.monotonic() > end, STEADY_SECONDS + 1)
    assert bindings() == bound
    # The Bindings that came before may still be on their way into the log.
    assert set(writes(log, size)) <= {"create pods/binding"}
