"""When a slice's files go: not before its pod has ended and its last process is gone."""

from pathlib import Path

import pytest

from device_plugin.core.grants import Slice
from tests.node.parts import MEM, Parts, Peer

TICKETS = ("dcu-mem-0", "dcu-mem-1")


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    """A node with one container started."""
    parts = Parts(tmp_path, Peer())
    parts.start()
    pod = parts.bind("a", [Slice(parts.uuids[0], 2046, (0, 1))], {MEM: "2"})
    parts.hold(pod, {MEM: TICKETS})
    parts.allocator.pre_start(MEM, TICKETS)
    return parts


def test_a_pod_that_runs_keeps_its_files(parts: Parts) -> None:
    before = parts.left()
    assert parts.reclaimer.sweep() == 0
    assert parts.left() == before


def test_a_container_that_outlives_its_pod_keeps_its_files_until_it_is_gone(parts: Parts) -> None:
    parts.end(parts.peer.pods["default", "a"])
    parts.peer.living.add("uid-a")
    assert parts.reclaimer.sweep() == 0
    assert parts.left()
    parts.peer.living.clear()
    assert parts.reclaimer.sweep() == 1
    assert not parts.left()


def test_before_the_first_list_of_pods_nothing_is_removed(parts: Parts, tmp_path: Path) -> None:
    successor = Parts(tmp_path, parts.peer)
    successor.records.load()
    assert successor.reclaimer.sweep() == 0
    assert successor.left()


def test_what_ended_while_nobody_looked_goes_at_the_first_list(parts: Parts, tmp_path: Path) -> None:
    parts.end(parts.peer.pods["default", "a"])
    successor = Parts(tmp_path, parts.peer)
    successor.start()
    assert successor.reclaimer.sweep() == 1
    assert not successor.left()
