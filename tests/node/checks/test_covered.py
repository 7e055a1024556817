"""When containers are looked at, and what is told of those that something covers."""

from pathlib import Path

import pytest
from pytest_mock import MockerFixture

from device_plugin.node.checks import mountinfo as mountinfo_of
from device_plugin.node.checks.covered import LOOK_SECONDS, NOT_MOUNTED_SECONDS, START_SECONDS, SURE_SECONDS
from device_plugin.node.stages.agent import TURN_SECONDS
from tests.builders.cards import MEM
from tests.node.looping import COVER, Looping
from tests.node.parts import TICKETS


@pytest.fixture
def node(tmp_path: Path) -> Looping:
    return Looping(tmp_path).start()


def test_a_container_whose_library_is_covered_is_found_within_seconds_and_told_of_once(node: Looping) -> None:
    node.look(3)
    node.host.mounted["uid-a"] = {100: "1 0 0:1 / / ro - overlay pause rw\n", 101: node.mountinfo(COVER)}
    assert node.look(SURE_SECONDS + 2 * TURN_SECONDS) == ["a"]
    assert node.look(100) == ["a"]
    ((reason, text),) = node.peer.events
    assert reason == "SliceCovered a"
    assert "container main: /usr/local/vgpu/libvgpu.so is covered by a mount at '/usr/local/vgpu'" in text


def test_a_sound_container_is_looked_at_soon_and_then_seldom(node: Looping) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    assert node.look(START_SECONDS) == []
    before = node.host.looks
    assert node.look(10 * LOOK_SECONDS) == []
    assert node.host.looks - before == 10
    assert not node.peer.events


def test_a_cover_that_comes_later_is_found(node: Looping) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    node.look(100)
    node.host.mounted["uid-a"] = {101: node.mountinfo(COVER)}
    assert node.look(LOOK_SECONDS + SURE_SECONDS + TURN_SECONDS) == ["a"]


def test_a_process_that_sees_less_than_the_others_is_enough(node: Looping) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo(), 102: node.mountinfo(COVER)}
    assert node.look(SURE_SECONDS + 2 * TURN_SECONDS) == ["a"]


def test_a_runtime_that_is_still_mounting_is_given_time(node: Looping) -> None:
    half = "\n".join(node.mountinfo().splitlines()[:3]) + "\n"
    node.host.mounted["uid-a"] = {101: half}
    assert node.look(SURE_SECONDS - TURN_SECONDS) == []
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    assert node.look(60) == []


def test_a_container_that_starts_again_is_looked_at_soon_again(node: Looping) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    node.look(START_SECONDS + 1)
    before = node.host.looks
    node.parts.starts.pre_start(MEM, TICKETS)
    node.host.mounted["uid-a"] = {102: node.mountinfo(COVER)}
    assert node.look(SURE_SECONDS + 2 * TURN_SECONDS) == ["a"]
    assert node.host.looks > before


def test_a_container_that_an_older_agent_gave_fewer_files_is_sound(node: Looping) -> None:
    (record,) = node.parts.records.all()
    ((config, path), *_) = node.parts.injector.files(record)
    lines = [line for line in node.mountinfo().splitlines(keepends=True) if path not in line]
    config.unlink()
    node.host.mounted["uid-a"] = {101: "".join(lines)}
    assert node.look(60) == []


def test_a_list_of_mounts_too_long_to_read_is_no_way_round(node: Looping) -> None:
    node.host.mounted["uid-a"] = {101: "10 1 0:9 / / rw - overlay overlay rw\n"}
    node.host.whole = False
    assert node.look(SURE_SECONDS + 2 * TURN_SECONDS) == ["a"]
    assert "so many mounts that not all were read" in node.peer.events[0][1]


def test_a_cover_may_be_behind_what_is_read_of_a_container_that_is_known(node: Looping) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo()}
    node.host.whole = False
    assert node.look(SURE_SECONDS + 2 * TURN_SECONDS) == ["a"]
    assert "Use fewer mounts" in node.peer.events[0][1]


def test_the_mounts_of_a_container_are_examined_once_for_all_of_its_processes(
    node: Looping, mocker: MockerFixture
) -> None:
    """A tenant can make a long list, and new processes all the time."""
    examined = mocker.spy(mountinfo_of, "problem")
    for process in range(100, 160):
        node.host.mounted["uid-a"] = {process: node.mountinfo(), process + 1000: node.mountinfo()}
        node.look(1)
    assert examined.call_count == 1


BARE = """10 1 0:9 / / rw - overlay overlay rw
11 10 8:1 /var/lib/kubelet/pods/uid-a/containers/main/0a1b2c3d /dev/termination-log rw - ext4 sda rw
"""


def test_a_runtime_that_reads_no_spec_is_told_of_once_an_hour_on_the_node(node: Looping) -> None:
    node.host.mounted["uid-a"] = {100: "1 0 0:1 / / ro - overlay pause rw\n", 101: BARE}
    assert node.look(SURE_SECONDS - TURN_SECONDS) == []
    assert node.peer.events == []
    assert node.look(NOT_MOUNTED_SECONDS - 1) == []
    ((reason, text),) = node.peer.events
    assert reason == "CdiOff"
    assert "container main of pod default/a runs without its card" in text
    node.look(NOT_MOUNTED_SECONDS)
    assert len(node.peer.events) == 2


@pytest.mark.parametrize(
    "other", ["uid-a/containers/sidecar", "uid-b/containers/main", "uid-a/containers/main-2"]
)
def test_another_container_without_our_files_is_none_of_ours(node: Looping, other: str) -> None:
    node.host.mounted["uid-a"] = {101: BARE.replace("uid-a/containers/main", other)}
    assert node.look(100) == []
    assert node.peer.events == []


def test_a_process_that_left_our_files_behind_does_not_accuse_the_runtime(node: Looping) -> None:
    """Its container has them, and has shown it; while it is mounted it may seem bare."""
    node.host.mounted["uid-a"] = {101: BARE}
    node.look(SURE_SECONDS - 2 * TURN_SECONDS)
    node.host.mounted["uid-a"] = {101: node.mountinfo(), 102: BARE}
    assert node.look(100) == []
    node.host.mounted["uid-a"] = {102: BARE}
    assert node.look(100) == []
    assert node.peer.events == []


def test_what_is_gone_is_forgotten(node: Looping) -> None:
    node.host.mounted["uid-a"] = {101: node.mountinfo(COVER)}
    assert node.look(SURE_SECONDS + 2 * TURN_SECONDS) == ["a"]
    node.host.mounted.clear()
    node.parts.end(node.peer.pods["default", "a"])
    node.parts.reclaimer.sweep()
    assert node.look(1) == []


@pytest.mark.parametrize("seen", [{}, {101: "1 0 0:1 / / ro - overlay pause rw\n"}])
def test_a_container_that_nobody_sees_is_no_news(node: Looping, seen: dict[int, str]) -> None:
    node.host.mounted["uid-a"] = seen
    assert node.look(100) == []
