"""The slices that Hygon's driver holds, compared with those of the records."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from device_plugin.node.checks.driver_slices import UNHELD_SECONDS
from device_plugin.node.checks.kernel_checks import LOOK_SECONDS
from device_plugin.node.checks.unenforced import START_SECONDS
from device_plugin.node.slices.records import Record
from device_plugin.node.slices.writable import USAGE
from tests.node.kfd_tree import KfdTree
from tests.node.looping import Looping
from tests.node.owned_slot import OwnedSlot


class Node(Looping):
    """A node with the container `a` on the first card, and a process of it."""

    def __init__(self, folder: Path, cores: Sequence[int] = (0, 1)) -> None:
        super().__init__(folder)
        self.kubelet()
        self.parts.start()
        self.peer.living.add(self.parts.run(cores=cores).uid)
        self.card = next(iter(self.parts.cards().values()))
        kfd = KfdTree(self.parts.machine)
        kfd.folder.mkdir(parents=True)
        self.host.mounted["uid-a"] = {7: ""}
        kfd.use(7, self.card, 512, 1)

    def record(self) -> Record:
        (record,) = self.parts.records.all()
        return record


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_the_drivers_limit_is_known_while_it_holds_the_slice(node: Node) -> None:
    node.check_kernel(LOOK_SECONDS)
    uuid = node.card.card.uuid
    assert node.driver.limit(node.record(), uuid) == node.record().slices[0].mem_mib << 20
    (node.parts.machine / "state/pipes").write_bytes(b"")
    node.check_kernel(LOOK_SECONDS, held=False)
    assert node.driver.limit(node.record(), uuid) is None


def test_a_process_without_a_slice_of_the_driver_for_30_s_is_unenforced(node: Node) -> None:
    """The library is loaded in it: it has a slot."""
    slot = OwnedSlot(node.parts.writable.path(("uid-a", "main"), USAGE))
    slot.hold(512)
    (node.parts.machine / "state/pipes").write_bytes(b"")
    node.check_kernel(START_SECONDS + UNHELD_SECONDS, held=False)
    slot.close()
    assert [record.pod_name for record in node.unenforced.found()] == ["a"]
    ((reason, text),) = [event for event in node.peer.events if event[0].startswith("SliceUn")]
    assert reason == "SliceUnenforced a"
    assert "its image has no runtime of the card's maker" in text


@pytest.mark.parametrize("ruined", [b"", b"\xff" * 100])
def test_who_ruins_the_usage_region_is_still_unenforced(node: Node, ruined: bytes) -> None:
    node.parts.writable.path(("uid-a", "main"), USAGE).write_bytes(ruined)
    (node.parts.machine / "state/pipes").write_bytes(b"")
    node.check_kernel(START_SECONDS + UNHELD_SECONDS, held=False)
    assert [record.pod_name for record in node.unenforced.found()] == ["a"]


def test_who_has_the_whole_card_needs_no_slice_of_the_driver(tmp_path: Path) -> None:
    groups = tuple(range(60))
    node = Node(tmp_path, groups)
    (node.parts.machine / "state/pipes").write_bytes(b"")
    node.check_kernel(START_SECONDS + UNHELD_SECONDS, held=False)
    assert not node.driver.unheld(node.record())


def test_a_foreign_slice_closes_the_card_at_the_second_look_and_its_end_opens_it(node: Node) -> None:
    uuid = node.card.card.uuid
    node.check_kernel(LOOK_SECONDS, foreign=[9])
    assert node.driver.closed() == frozenset(), "it may be one of ours that has just ended"
    node.check_kernel(LOOK_SECONDS, foreign=[9])
    assert node.driver.closed() == {uuid}
    ((_, text),) = [event for event in node.peer.events if event[0] == "CardSharedElsewhere"]
    assert text.startswith(f"card {uuid} at {node.card.card.pci}: its driver holds a slice (pipe 9)")
    assert text.endswith("Pods of ours with a slice of it: default/a")
    node.check_kernel(2 * LOOK_SECONDS)
    assert node.driver.closed() == {uuid}
    node.check_kernel(LOOK_SECONDS)
    assert node.driver.closed() == frozenset()


def test_a_limit_above_the_grant_holds_nobody(node: Node) -> None:
    end = node.parts.now + UNHELD_SECONDS
    while node.parts.now <= end:
        node.parts.now += LOOK_SECONDS
        node.hold(slack=1)
        node.kernel.step()
    assert node.driver.unheld(node.record())
