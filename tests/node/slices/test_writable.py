"""The files that containers may write: from the tmpfs while it has any, otherwise on the node's disk.

Here a plain folder stands for the tmpfs; test_full_tmpfs.py has a real one.
"""

from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.writable import FOLDER, KINDS, PROGRESS, USAGE, WritableFiles
from tests.builders.cards import MEM
from tests.node.parts import Parts, Peer
from vgpu_runtime import region

ROOM = 3
A, B = ("uid-a", "main"), ("uid-b", "main")


class Mounted:
    """Whether the tmpfs is mounted, and for how many containers."""

    def __init__(self, room: int = ROOM) -> None:
        self.room = room

    def __call__(self, _: Path) -> int:
        return self.room


@pytest.fixture
def mounted() -> Mounted:
    return Mounted()


@pytest.fixture
def files(tmp_path: Path, mounted: Mounted) -> WritableFiles:
    (tmp_path / FOLDER).mkdir()
    return again(tmp_path, mounted)


def again(state: Path, mounted: Mounted) -> WritableFiles:
    """Those of the next agent."""
    made = WritableFiles(state, lambda pod, container: folder(state, (pod, container)), mounted)
    made.look()
    return made


def folder(state: Path, key: tuple[str, str]) -> Path:
    own = state / "slices" / key[0] / key[1]
    own.mkdir(parents=True, exist_ok=True)
    return own


def names(state: Path) -> list[str]:
    return sorted(path.name for path in (state / FOLDER).iterdir())


def on_tmpfs(files: WritableFiles, key: tuple[str, str]) -> list[bool]:
    return [files.path(key, kind).parent.name == FOLDER for kind in KINDS]


def test_a_container_gets_its_own_whole_files(files: WritableFiles, tmp_path: Path) -> None:
    assert files.spare() == ROOM
    files.claim(A)
    assert on_tmpfs(files, A) == [True, True]
    assert files.spare() == ROOM - 1
    usage, progress = (files.path(A, kind) for kind in KINDS)
    assert region.read(usage).live_slots == 0
    assert usage.stat().st_blocks * 512 >= region.SIZE
    assert progress.read_bytes() == (b" " * 63 + b"\n") * 2
    assert all(path.stat().st_mode & 0o777 == 0o666 for path in (usage, progress))
    assert not list(folder(tmp_path, A).iterdir())


def test_what_a_tenant_had_is_given_to_nobody(files: WritableFiles, tmp_path: Path) -> None:
    files.claim(A)
    path = files.path(A, PROGRESS)
    with path.open("r+b") as kept:  # as one who passed the descriptor to another pod
        kept.write(b"mine")
        kept.flush()
        files.release(A)
        assert not kept.seek(0, 2), "nothing of it is left"
        assert files.spare() == ROOM
        for key in (A, B, ("uid-c", "main")):
            files.claim(key)
            kept.seek(0)
            kept.write(b"1 1\n")
            kept.flush()
            assert files.read(key, PROGRESS, 4) == b"    "
    assert len(names(tmp_path)) == 2 * ROOM


def test_a_container_that_starts_again_gets_fresh_files(files: WritableFiles) -> None:
    files.claim(A)
    before = files.path(A, PROGRESS)
    before.write_bytes(b"9 10\n")
    files.claim(A)
    assert files.path(A, PROGRESS) == before
    assert files.read(A, PROGRESS, 5) == b"     "
    assert files.spare() == ROOM - 1


def test_more_containers_than_there_is_room_for_have_their_files_on_the_disk(
    files: WritableFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = [(f"uid-{number}", "main") for number in range(ROOM + 2)]
    for key in keys:
        files.claim(key)
    assert [on_tmpfs(files, key) for key in keys] == [[True, True]] * ROOM + [[False, False]] * 2
    assert files.path(keys[-1], USAGE) == folder(tmp_path, keys[-1]) / "region" / "usage"
    assert region.read(files.path(keys[-1], USAGE)).live_slots == 0
    assert caplog.text.count("has no file left") == 1
    files.release(keys[0])
    files.claim(keys[-1])
    assert on_tmpfs(files, keys[-1]) == [True, True]
    assert not list((folder(tmp_path, keys[-1]) / "region").iterdir())


def test_without_a_tmpfs_all_files_are_on_the_disk_and_it_is_said_once(
    files: WritableFiles, tmp_path: Path, mounted: Mounted, caplog: pytest.LogCaptureFixture
) -> None:
    mounted.room = 0
    files = again(tmp_path / "other", mounted)
    for _ in range(3):
        files.claim(A)
        files.restore()
        files.keep([A])
    assert on_tmpfs(files, A) == [False, False]
    assert files.spare() == 0
    assert caplog.text.count("is not mounted: usage regions and progress files lie on the node's disk") == 1
    files.release(A)


def test_a_container_of_an_agent_without_a_tmpfs_keeps_its_region_until_it_starts_again(
    tmp_path: Path, mounted: Mounted
) -> None:
    (tmp_path / FOLDER).mkdir()
    mounted.room = 0
    again(tmp_path, mounted).claim(A)
    mounted.room = ROOM
    files = again(tmp_path, mounted)
    files.keep([A])
    assert on_tmpfs(files, A) == [False, False]
    assert files.read(A, USAGE, 8) == b"VGPUREG1"
    files.claim(A)
    assert on_tmpfs(files, A) == [True, True]


def test_a_tmpfs_that_comes_later_or_goes_is_noticed(files: WritableFiles, mounted: Mounted) -> None:
    mounted.room = 0
    files.restore()
    assert files.spare() == 0
    files.claim(A)
    mounted.room = ROOM
    files.restore()
    assert files.spare() == ROOM
    files.claim(A)
    assert on_tmpfs(files, A) == [True, True]


def test_files_that_vanish_under_us_are_replaced_by_those_on_the_disk(
    files: WritableFiles, tmp_path: Path, mounted: Mounted
) -> None:
    for path in (tmp_path / FOLDER).iterdir():
        path.unlink()
    mounted.room = 0  # unmounted, and not looked at since
    files.claim(A)
    assert on_tmpfs(files, A) == [False, False]
    assert not names(tmp_path)


def test_a_successor_finds_what_containers_have_and_completes_the_rest(
    files: WritableFiles, tmp_path: Path, mounted: Mounted
) -> None:
    files.claim(A)
    files.claim(B)
    spare = next(name for name in names(tmp_path) if name.startswith("spare-usage"))
    (tmp_path / FOLDER / spare).rename(tmp_path / FOLDER / ".new-usage")
    successor = again(tmp_path, mounted)
    assert successor.spare() == ROOM - 2
    successor.keep([B])
    assert successor.spare() == ROOM - 1
    assert on_tmpfs(successor, B) == [True, True]
    assert len(names(tmp_path)) == 2 * ROOM
    assert not [name for name in names(tmp_path) if name.startswith(".") or "uid-a" in name]


def test_spare_files_of_another_layout_are_replaced(
    files: WritableFiles, tmp_path: Path, mounted: Mounted
) -> None:
    files.claim(A)
    of_today = names(tmp_path)
    for name in of_today:
        if name.startswith("spare-usage"):
            (tmp_path / FOLDER / name).rename(tmp_path / FOLDER / name.replace(f".{USAGE.version}-", "-"))
    successor = again(tmp_path, mounted)
    assert successor.spare() == ROOM - 1
    assert [name.rpartition("-")[0] for name in names(tmp_path)] == [
        name.rpartition("-")[0] for name in of_today
    ]
    assert on_tmpfs(successor, A) == [True, True]


def test_a_node_gives_its_tmpfs_back(tmp_path: Path) -> None:
    """Through all parts of an agent: start, restart of the container, end, and the next pod."""
    (tmp_path / "state" / FOLDER).mkdir(parents=True)
    parts = Parts(tmp_path, Peer(), room=Mounted())
    parts.start()
    pod = parts.run()
    key = parts.records.all()[0].key
    mounts = {mount.target: mount for mount in parts.spec(MEM, ("dcu-mem-0", "dcu-mem-1")).mounts}
    assert Path(mounts["/var/run/vgpu/usage"].source) == parts.writable.path(key, USAGE)
    assert Path(mounts["/var/run/vgpu/progress"].source) == parts.writable.path(key, PROGRESS)
    assert mounts["/var/run/vgpu/progress"].options == ("rw", "bind", "nosuid", "nodev", "noexec")
    assert on_tmpfs(parts.writable, key) == [True, True]
    parts.end(pod)
    assert parts.reclaimer.sweep() == 1
    assert not parts.left()
    assert parts.writable.spare() == ROOM
    tickets = ("dcu-mem-0", "dcu-mem-1")
    parts.hold(parts.bind("b", [Slice(parts.uuids[0], 2046, (0,))], {MEM: "2"}), {MEM: tickets})
    parts.starts.pre_start(MEM, tickets)
    assert on_tmpfs(parts.writable, ("uid-b", "main")) == [True, True]


def test_a_damaged_record_keeps_the_files_of_its_container(tmp_path: Path) -> None:
    (tmp_path / "state" / FOLDER).mkdir(parents=True)
    parts = Parts(tmp_path, Peer(), room=Mounted())
    parts.start()
    pod = parts.run()
    parts.peer.living.add(pod.uid)
    (parts.records.folder(*A) / "record.json").write_text("{}")
    after = Parts(tmp_path, parts.peer, room=Mounted())
    after.start()
    assert on_tmpfs(after.writable, A) == [True, True]
    after.end(pod)
    after.reclaimer.restore()
    assert after.writable.spare() == ROOM
