"""Containers that use a card past the library: when they are found, what is told, and what their mode adds to it."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from device_plugin.core.contract.cards import SliceState
from device_plugin.core.enforcement import Enforcement
from device_plugin.node.checks.kernel_checks import LOOK_SECONDS
from device_plugin.node.checks.unenforced import START_SECONDS, SURE_SECONDS
from device_plugin.node.slices.writable import USAGE
from tests.builders.cards import MEM
from tests.node.kfd_tree import KfdTree
from tests.node.looping import Looping
from tests.node.owned_slot import OwnedSlot
from tests.node.parts import TICKETS, config_of


class Node(Looping):
    """A node with the container `a`, whose processes the test makes. Its agent has run for START_SECONDS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.start()
        self.kfd = KfdTree(self.parts.machine)
        self.kfd.folder.mkdir(parents=True)
        self.card = next(iter(self.parts.cards().values()))
        self.slot = OwnedSlot(self.parts.writable.path(("uid-a", "main"), USAGE))
        self.check(START_SECONDS)

    def run(self, *processes: int, mib: int = 0, queues: int = 0) -> None:
        """Give the container these processes, each with this use of the card."""
        self.host.mounted["uid-a"] = dict.fromkeys(processes, "")
        for process in processes:
            self.kfd.use(process, self.card, mib, queues)

    def check(self, seconds: float) -> bool:
        """Let `seconds` pass; true if the container is found then."""
        self.check_kernel(seconds)
        return bool(self.unenforced.found())

    def told(self) -> list[str]:
        return [reason for reason, _ in self.peer.events]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    yield node
    node.slot.close()


@pytest.mark.parametrize("use", [{"mib": 1}, {"queues": 1}])
def test_what_holds_memory_or_a_queue_for_30_s_without_a_slot_is_found(
    node: Node, use: dict[str, int]
) -> None:
    node.run(7, **use)
    assert not node.check(SURE_SECONDS)
    assert node.told() == []
    assert node.check(LOOK_SECONDS)
    assert node.check(10 * SURE_SECONDS)
    ((reason, text),) = node.peer.events
    assert reason == "SliceUnenforced a"
    assert text.startswith("container main: it uses its card by the kernel's figures")


def test_a_program_that_only_looks_at_the_card_is_none(node: Node) -> None:
    """As rocm-smi: it has the driver open, and neither memory nor a queue."""
    node.run(7)
    assert not node.check(10 * SURE_SECONDS)
    assert node.told() == []


def test_a_process_with_a_slot_is_none_and_a_second_one_without_is(node: Node) -> None:
    node.slot.hold(512)
    node.run(7, mib=512)
    assert not node.check(10 * SURE_SECONDS)
    node.run(7, 8, mib=512)
    assert node.check(SURE_SECONDS + LOOK_SECONDS)


def test_work_through_the_render_node_of_a_part_of_a_card_is_found_beside_a_slot(node: Node) -> None:
    node.slot.hold(512)
    node.run(7, mib=512)
    node.host.opened[7] = [f"drm-pdev:\t{node.card.card.pci}\ndrm-engine-compute:\t1 ns\n"]
    assert not node.check(SURE_SECONDS)
    assert node.check(LOOK_SECONDS)


def test_work_through_another_cards_render_node_is_not(node: Node) -> None:
    node.run(7)
    node.host.opened[7] = ["drm-pdev:\t0000:ff:00.0\ndrm-engine-compute:\t1 ns\n"]
    assert not node.check(10 * SURE_SECONDS)


def test_processes_that_come_and_go_are_none(node: Node) -> None:
    """A driver shows a process for a moment after it has ended, and its slot is gone by then."""
    for process in range(100, 130):
        node.run(process, mib=512)
        assert not node.check(SURE_SECONDS - LOOK_SECONDS)


def test_nothing_is_found_soon_after_the_agents_own_start(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.run(7, mib=512)
    node.check(SURE_SECONDS)
    again = Looping(tmp_path, node.peer)
    again.parts.start()
    again.host.mounted = node.host.mounted
    found = []
    while again.parts.now < START_SECONDS + LOOK_SECONDS:
        again.parts.now += LOOK_SECONDS
        again.kernel.step()
        found.append((again.parts.now >= START_SECONDS, bool(again.unenforced.found())))
    assert all(late == seen for late, seen in found), found
    node.slot.close()


@pytest.mark.parametrize("ruined", [b"", b"\xff" * 100])
def test_an_unreadable_region_is_unknown_use_and_ends_nobody(node: Node, ruined: bytes) -> None:
    node.parts.writable.path(("uid-a", "main"), USAGE).write_bytes(ruined)
    node.run(7, mib=512)
    assert not node.check(10 * SURE_SECONDS)
    assert node.told() == ["SliceUseUnknown a"]


def test_it_is_over_when_the_process_is_gone_and_told_once_however_often_the_container_starts(
    node: Node,
) -> None:
    node.run(7, mib=512)
    assert node.check(SURE_SECONDS + LOOK_SECONDS)
    node.run()
    assert not node.check(LOOK_SECONDS)
    node.run(8, mib=512)
    assert node.check(SURE_SECONDS + LOOK_SECONDS)
    assert node.told() == ["SliceUnenforced a"]
    for _ in range(5):
        node.parts.starts.pre_start(MEM, TICKETS)
        assert not node.check(LOOK_SECONDS)
        assert node.check(SURE_SECONDS + LOOK_SECONDS)
    assert node.told() == ["SliceUnenforced a"]


@pytest.mark.parametrize("mode", list(Enforcement))
def test_the_container_is_told_its_mode(node: Node, mode: Enforcement) -> None:
    node.parts.shared._now = {
        uuid: replace(local, enforcement=mode) for uuid, local in node.parts.cards().items()
    }
    node.parts.starts.pre_start(MEM, TICKETS)
    assert f"\nenforcement = {mode.value}\n" in config_of(node.parts.spec(MEM, TICKETS))


@pytest.mark.parametrize("mode", list(Enforcement))
def test_the_inventory_says_by_the_familys_mode_whether_the_pod_is_to_end(
    node: Node, mode: Enforcement
) -> None:
    cards = {uuid: replace(local, enforcement=mode) for uuid, local in node.parts.cards().items()}
    node.parts.shared._now = cards
    node.run(7, mib=512)
    node.check(SURE_SECONDS + LOOK_SECONDS)
    (report,) = node.agent.reports()
    assert (report.pod, report.container, report.state) == ("uid-a", "main", SliceState.UNENFORCED)
    assert report.end == (mode is Enforcement.KILL)
