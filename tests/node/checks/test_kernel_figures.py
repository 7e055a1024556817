"""Which container the kernel's figures belong to, and what they add up to."""

import os
from pathlib import Path

import pytest

from device_plugin.adapters.processes import ProcProcesses
from device_plugin.core.contract.grants import Slice
from device_plugin.node.checks.kernel_figures import KernelFigures, KernelUse
from device_plugin.node.checks.render_scan import CONTAINER_PROCESSES
from device_plugin.node.slices.records import Record
from tests.node.kfd_tree import KfdTree
from tests.node.parts import Parts, Peer

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
OTHER = "00000000-4b5a-6978-8796-a5b4c3d2e1f0"


class Node:
    """A node with two cards, whose /proc and KFD the test writes."""

    def __init__(self, folder: Path) -> None:
        self.parts = Parts(folder, Peer())
        self.parts.start()
        self.proc = folder / "proc"
        self.proc.mkdir()
        self.kfd = KfdTree(self.parts.machine)
        self.cards = list(self.parts.shared().values())
        self.figures = KernelFigures(self.parts.records, self.parts.shared, ProcProcesses(self.proc))

    def hold(self, pod: str, container: str, *cards: int) -> Record:
        """A container that holds 4 core groups of each of these cards."""
        slices = tuple(Slice(self.parts.uuids[card], 4092, (0, 1, 2, 3)) for card in cards)
        record = Record(pod, "default", f"pod-{pod[0]}", container, slices, {}, {}, {})
        self.parts.records.put(record)
        return record

    def run(self, process: int, pod: str, cgroup: str = "cri-containerd-1.scope", of: str = "") -> None:
        """A process of the pod, with the mounts of the container `of`."""
        (self.proc / str(process)).mkdir(exist_ok=True)
        (self.proc / str(process) / "cgroup").write_text(f"0::/kubepods/burstable/pod{pod}/{cgroup}\n")
        root = f"/var/lib/kubelet/pods/{pod}/containers/{of}/1a2b"
        (self.proc / str(process) / "mountinfo").write_text(
            f"11 10 8:1 {root} /dev/termination-log rw - ext4 sda rw\n"
        )

    def look(self, record: Record) -> KernelUse:
        self.figures.look()
        return self.figures.of(record)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_without_figures_nothing_is_known_of_a_container(node: Node) -> None:
    record = node.hold(UID, "main", 0)
    assert node.look(record) == KernelUse({})
    assert node.figures.busy_units(record, node.parts.uuids[0]) is None


def test_a_container_without_a_process_on_the_card_uses_nothing(node: Node) -> None:
    record = node.hold(UID, "main", 0)
    node.kfd.folder.mkdir(parents=True)
    assert node.look(record) == KernelUse({node.parts.uuids[0]: 0})
    assert node.figures.busy_units(record, node.parts.uuids[0]) == 0


def test_the_figures_of_all_processes_of_a_container_are_added_up_by_card(node: Node) -> None:
    record = node.hold(UID, "main", 0, 1)
    first, second = node.cards
    for process, mib, busy in ((100, 512, 3), (101, 1024, 4)):
        node.run(process, UID)
        node.kfd.use(process, first, mib, queues=1, busy=busy)
    node.kfd.use(101, second, mib=0)
    node.run(102, UID)
    node.kfd.use(102, second, queues=2)
    node.run(103, UID)
    node.kfd.use(103, second)  # as rocm-smi: it has neither memory nor a queue
    use = node.look(record)
    assert use.memory_bytes == {first.card.uuid: 1536 << 20, second.card.uuid: 0}
    assert list(use.processes) == [100, 101, 102, 103]
    assert use.holders == {100, 101, 102}
    assert node.figures.busy_units(record, first.card.uuid) == 7
    assert node.figures.busy_units(record, second.card.uuid) is None, "no process of it says"


def test_the_driver_names_processes_as_the_host_does(node: Node) -> None:
    """A real process: the kernel's own cgroup file of it, moved into a pod."""
    record = node.hold(UID, "main", 0)
    own = Path(f"/proc/{os.getpid()}/cgroup").read_text()
    assert ProcProcesses(Path("/proc")).container(os.getpid()) is None, own
    node.run(os.getpid(), UID)
    node.kfd.use(os.getpid(), node.cards[0], mib=5)
    assert node.look(record).holders == {os.getpid()}


def test_a_process_of_another_pod_or_of_none_counts_for_nobody(node: Node) -> None:
    record = node.hold(UID, "main", 0)
    node.run(100, OTHER)
    for process in (100, 101):
        node.kfd.use(process, node.cards[0], mib=512)
    assert node.look(record) == KernelUse({node.parts.uuids[0]: 0})


def test_in_a_pod_with_several_slices_mounts_tell_the_container(node: Node) -> None:
    main, helper = node.hold(UID, "main", 0), node.hold(UID, "helper", 1)
    for process, cgroup, of in ((100, "c1", "main"), (101, "c2", "helper"), (102, "c3", "sidecar")):
        node.run(process, UID, cgroup, of)
        for card in node.cards:
            node.kfd.use(process, card, mib=process)
    assert node.look(main).holders == {100}
    assert node.look(helper).holders == {101}
    # A process that has left its mounts behind is still in its cgroup.
    (node.proc / "101/mountinfo").write_text("")
    assert node.look(helper).memory_bytes == {node.parts.uuids[1]: 101 << 20}
    node.parts.records.forget(UID, "main")
    node.parts.records.forget(UID, "helper")
    node.figures.look()
    assert not node.figures._names.known, "what is gone is forgotten"


def test_a_container_with_thousands_of_processes_hides_no_other(node: Node) -> None:
    crowd, alone = node.hold(UID, "main", 0), node.hold(OTHER, "main", 1)
    for process in range(1000, 1000 + 2 * CONTAINER_PROCESSES):
        node.run(process, UID)
        node.kfd.use(process, node.cards[0], mib=1)
    node.run(99999, OTHER)
    node.kfd.use(99999, node.cards[1], mib=7)
    assert node.look(crowd).memory_bytes == {node.parts.uuids[0]: CONTAINER_PROCESSES << 20}
    assert node.look(alone).memory_bytes == {node.parts.uuids[1]: 7 << 20}
