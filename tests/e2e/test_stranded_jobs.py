"""A node dies under Jobs of a queue, and comes back. The lane's engine waits for 5 s only: `strandedSeconds`."""

from functools import partial

from device_plugin.core.contract.annotations import RESIZE
from device_plugin.core.contract.resize import Resize
from device_plugin.kube.api import JOBS
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines, all_ready
from tests.e2e.queued_jobs import pods, queued_on, running
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.requirement import require

SECONDS = 120


def test_a_rigid_job_is_requeued_after_its_node_died_and_runs_when_it_is_back(
    kubectl: Kubectl, machines: Machines
) -> None:
    require(len(nodes.names()) > 1, "needs a second node")
    first, dying = nodes.names()[:2]
    cards = len(inventory(dying)["cards"])
    kubectl.create(queued_on(dying, "rigid", cards))
    assert eventually(partial(running, kubectl, "rigid", cards), SECONDS)
    begun = uids(kubectl, "rigid")

    machines.order(dying, "crash")
    assert eventually(lambda: kubectl.get(JOBS, "rigid")["spec"]["suspend"], SECONDS)
    stopped = Resize.decode(kubectl.get(JOBS, "rigid")["metadata"]["annotations"][RESIZE])
    assert (stopped.before, stopped.after, stopped.without_room) == (cards, 0, True)
    assert eventually(lambda: any("no room" in event for event in kubectl.events("rigid")), SECONDS)
    kubectl.create(queued_on(first, "other", 1))
    assert eventually(partial(running, kubectl, "other", 1), SECONDS), "the queue goes on"

    machines.order(dying, "boot")
    assert eventually(all_ready, SECONDS)
    assert eventually(
        lambda: running(kubectl, "rigid", cards) and not begun & uids(kubectl, "rigid"), SECONDS
    ), "it starts again once the pods that its node kept are gone"


def uids(kubectl: Kubectl, name: str) -> set[str]:
    """The UIDs of a Job's pods."""
    return {each["metadata"]["uid"] for each in pods(kubectl, name)}
