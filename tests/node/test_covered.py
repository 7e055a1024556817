"""When containers are looked at, and what is told of those that something covers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from device_plugin.node import mountinfo as mountinfo_of
from device_plugin.node.covered import LOOK_SECONDS, START_SECONDS, SURE_SECONDS, CoveredSlices
from tests.builders.cards import MEM
from tests.node.parts import TICKETS, Parts, Peer

TURN = 0.5


@dataclass
class Host:
    """Processes by pod, each with its mounts."""

    mounted: dict[str, dict[int, str]] = field(default_factory=dict)
    whole: bool = True
    looks: int = 0
    reads: int = 0

    def look(self) -> None:
        self.looks += 1

    def of(self, pod: str) -> Sequence[int]:
        return list(self.mounted.get(pod, {}))

    def mounts(self, process: int) -> tuple[str, bool] | None:
        self.reads += 1
        texts = [text for processes in self.mounted.values() for p, text in processes.items() if p == process]
        return (texts[0], self.whole) if texts else None

    def own_mounts(self) -> str:
        return "1 0 8:1 / / rw - ext4 sda rw\n"


def mountinfo(parts: Parts, *extra: str) -> str:
    """What is mounted in the node's one container, and `extra` lines."""
    (record,) = parts.records.all()
    lines = ["10 1 0:9 / / rw - overlay overlay rw"]
    for number, (source, path) in enumerate(parts.injector.files(record), 11):
        lines.append(f"{number} 10 8:1 {source} {path} ro - ext4 sda rw")
    return "\n".join([*lines, *extra]) + "\n"


class Watched:
    """A node with one container prepared, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.parts = Parts(folder, Peer())
        self.parts.start()
        self.host = Host()
        self.now = 0.0
        self.covered = CoveredSlices(
            self.parts.records, self.parts.injector.files, self.host, self.parts.peer, lambda: self.now
        )
        self.parts.run()

    def mountinfo(self, *extra: str) -> str:
        return mountinfo(self.parts, *extra)

    def turns(self, seconds: float) -> list[str]:
        """Let time pass; returns which pods are covered then."""
        end = self.now + seconds
        while self.now < end:
            self.now += TURN
            self.covered.step()
        return [record.pod_name for record in self.covered.found()]


@pytest.fixture
def node(tmp_path: Path) -> Watched:
    return Watched(tmp_path)


COVER = "50 10 0:99 / /usr/local/vgpu rw - tmpfs tmpfs rw"


def test_a_container_whose_library_is_covered_is_found_within_seconds_and_told_of_once(node: Watched) -> None:
    node.turns(3)
    node.host.mounted["uid-a"] = {100: "1 0 0:1 / / ro - overlay pause rw\n", 101: node.mountinfo(COVER)}
    assert node.turns(SURE_SECONDS + 2 * TURN) == ["a"]
    assert node.turns(100) == ["a"]
    ((reason, text),) = node.parts.peer.events
    assert reason == "SliceCovered a"
    assert "container main: /usr/local/vgpu/libvgpu.so is covered by a mount at '/usr/local/vgpu'" in text


def test_a_sound_container_is_looked_at_soon_and_then_seldom(node: Watched) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    assert node.turns(START_SECONDS) == []
    before = node.host.looks
    assert node.turns(10 * LOOK_SECONDS) == []
    assert node.host.looks - before == 10
    assert not node.parts.peer.events


def test_a_cover_that_comes_later_is_found(node: Watched) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    node.turns(100)
    node.host.mounted["uid-a"] = {101: node.mountinfo(COVER)}
    assert node.turns(LOOK_SECONDS + SURE_SECONDS + TURN) == ["a"]


def test_a_process_that_sees_less_than_the_others_is_enough(node: Watched) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo(), 102: node.mountinfo(COVER)}
    assert node.turns(SURE_SECONDS + 2 * TURN) == ["a"]


def test_a_runtime_that_is_still_mounting_is_given_time(node: Watched) -> None:
    half = "\n".join(node.mountinfo().splitlines()[:3]) + "\n"
    node.host.mounted["uid-a"] = {101: half}
    assert node.turns(SURE_SECONDS - TURN) == []
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    assert node.turns(60) == []


def test_a_container_that_starts_again_is_looked_at_soon_again(node: Watched) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    node.turns(START_SECONDS + 1)
    before = node.host.looks
    node.parts.allocator.pre_start(MEM, TICKETS)
    node.host.mounted["uid-a"] = {102: node.mountinfo(COVER)}
    assert node.turns(SURE_SECONDS + 2 * TURN) == ["a"]
    assert node.host.looks > before


def test_a_container_that_an_older_agent_gave_fewer_files_is_sound(node: Watched) -> None:
    (record,) = node.parts.records.all()
    ((config, path), *_) = node.parts.injector.files(record)
    lines = [line for line in node.mountinfo().splitlines(keepends=True) if path not in line]
    config.unlink()
    node.host.mounted["uid-a"] = {101: "".join(lines)}
    assert node.turns(60) == []


def test_a_list_of_mounts_too_long_to_read_is_no_way_round(node: Watched) -> None:
    node.host.mounted["uid-a"] = {101: "10 1 0:9 / / rw - overlay overlay rw\n"}
    node.host.whole = False
    assert node.turns(SURE_SECONDS + 2 * TURN) == ["a"]
    assert "so many mounts that not all were read" in node.parts.peer.events[0][1]


def test_a_cover_may_be_behind_what_is_read_of_a_container_that_is_known(node: Watched) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    node.host.whole = False
    assert node.turns(SURE_SECONDS + 2 * TURN) == ["a"]
    assert "Use fewer mounts" in node.parts.peer.events[0][1]


def test_the_mounts_of_a_container_are_examined_once_for_all_of_its_processes(
    node: Watched, mocker: MockerFixture
) -> None:
    """A tenant can make a long list, and new processes all the time."""
    examined = mocker.spy(mountinfo_of, "problem")
    for process in range(100, 160):
        node.host.mounted["uid-a"] = {process: node.mountinfo(), process + 1000: node.mountinfo()}
        node.turns(1)
    assert examined.call_count == 1


def test_what_is_gone_is_forgotten(node: Watched) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo(COVER)}
    assert node.turns(SURE_SECONDS + 2 * TURN) == ["a"]
    node.host.mounted.clear()
    node.parts.end(node.parts.peer.pods["default", "a"])
    node.parts.reclaimer.sweep()
    assert node.turns(1) == []


@pytest.mark.parametrize("seen", [{}, {101: "1 0 0:1 / / ro - overlay pause rw\n"}])
def test_a_container_that_nobody_sees_is_no_news(node: Watched, seen: dict[int, str]) -> None:
    node.host.mounted["uid-a"] = seen
    assert node.turns(100) == []
