"""Writable: the files that a container may write, on a tmpfs of the node that is always exactly full.

A process that can write a file can also make it longer. So every block of the tmpfs belongs to a file that exists
already: a spare file, or the file of a container. A spare file is complete before a container gets it by a rename. The
name of a spare file has the version of its layout, because the library in a new container knows one layout: an agent of
another version replaces spare files. A file that a tenant could write is removed afterwards, and never given to another
container: a process may still have it open, or have changed its owner. All files lie in one folder, so only files take
inodes. The file names are the only state: from them `look` finds the files that a killed agent has left.

Where the tmpfs is not mounted, or has no spare file left, a container's files lie in its folder on the node's disk.
There the agent frees every few seconds the blocks beyond the size of each file.
"""

import contextlib
import errno
import logging
import os
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from device_plugin.core.jobs.progress import BYTES, LINE
from vgpu_runtime import region

log = logging.getLogger(__name__)

FOLDER = "writable"
"""The folder of the tmpfs, below the agent's state folder."""
# The part of a container's own folder with the files that lie on the disk.
ON_DISK = "region"
PAGE = 4096
# More containers than a node has: the kubelet counts 4,096 tickets.
MOST_CONTAINERS = 4096
# A tenant's lease on a file must not make us wait (O_NONBLOCK).
_CAREFUL = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
# How names begin: files that are being made, and spare ones. Files of containers are kind_pod_container.
_NEW, _SPARE = ".new-", "spare-"

Key = tuple[str, str]
"""Pod UID and container name."""


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file that every container has. `size` is in bytes, whole pages; `create` makes such a file at a path.

    The first `held` bytes get their disk blocks back where a tenant has freed them. `version` is the version of the
    layout.
    """

    name: str
    version: int
    size: int
    held: int
    create: Callable[[Path], None]

    @property
    def spare(self) -> str:
        """The prefix of the names of spare files of this kind."""
        return f"{_SPARE}{self.name}.{self.version}-"


def _create_progress(path: Path) -> None:
    blank = b" " * (LINE - 1) + b"\n"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(blank * (BYTES // LINE))
        file.flush()
        os.fchmod(file.fileno(), 0o666)


USAGE = FileKind("usage", region.VERSION, region.SIZE, region.SIZE, region.create)
PROGRESS = FileKind("progress", 1, PAGE, 1, _create_progress)
KINDS = (USAGE, PROGRESS)
_HELD = tuple(f"{kind.name}_" for kind in KINDS)
CONTAINER_BYTES = sum(kind.size for kind in KINDS)
"""Bytes of all files of one container."""


def room(folder: Path) -> int:
    """The number of containers whose files the tmpfs at `folder` holds; 0 if nothing is mounted there."""
    if not os.path.ismount(folder):
        return 0
    found = os.statvfs(folder)
    return min(found.f_blocks * found.f_frsize // CONTAINER_BYTES, MOST_CONTAINERS)


class WritableFiles:
    """The writable files of all containers.

    Safe from any thread, if no two threads claim or release files of one container. `own` returns the folder of a
    container; tests replace `room`.
    """

    def __init__(
        self, state: Path, own: Callable[[str, str], Path], room: Callable[[Path], int] = room
    ) -> None:
        self._folder = state / FOLDER
        self._own = own
        self._room_of = room
        self._lock = threading.Lock()
        self._room = 0
        # By kind, the number of its files on the tmpfs, and the paths of those that are spare.
        self._count = dict.fromkeys(KINDS, 0)
        self._spare: dict[FileKind, list[Path]] = {kind: [] for kind in KINDS}
        self._number = 0
        self._said = ""

    def look(self) -> None:
        """Find the files on the tmpfs, if it is mounted now, and make the missing spare files. Raises OSError.

        Unfinished files, and spare files of another layout, are removed.
        """
        with self._lock:
            self._look()

    def spare(self) -> int:
        """The number of further containers for which spare files are on the tmpfs; 0 if it is not mounted."""
        return min(len(spare) for spare in self._spare.values())

    def path(self, key: Key, kind: FileKind) -> Path:
        """The path of the container's file: on the tmpfs if it is there, else on the disk, where it may be missing."""
        held = self._held(key, kind)
        return held if held.exists() else self._on_disk(key, kind)

    def claim(self, key: Key) -> None:
        """Give the container new files, in place of the files of its previous start. Raises OSError."""
        with self._lock:
            self._release(key)
            for kind in KINDS:
                on_disk = self._on_disk(key, kind)
                if self._take(key, kind):
                    on_disk.unlink(missing_ok=True)
                else:
                    on_disk.parent.mkdir(exist_ok=True)
                    kind.create(on_disk)

    def release(self, key: Key) -> None:
        """Remove the container's files from the tmpfs; its folder still has the files on the disk. Raises OSError."""
        with self._lock:
            self._release(key)

    def keep(self, keys: Collection[Key]) -> None:
        """Remove the files on the tmpfs of all containers that are not in `keys`, such as files left by a crash.

        Raises OSError.
        """
        with self._lock:
            held = self._names(*_HELD) if self._room else []
            for key in {_key(name) for name in held} - set(keys):
                self._release(key)

    def cut(self, key: Key) -> int:
        """Free the blocks beyond the proper size of the container's files; returns the freed bytes. Raises OSError."""
        return sum(self._cut(key, kind) for kind in KINDS)

    def restore(self) -> None:
        """Notice a mount or unmount of the tmpfs, and give the free blocks of the tmpfs back to the files on it.

        Blocks are free where a tenant has shortened a file or punched a hole into it. Call it after all files were cut.
        """
        with self._lock:
            if self._room_of(self._folder) != self._room:
                self._look()
            if self._room and os.statvfs(self._folder).f_bfree:
                for kind in KINDS:
                    for name in self._names(f"{kind.name}_"):
                        _refill(self._folder / name, kind)
                self._fill()

    def usage(self, key: Key) -> region.RegionUsage | None:
        """The container's use as its library counts it; None if the file is unreadable: tenants can ruin it."""
        try:
            return region.read(self.path(key, USAGE))
        except (region.RegionError, OSError):
            return None

    def read(self, key: Key, kind: FileKind, size: int) -> bytes:
        """The first `size` bytes of a container's file of this kind; empty if it cannot be read. Never blocks."""
        try:
            fd = os.open(self.path(key, kind), os.O_RDONLY | _CAREFUL)
        except OSError:
            return b""
        try:
            return os.pread(fd, size, 0)
        except OSError:
            return b""
        finally:
            os.close(fd)

    def _look(self) -> None:
        self._room = self._room_of(self._folder)
        for kind in KINDS:
            spare = [self._folder / name for name in self._names(kind.spare)] if self._room else []
            held = self._names(f"{kind.name}_") if self._room else []
            self._spare[kind], self._count[kind] = spare, len(spare) + len(held)
            self._number = max([self._number, *(int(path.name.rpartition("-")[2]) for path in spare)])
        if not self._room:
            self._say(
                f"{self._folder} is not mounted: usage regions and progress files lie on the node's disk, where a"
                " container can make them longer for some seconds. The init container `writable` mounts it"
            )
            return
        self._said = ""
        known = tuple(kind.spare for kind in KINDS)
        for name in self._names(_NEW, _SPARE):
            if not name.startswith(known):
                (self._folder / name).unlink(missing_ok=True)
        self._fill()
        log.info("%s has files for %d containers, %d of them spare", self._folder, self._room, self.spare())

    def _fill(self) -> None:
        """Make spare files until the tmpfs has the files of `room` containers, or has no free block or inode."""
        if min(self._count.values()) >= self._room or self._room_of(self._folder) != self._room:
            return
        for kind in KINDS:
            while self._count[kind] < self._room:
                fresh = self._folder / f"{_NEW}{kind.name}"
                try:
                    kind.create(fresh)
                except OSError as error:
                    fresh.unlink(missing_ok=True)
                    if error.errno != errno.ENOSPC:
                        raise
                    break  # a tenant has blocks that another has freed, or keeps a removed file open
                self._number += 1
                spare = fresh.rename(self._folder / f"{kind.spare}{self._number}")
                self._count[kind] += 1
                self._spare[kind].append(spare)

    def _take(self, key: Key, kind: FileKind) -> bool:
        """Make a spare file the container's file, by a rename; returns false if there is no spare file."""
        while self._spare[kind]:
            with contextlib.suppress(FileNotFoundError):  # unmounted meanwhile
                self._spare[kind].pop().rename(self._held(key, kind))
                self._said = ""
                return True
        if self._room:
            self._say(f"{self._folder} has no file left: further containers have theirs on the node's disk")
        return False

    def _release(self, key: Key) -> None:
        for kind in KINDS:
            held = self._held(key, kind)
            # Whoever has it open still keeps its inode, but no block.
            with contextlib.suppress(OSError):
                os.close(os.open(held, os.O_WRONLY | os.O_TRUNC | _CAREFUL))
            with contextlib.suppress(FileNotFoundError):
                held.unlink()
                self._count[kind] -= 1
        if self._room:
            self._fill()

    def _cut(self, key: Key, kind: FileKind) -> int:
        path = self.path(key, kind)
        # A file on the disk may have a block for its own list of blocks.
        most = kind.size + (0 if path.parent == self._folder else PAGE)
        try:
            found = path.lstat()
            if found.st_size <= kind.size and found.st_blocks * 512 <= most:
                return 0
            fd = os.open(path, os.O_RDWR | _CAREFUL)
        except FileNotFoundError:  # not claimed yet, or just released
            return 0
        try:
            os.ftruncate(fd, min(found.st_size, kind.size))
        finally:
            os.close(fd)
        return max(found.st_size, found.st_blocks * 512) - kind.size

    def _names(self, *begin: str) -> list[str]:
        """The names of the files on the tmpfs that begin with one of these texts."""
        return sorted(entry.name for entry in os.scandir(self._folder) if entry.name.startswith(begin))

    def _held(self, key: Key, kind: FileKind) -> Path:
        return self._folder / f"{kind.name}_{key[0]}_{key[1]}"

    def _on_disk(self, key: Key, kind: FileKind) -> Path:
        return self._own(*key) / ON_DISK / kind.name

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            log.warning("%s", text)


def _key(name: str) -> Key:
    pod, _, container = name.partition("_")[2].rpartition("_")
    return pod, container


def _refill(path: Path, kind: FileKind) -> None:
    """Give the file the blocks that a tenant took from it, as long as blocks are free."""
    try:
        if path.lstat().st_blocks * 512 >= kind.size:
            return
        fd = os.open(path, os.O_RDWR | _CAREFUL)
    except OSError:  # just released, or its tenant holds a lease on it
        return
    try:
        os.posix_fallocate(fd, 0, kind.held)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(fd)
