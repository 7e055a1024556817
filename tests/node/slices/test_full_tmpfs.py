"""A real tmpfs, mounted as the node's is, against tenants who want more of it than their two small files."""

import argparse
import errno
import mmap
import os
import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from device_plugin.adapters import mounts
from device_plugin.core.errors import VgpuError
from device_plugin.core.jobs.progress import BYTES, LINE, progress_of
from device_plugin.node.slices.writable import (
    CONTAINER_BYTES,
    FOLDER,
    KINDS,
    PROGRESS,
    USAGE,
    WritableFiles,
    room,
)
from device_plugin.wiring import mount_writable
from tests.namespaces import beside, with_own_mounts
from vgpu_runtime import region

ROOM = 4
A, B = ("uid-a", "main"), ("uid-b", "main")
# Torn lines were never seen in millions of reads; this many take a second.
READS = 100_000


def mount(state: Path, containers: int = ROOM) -> None:
    """What the init container of the DaemonSet does."""
    arguments = argparse.Namespace(state_dir=str(state), containers=containers)
    assert mount_writable.run(arguments) == 0


def filled(state: Path) -> WritableFiles:
    def own(pod: str, container: str) -> Path:
        folder = state / "slices" / pod / container
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    files = WritableFiles(state, own)
    files.look()
    return files


def free(state: Path) -> int:
    return os.statvfs(state / FOLDER).f_bfree


def attempt(change: Callable[[int], object], path: Path) -> int:
    """The error number of the change of the file; 0 if it was done as far as there was space."""
    fd = os.open(path, os.O_RDWR)
    try:
        change(fd)
    except OSError as error:
        return error.errno or -1
    finally:
        os.close(fd)
    return 0


GROWTHS: tuple[Callable[[int], object], ...] = (
    lambda fd: os.pwrite(fd, b"x" * (256 << 10), 0),
    lambda fd: os.pwrite(fd, b"x", 1 << 40),
    lambda fd: os.posix_fallocate(fd, 0, 2 << 30),
    lambda fd: [os.pwrite(fd, b"x", page * 4096) for page in range(9, 100)],
    lambda fd: os.setxattr(fd, "user.more", b"x" * 60000),
)


@pytest.mark.parametrize("growth", GROWTHS)
def test_no_file_grows(tmp_path: Path, growth: Callable[[int], object]) -> None:
    def body() -> None:
        mount(tmp_path)
        files = filled(tmp_path)
        assert (files.spare(), free(tmp_path)) == (ROOM, 0)
        files.claim(A)
        for kind in KINDS:
            assert attempt(growth, files.path(A, kind)) in {0, errno.ENOSPC, errno.EOPNOTSUPP}
            assert files.path(A, kind).stat().st_blocks * 512 <= kind.size
        assert free(tmp_path) == 0
        files.release(A)
        assert (files.spare(), free(tmp_path)) == (ROOM, 0)

    with_own_mounts(body)


def test_the_tmpfs_outlives_the_agent_and_a_second_mount_changes_nothing(tmp_path: Path) -> None:
    def body() -> None:
        mount(tmp_path)
        files = filled(tmp_path)
        files.claim(A)
        path = files.path(A, PROGRESS)
        path.write_bytes(b"5 10\n")
        mount(tmp_path)
        after = filled(tmp_path)
        assert after.read(A, PROGRESS, 5) == b"5 10\n"
        after.restore()
        assert (after.spare(), free(tmp_path)) == (ROOM - 1, 0)
        mount(tmp_path, 2 * ROOM)
        after.restore()
        assert (after.spare(), free(tmp_path)) == (2 * ROOM - 1, 0)
        assert after.read(A, PROGRESS, 5) == b"5 10\n"

    with_own_mounts(body)


def test_programs_and_devices_in_it_are_none(tmp_path: Path) -> None:
    def body() -> None:
        mount(tmp_path)
        line = next(line for line in Path("/proc/self/mounts").read_text().splitlines() if FOLDER in line)
        assert {"nosuid", "nodev", "noexec"} <= set(line.split()[3].split(","))
        assert os.statvfs(tmp_path / FOLDER).f_blocks * 4096 == ROOM * CONTAINER_BYTES

    with_own_mounts(body)


def test_what_one_tenant_frees_another_may_hold_for_seconds_and_no_longer(tmp_path: Path) -> None:
    def body() -> None:
        mount(tmp_path)
        files = filled(tmp_path)
        files.claim(A)
        files.claim(B)
        os.truncate(files.path(A, USAGE), 0)
        assert free(tmp_path) == region.SIZE // 4096
        greedy = os.open(files.path(B, PROGRESS), os.O_RDWR)
        os.pwrite(greedy, b"x" * 4096 * 10, 0)
        with pytest.raises(OSError, match="No space left"):
            os.pwrite(greedy, b"x", 4096 * 10)
        # The node's other containers start all the same, and A has the blocks of its own file again.
        files.claim(("uid-c", "main"))
        assert [bool(files.cut(key)) for key in (A, B)] == [False, True]
        files.restore()
        assert free(tmp_path) == 0
        assert files.path(A, USAGE).stat().st_blocks * 512 == region.SIZE
        assert files.path(B, PROGRESS).stat().st_size == PROGRESS.size

    with_own_mounts(body)


def test_a_tenant_who_never_stops_costs_nobody_a_file(tmp_path: Path) -> None:
    """A keeps its files open and mapped, shortens and grows them, and changes their modes, all the time."""

    def hostile(files: WritableFiles, seed: int) -> None:
        chance = random.Random(seed)
        paths = [files.path(A, kind) for kind in KINDS]
        opened = [os.open(path, os.O_RDWR) for path in paths]
        mapped = mmap.mmap(opened[0], region.SIZE)
        changes: list[Callable[[int], object]] = [
            lambda fd: os.ftruncate(fd, chance.choice((0, 1, 64, 4096, 1 << 30))),
            lambda fd: os.pwrite(
                fd, b"\xff" * chance.choice((1, 64, 1 << 18)), chance.choice((0, 64, 1 << 20))
            ),
            lambda fd: os.posix_fallocate(fd, 0, chance.choice((1, 1 << 16, 1 << 22))),
            lambda fd: os.fchmod(fd, chance.choice((0, 0o777))),
            lambda fd: os.setxattr(fd, "user.a", b"x" * chance.choice((1, 5000))),
            lambda fd: os.link(f"/proc/self/fd/{fd}", paths[0].parent / "again", follow_symlinks=True),
        ]
        while True:
            with suppress(OSError, ValueError):
                chance.choice(changes)(chance.choice(opened))
            with suppress(OSError, ValueError):
                mapped.flush()

    def body() -> None:
        seed = random.randrange(2**32)
        print(f"seed {seed}")
        mount(tmp_path)
        files = filled(tmp_path)
        files.claim(A)
        with beside(lambda: hostile(files, seed)):
            for number in range(200):
                key = (f"uid-{number}", "main")
                files.claim(key)
                assert all(kind.size >= files.path(key, kind).stat().st_size for kind in KINDS), seed
                assert region.read(files.path(key, USAGE)).live_slots == 0, seed
                assert progress_of(files.read(key, PROGRESS, BYTES)) is None, seed
                progress_of(files.read(A, PROGRESS, BYTES))
                if number % 10 == 0:
                    files.cut(A)
                    files.restore()
                files.release(key)
        files.release(A)
        files.restore()
        assert (files.spare(), free(tmp_path)) == (ROOM, 0), seed

    with_own_mounts(body)


def test_a_descriptor_that_outlives_its_container_takes_an_inode_and_no_block(tmp_path: Path) -> None:
    def body() -> None:
        mount(tmp_path)
        files = filled(tmp_path)
        kept: list[int] = []

        def keep_open(number: int) -> None:
            key = (f"uid-{number}", "main")
            files.claim(key)
            kept.append(os.open(files.path(key, PROGRESS), os.O_RDWR))
            files.release(key)

        for number in range(2 * ROOM):
            keep_open(number)
        assert (files.spare(), free(tmp_path)) == (ROOM, 0)
        for fd in kept:
            with pytest.raises(OSError, match="No space left"):
                os.pwrite(fd, b"x", 0)
        for number in range(2 * ROOM, 8 * ROOM):
            keep_open(number)
        assert files.spare() < ROOM, "the inodes are bounded too"
        for fd in kept:
            os.close(fd)
        files.restore()
        assert (files.spare(), free(tmp_path)) == (ROOM, 0)

    with_own_mounts(body)


@pytest.mark.no_cover
def test_lines_are_never_read_torn(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        fd, number = os.open(path, os.O_RDWR), 0
        while True:
            number = (number * 7 + 1) % 10**14
            os.pwrite(fd, f"{f'{number} {10**15 - number}':<{LINE - 1}}\n".encode(), 0)

    def body() -> None:
        mount(tmp_path)
        files = filled(tmp_path)
        files.claim(A)
        seen: set[int] = set()
        deadline = time.monotonic() + 60
        reads = 0
        with beside(lambda: write(files.path(A, PROGRESS))):
            while reads < READS or len(seen) < 2:
                reads += 1
                assert time.monotonic() < deadline
                found = progress_of(files.read(A, PROGRESS, BYTES))
                if found is not None:
                    assert found.done + found.total == 10**15
                    seen.add(found.done)

    with_own_mounts(body)


def test_who_may_not_mount_is_told_and_the_agent_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(mounts, "tmpfs", refuse)
    mount(tmp_path)
    assert "no tmpfs at" in caplog.text
    assert "keeps usage regions and progress files on the node's disk" in caplog.text
    assert room(tmp_path / FOLDER) == 0
    with pytest.raises(VgpuError, match="--containers 5000: write 1 to 4096"):
        mount(tmp_path, 5000)
