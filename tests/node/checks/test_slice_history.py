"""Since when a slice is idle, and that it is not called idle where computing is not measured."""

from collections.abc import Iterator
from copy import copy
from pathlib import Path

import pytest

from device_plugin.node.checks.kernel_checks import LOOK_SECONDS
from device_plugin.node.checks.slice_history import MOST_PROCESSES, SURE_SECONDS, SliceFigures
from device_plugin.node.slices.records import Record
from device_plugin.node.slices.writable import USAGE
from device_plugin.node.stages.agent import TURN_SECONDS
from tests.node.kfd_tree import KfdTree
from tests.node.looping import Looping
from tests.node.owned_slot import OwnedSlot
from vgpu_runtime.sim.processes import end_process

MIB = 1 << 20


class Node(Looping):
    """A node with the container `a` on its first card. Process 7 of it uses the card as the test writes."""

    def start(self) -> "Node":
        super().start()
        self.kfd = KfdTree(self.parts.machine)
        self.card = next(iter(self.parts.cards().values()))
        self.slot = OwnedSlot(self.parts.writable.path(("uid-a", "main"), USAGE))
        return self

    def use(self, mib: int = 512, busy: int | None = 0) -> None:
        """Write the process's figures; for the library it has a slot and 512 MiB."""
        self.slot.hold(512)
        self.host.mounted["uid-a"] = {7: ""}
        self.kfd.use(7, self.card, mib, 1, busy)

    def after(self, seconds: float) -> SliceFigures:
        """The slice's history after some more seconds."""
        for turn in range(1, int(seconds / TURN_SECONDS) + 1):
            self.parts.now += TURN_SECONDS
            if turn % int(LOOK_SECONDS / TURN_SECONDS) == 0:
                self.kernel.step()
            self.kernel.sample()
        found = self.history.of(self.record(), self.card.card.uuid)
        assert found is not None
        return found

    def record(self) -> Record:
        (record,) = self.parts.records.all()
        return record

    def idle(self, seconds: float) -> float | None:
        return self.after(seconds).idle


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path)
    node.start()
    yield node
    node.slot.close()


def test_a_slice_is_idle_since_it_last_computed(node: Node) -> None:
    node.use(busy=2)
    assert (node.idle(60) or 0) < SURE_SECONDS
    node.use(busy=0)
    assert node.idle(300) == pytest.approx(300, abs=SURE_SECONDS)
    node.use(busy=1)
    assert (node.idle(1) or 0) < SURE_SECONDS, "one sample within a second is enough"


def test_a_change_of_memory_ends_an_idle_time(node: Node) -> None:
    node.use()
    assert node.idle(120) == pytest.approx(120, abs=LOOK_SECONDS + 1)
    node.slot.hold(600)
    assert (node.idle(LOOK_SECONDS) or 0) <= LOOK_SECONDS, "the library counts more"
    node.idle(120)
    node.use(mib=700)
    assert (node.idle(LOOK_SECONDS) or 0) <= LOOK_SECONDS, "the kernel counts more"


def test_where_the_driver_does_not_count_busy_units_a_slice_is_never_idle(node: Node) -> None:
    node.use(busy=None)
    assert node.idle(300) is None


def test_a_container_without_a_process_on_its_card_is_idle(node: Node) -> None:
    node.kfd.folder.mkdir(parents=True)
    assert node.idle(300) == pytest.approx(300, abs=LOOK_SECONDS + 1)


def test_a_process_that_only_the_library_knows_may_compute(node: Node) -> None:
    """The kernel's process could not be assigned to the container."""
    node.use()
    node.host.mounted.clear()
    assert node.idle(300) is None


def test_a_container_of_which_not_all_processes_are_asked_is_not_called_idle(node: Node) -> None:
    node.use()
    node.host.mounted["uid-a"] = dict.fromkeys(range(7, 8 + MOST_PROCESSES), "")
    for process in node.host.mounted["uid-a"]:
        node.kfd.use(process, node.card, 1, 1, 0)
    assert node.idle(300) is None


def test_an_idle_time_begins_again_after_a_time_without_a_measure(node: Node) -> None:
    node.use()
    node.idle(300)
    end_process(node.parts.machine, 7)
    assert node.idle(LOOK_SECONDS) is None, "the library says that it lives"
    node.use()
    assert (node.idle(120) or 0) == pytest.approx(120, abs=LOOK_SECONDS + 1)


def test_the_most_memory_is_kept_while_the_container_lives(node: Node) -> None:
    node.use()
    node.slot.hold(900)
    node.after(LOOK_SECONDS)
    node.slot.hold(100)
    found = node.after(115)
    assert found.peak_bytes == 900 * MIB
    assert found.observed == pytest.approx(120, abs=LOOK_SECONDS)


def test_where_the_library_cannot_be_read_the_kernels_memory_counts(node: Node) -> None:
    node.use(mib=300)
    node.parts.writable.path(("uid-a", "main"), USAGE).write_bytes(b"")
    assert node.after(2 * LOOK_SECONDS).peak_bytes in (300 * MIB, 512 * MIB)


def test_a_container_that_starts_again_has_a_new_history(node: Node) -> None:
    node.use()
    node.after(120)
    node.parts.records.put(copy(node.record()))
    assert node.history.of(node.record(), node.card.card.uuid) is None
    assert node.after(TURN_SECONDS + LOOK_SECONDS).observed <= LOOK_SECONDS
