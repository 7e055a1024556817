"""Another device plugin takes one of our resources on a node: it keeps it, and we get it back when it has gone."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.node.checks.other_plugins import RETURN_SECONDS
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.slices import held, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.other_plugin import OtherPlugin

pytestmark = pytest.mark.disturbs

NODE = "n1"
DCU, MEM = "hygon.com/dcu", "hygon.com/dcu-mem"
THEIRS = ["0000:21:00.0", "0000:22:00.0", "0000:23:00.0"]


def allocatable(resource: str) -> str:
    return str(nodes.get(NODE)["status"]["allocatable"].get(resource, "0"))


def open_cards() -> int:
    return [card["healthy"] for card in inventory(NODE)["cards"]].count(True)


def says_so() -> bool:
    said = [event for event in Kubectl().events(NODE) if "another device plugin serves" in event]
    return any(DCU in event and THEIRS[0] in event for event in said)


def life(kubectl: Kubectl) -> tuple[str, int]:
    """The container that runs, and how often it was restarted."""
    (status,) = kubectl.pod("sitting")["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


@pytest.fixture
def other(machines: Machines) -> Iterator[OtherPlugin]:
    """It serves on the node until the test ends."""
    pid = machines.run(NODE, "sh", "-c", "echo $PPID").strip()
    plugin = OtherPlugin(Path(f"/proc/{pid}/root/var/lib/kubelet/device-plugins"), DCU, THEIRS)
    yield plugin
    plugin.stop()


def test_the_other_plugin_keeps_it_and_what_runs_of_ours_goes_on(
    kubectl: Kubectl, request: pytest.FixtureRequest
) -> None:
    kubectl.create(slice_pod("sitting", mem=4, cores=15, **nodes.on(NODE)))
    kubectl.running("sitting")
    before, mine = life(kubectl), held(kubectl, "sitting")
    cards, units = open_cards(), str(sum(card["units"] for card in inventory(NODE)["cards"]))
    assert eventually(lambda: allocatable(MEM) == units, 30), "whatever the tests before this one did"
    other: OtherPlugin = request.getfixturevalue("other")
    assert eventually(lambda: open_cards() == 0, 30)
    assert eventually(says_so, 30)
    assert eventually(lambda: (allocatable(DCU), allocatable(MEM)) == ("3", "4"), 30)
    kubectl.create(slice_pod("refused", mem=4, cores=15, **nodes.on(NODE)))
    assert eventually(lambda: kubectl.events("refused"), 30)
    # The stream of ours that theirs replaced ends with our process: the next agent registers theirs again.
    service.signal_all(service.agent(NODE), "vgpu node", signal.SIGKILL)
    assert eventually(lambda: not other.listened_to, 30)
    assert eventually(lambda: other.listened_to, 60)
    assert eventually(lambda: (allocatable(DCU), allocatable(MEM)) == ("3", "4"), 30)
    assert kubectl.phase("refused") == "Pending"
    other.stop()
    assert eventually(lambda: open_cards() == cards and allocatable(MEM) == units, RETURN_SECONDS + 30)
    assert eventually(lambda: service.restarts(NODE) > 0, 60), "Ready again"
    kubectl.running("refused")
    assert life(kubectl) == before
    assert held(kubectl, "sitting") == mine
