"""Ids of slices between two starts of a container that asked by a claim."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.core.pods import Pod
from device_plugin.node.stages.renew import SEEK_SECONDS, Renewer
from tests.builders.cards import MEM
from tests.node.parts import TICKETS, Host, Parts, Peer
from vgpu_runtime import vdev

SANDBOX, MAIN, AGAIN = 5, 7, 9


class Pods(Host):
    """Processes of which each is a container's only one."""

    def of(self, pod: str, most: int | None = None) -> Sequence[int]:
        assert most == 1, "one of each container is enough"
        return super().of(pod)

    def container(self, process: int) -> tuple[str, str] | None:
        found = super().container(process)
        return (found[0], f"cgroup-{process}") if found else None


class Node:
    """A node with a container `main` of pod `a`, whose processes come and go as the test says."""

    def __init__(self, folder: Path) -> None:
        self.parts = Parts(folder, Peer())
        self.parts.start()
        self.host = Pods()
        parts = self.parts
        self.renewer = Renewer(
            parts.records, parts.active, self.host, parts.injector, parts.starter, lambda: self.parts.now
        )

    def bind(self) -> Pod:
        pod = self.parts.bind_claims("a", {"main": [Slice(self.parts.uuids[0], 4092, (0, 1, 2))]})
        self.parts.prepare(pod)
        return pod

    def step(self, *processes: int, seconds: float = SEEK_SECONDS) -> tuple[int, int]:
        """After some time these processes run; returns the pipe in the record, and that in the file."""
        own = "/pods/uid-a/containers/main/0 /dev/termination-log rw - ext4 sda rw\n"
        texts = dict.fromkeys(processes, "1 0 8:1 / / rw - ext4 sda rw\n")
        texts |= {process: f"1 0 8:1 {own}" for process in processes if process != SANDBOX}
        self.host.mounted = {"uid-a": texts}
        self.parts.now += seconds
        self.renewer.step()
        return self.pipes()

    def pipes(self) -> tuple[int, int]:
        (record,) = self.parts.records.all()
        file = self.parts.records.folder(*record.key) / "vdev0.conf"
        return record.vendor_ids[self.parts.uuids[0]], vdev.pipe_of(file.read_text()) or 0


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_container_that_ended_has_another_pipe_before_it_starts_again(node: Node) -> None:
    node.bind()
    inode = file_of(node).stat().st_ino
    before = node.pipes()
    assert node.step(SANDBOX) == before
    assert node.step(SANDBOX, MAIN) == before
    after = node.step(SANDBOX)
    assert after[0] == after[1] != before[0]
    assert file_of(node).stat().st_ino == inode, "a container that is just being created sees it"
    assert node.step(SANDBOX) == after, "once for each end"
    assert node.step(SANDBOX, AGAIN) == after
    assert node.step(SANDBOX) != after


@pytest.mark.parametrize("then", [(SANDBOX, AGAIN), (SANDBOX, MAIN)], ids=["started again", "runs on"])
def test_the_pipe_of_a_container_that_runs_is_left_alone(node: Node, then: Sequence[int]) -> None:
    node.bind()
    before = node.pipes()
    node.step(SANDBOX, MAIN)
    assert node.step(*then) == before


def test_a_pod_that_ends_is_left_alone(node: Node) -> None:
    pod = node.bind()
    before = node.pipes()
    node.step(SANDBOX, MAIN)
    node.parts.active.change(pod, gone=True)
    assert node.step(SANDBOX) == before


def test_containers_without_a_claim_are_not_looked_at(node: Node) -> None:
    node.parts.run(tickets=TICKETS)
    assert [record.claim for record in node.parts.records.all()] == [""], MEM
    node.step(SANDBOX, MAIN)
    node.step(SANDBOX)
    assert node.host.looks == 0


def file_of(node: Node) -> Path:
    (record,) = node.parts.records.all()
    return node.parts.records.folder(*record.key) / "vdev0.conf"
