"""Two pools of cards, each with a planner: the replica that plans one of them hangs, and the other one goes on."""

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from device_plugin.core.contract.annotations import NOTE, POOL
from device_plugin.kube.leases import LEASES
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.queued_jobs import ENGINE, queued_on, running
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import PREFIX
from tests.requirement import require

SECONDS = 60


@pytest.fixture
def pools() -> Iterator[dict[str, str]]:
    """The pool of each node, by the node: every node is one."""
    require(len(nodes.names()) > 1, "needs a second node")
    cluster = Kubectl("")
    for node in nodes.names():
        cluster("label", "node", node, f"{POOL}={node}")
    yield {node: f"{PREFIX}/{node}" for node in nodes.names()}
    cluster("label", "node", *nodes.names(), f"{POOL}-")


def test_another_replica_plans_the_pool_of_one_that_hangs(kubectl: Kubectl, pools: dict[str, str]) -> None:
    first, other = nodes.names()[:2]
    cards = len(inventory(first)["cards"])
    kubectl.create(queued_on(first, "full", cards), queued_on(other, "elsewhere", 1))
    assert eventually(partial(running, kubectl, "full", cards), SECONDS)
    assert eventually(partial(running, kubectl, "elsewhere", 1), SECONDS)
    kubectl.create(queued_on(first, "next", 1))
    holder = eventually(lambda: planner(pools[first]), SECONDS)
    with hanging(holder):
        assert eventually(lambda: planner(pools[first]) not in ("", holder), SECONDS), "the Lease is taken"
        kubectl("delete", "job", "full", "--cascade=foreground")
        assert eventually(partial(running, kubectl, "next", 1), SECONDS), "and the pool is planned"
    assert running(kubectl, "elsewhere", 1)


def planner(pool: str) -> str:
    """The replica that holds the Lease of this pool; empty if the pool has none, or nobody holds it."""
    leases = {lease["metadata"]["name"]: lease for lease in service.SYSTEM.items(LEASES)}
    note = leases[ENGINE]["metadata"].get("annotations", {}).get(NOTE)
    numbers = json.loads(note)["pools"] if note else {}
    held = {name: leases.get(f"{ENGINE}-{number}") for number, name in numbers.items()}
    return next(
        (lease["spec"]["holderIdentity"] for name, lease in held.items() if name == pool and lease), ""
    )


@contextmanager
def hanging(replica: str) -> Iterator[None]:
    """Meanwhile no process of this replica of the engine does anything."""
    service.signal_all(replica, "vgpu job-engine", signal.SIGSTOP)
    try:
        yield
    finally:
        service.resume(replica, "vgpu job-engine")
