"""When a slice's files go: not before its pod has ended and its last process is gone."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from device_plugin.core.contract.cards import AGENT_SECONDS, REPORT_SECONDS
from device_plugin.core.contract.grants import Slice
from device_plugin.core.jobs.progress import BYTES
from device_plugin.node.slices.admission import NotNowError
from device_plugin.node.slices.writable import PAGE, PROGRESS, USAGE
from device_plugin.node.stages import allocate
from device_plugin.node.stages.agent import TURN_SECONDS
from tests.builders.cards import MEM
from tests.node.parts import Parts, Peer
from tests.requirement import require


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    """A node with one container started."""
    parts = Parts(tmp_path, Peer())
    parts.start()
    parts.run()
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


def outliving(parts: Parts, seconds: float) -> list[str]:
    """Pods that are reported after so much more time."""
    parts.now += seconds
    parts.reclaimer.sweep()
    return [record.pod_name for record in parts.reclaimer.outliving()]


def test_a_pod_whose_processes_end_with_it_or_a_moment_later_is_not_reported(parts: Parts) -> None:
    assert outliving(parts, 0) == []
    parts.end(parts.peer.pods["default", "a"])
    parts.peer.living.add("uid-a")
    assert outliving(parts, 1) == []
    assert outliving(parts, AGENT_SECONDS - 0.1) == []
    parts.peer.living.clear()
    assert outliving(parts, 10) == []


def test_a_pod_whose_processes_stay_is_reported_in_time_until_they_end(parts: Parts) -> None:
    assert outliving(parts, 0) == []
    parts.end(parts.peer.pods["default", "a"])
    parts.peer.living.add("uid-a")
    assert outliving(parts, TURN_SECONDS) == []
    assert outliving(parts, AGENT_SECONDS) == ["a"]
    assert AGENT_SECONDS + 2 * TURN_SECONDS < REPORT_SECONDS - 1, "the allocator waits longer than that"
    assert outliving(parts, 3600) == ["a"]
    parts.peer.living.clear()
    assert outliving(parts, 0) == []


def test_a_pod_that_failed_while_its_processes_run_is_reported_too(parts: Parts) -> None:
    assert outliving(parts, 0) == []
    parts.active.change(replace(parts.peer.pods["default", "a"], phase="Failed"), gone=False)
    parts.peer.living.add("uid-a")
    outliving(parts, TURN_SECONDS)
    assert outliving(parts, AGENT_SECONDS) == ["a"]


def test_a_successor_reports_at_once_what_its_predecessor_may_have_reported(
    parts: Parts, tmp_path: Path
) -> None:
    parts.end(parts.peer.pods["default", "a"])
    parts.peer.living.add("uid-a")
    successor = Parts(tmp_path, parts.peer)
    successor.records.load()
    assert not successor.reclaimer.ready, "it publishes nothing before it knows"
    successor.start()
    assert outliving(successor, 0) == ["a"]
    assert successor.reclaimer.ready


def test_whoever_waits_for_a_pod_that_is_gone_reads_who_lives_there(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(allocate, "WAIT_SECONDS", 0.1)
    parts.end(parts.peer.pods["default", "a"])
    parts.peer.living.add("uid-a")
    tickets = ("dcu-mem-2", "dcu-mem-3")
    parts.hold(parts.bind("b", [Slice(parts.uuids[0], 2046, (0, 1))], {MEM: "2"}), {MEM: tickets})
    with pytest.raises(
        NotNowError,
        match=r"main of pod default/a \(uid-a\), which is deleted or has ended, still runs on this slice",
    ):
        parts.starts.pre_start(MEM, tickets)


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


def test_files_that_stay_are_not_said_to_be_gone(
    parts: Parts, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    unlink = os.unlink

    def refuse(path: Any, **more: Any) -> None:
        if str(path).endswith("usage"):
            raise PermissionError(1, "Operation not permitted", str(path))
        unlink(path, **more)

    caplog.set_level("INFO")
    parts.end(parts.peer.pods["default", "a"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        assert [parts.reclaimer.sweep() for _ in range(3)] == [0, 0, 0]
    assert "so are its files" not in caplog.text
    assert caplog.text.count("cannot be removed: [Errno 1] Operation not permitted") == 1, "said once"
    assert [path.name for path in parts.left()] == ["usage"]
    assert parts.reclaimer.sweep() == 1
    assert "so are its files" in caplog.text
    assert not parts.left()
    assert not list((parts.state / "slices").iterdir())


def test_a_file_that_its_owner_grew_is_cut(parts: Parts, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(10):
        for kind in (USAGE, PROGRESS):
            path = parts.writable.path(("uid-a", "main"), kind)
            os.truncate(path, kind.size + (1 << 30))
            parts.reclaimer.trim()
            assert path.stat().st_size == kind.size
            parts.reclaimer.trim()
    said = "container main: its usage region or its progress file was 1048576 KiB too long, and was cut"
    assert caplog.text.count(f"default/a: {said}") == 2
    ((reason, text),) = parts.peer.events
    assert reason == "WritableFilesGrown a"
    assert text.startswith(f"{said}, as often before: ")
    assert "/var/run/vgpu" in text


def test_blocks_behind_the_end_are_freed(parts: Parts) -> None:
    path = parts.writable.path(("uid-a", "main"), PROGRESS)
    done = subprocess.run(["fallocate", "--keep-size", "--length", "8MiB", path], check=False)
    require(done.returncode == 0, "needs fallocate of util-linux, on a disk that can keep a file's size")
    assert path.stat().st_blocks * 512 >= 8 << 20
    parts.reclaimer.trim()
    assert (path.stat().st_size, path.stat().st_blocks * 512) == (BYTES, PAGE)


def test_a_file_that_cannot_be_cut_is_spoken_of_once(
    parts: Parts, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = parts.writable.path(("uid-a", "main"), USAGE)
    os.truncate(usage, 1 << 20)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", refuse)
        for _ in range(3):
            parts.reclaimer.trim()
    assert caplog.text.count("progress file of pod default/a may grow") == 1
    usage.unlink()
    parts.reclaimer.trim()
    assert "too long" not in caplog.text, "there is nothing to cut"
