"""The usage region: a file in which the library in a container counts the memory that each process uses.

The agent makes the file and reads it; the library writes it.

Layout and locking: include/vgpu_region.h (a test keeps the constants equal). A tenant can write anything into the file:
whatever it holds, `read` returns a RegionUsage or raises RegionError.
"""

import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x3147455255504756  # "VGPUREG1" in memory order
VERSION = 2
SLOTS = 128
CARDS = 16
PIDS_OFFSET = 1024
USED_OFFSET = 4096
DENIED_OFFSET = USED_OFFSET + CARDS * SLOTS * 8
SIZE = DENIED_OFFSET + CARDS * SLOTS * 8
LOCK_SLOT = (1 << 20) + 1
USED_MAX = 1 << 50  # more than any card holds: a slot that says so is garbage
# Seconds of CPU time after which read() gives up on a file whose many locks the kernel is slow to search.
PROBE_SECONDS = 0.005

_HEADER = struct.Struct("<QIIII")
_HEAD = (MAGIC, VERSION, SLOTS, CARDS, SIZE)
_MATRIX = struct.Struct(f"<{CARDS * SLOTS}Q")
_FLOCK = struct.Struct("hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid


class RegionError(ValueError):
    """The usage region cannot be read: wrong size or format, impossible values, or too many locks."""


@dataclass(frozen=True, slots=True)
class RegionUsage:
    """The use of cards by the live processes of a container.

    `used_bytes[i]` and `denied[i]` belong to the i-th card of vgpu.conf. `denied` counts refused allocations since the
    region file was made; `live_slots` counts processes that use a card through the library now.
    """

    used_bytes: tuple[int, ...]
    denied: tuple[int, ...]
    live_slots: int


def create(path: Path) -> None:
    """Create an empty region (file of counters) at `path`, with its disk blocks allocated; replaces an old file.

    Mode 0666: any user in the container writes. Raises OSError, on a full filesystem too.
    """
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
        file.write(_HEADER.pack(*_HEAD))
        file.flush()
        os.posix_fallocate(file.fileno(), 0, SIZE)
        os.fchmod(file.fileno(), 0o666)


def read(path: Path, clock: Callable[[], float] = time.thread_time) -> RegionUsage:
    """The memory that live processes use, and the number of refused allocations of all processes.

    Each process counts in its own slot (a column of counters) of the region, and the results are sums over slots. A
    process is alive while it holds the lock of its slot. Never blocks. Raises RegionError, or OSError if there is no
    file.

    If the search for locks takes longer than PROBE_SECONDS, RegionError is raised. `clock` measures CPU time, so that
    waiting on a busy machine does not count.
    """
    with _opened(path, os.O_RDONLY) as fd:
        data = os.pread(fd, SIZE + 1, 0)
        if len(data) != SIZE:
            raise RegionError(f"{path} has {'more' if len(data) > SIZE else 'fewer'} than {SIZE} bytes")
        if _HEADER.unpack_from(data) != _HEAD:
            raise RegionError(f"{path} does not begin as a usage region of version {VERSION}")
        live = _live_slots(fd, clock)
    used, denied = _matrix(data, USED_OFFSET), _matrix(data, DENIED_OFFSET)
    if any(used[card * SLOTS + slot] > USED_MAX for card in range(CARDS) for slot in live):
        raise RegionError(f"{path} claims more memory than a card can have")
    return RegionUsage(
        used_bytes=tuple(sum(used[card * SLOTS + slot] for slot in live) for card in range(CARDS)),
        denied=tuple(sum(denied[card * SLOTS : (card + 1) * SLOTS]) for card in range(CARDS)),
        live_slots=len(live),
    )


def _matrix(data: bytes, offset: int) -> tuple[int, ...]:
    return _MATRIX.unpack_from(data, offset)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


def locked(fd: int, byte: int) -> bool:
    """True if a process holds a lock on this byte of the file; the kernel drops the lock when the process ends."""
    return _first_lock(fd, byte, byte + 1) is not None


def _live_slots(fd: int, clock: Callable[[], float]) -> list[int]:
    """The numbers of the slots (columns of counters) whose processes are alive: each process holds a lock on its slot.

    Raises RegionError if the search takes too long. In each query the kernel searches all locks of the file, and a
    tenant can make any number of them, so queries must be few. A query returns one lock in a range of slots, or none;
    the search then goes on in the ranges on both sides of the lock.
    """
    end, found = clock() + PROBE_SECONDS, list[int]()
    ranges = [(LOCK_SLOT, LOCK_SLOT + SLOTS)]
    while ranges:
        first, behind = ranges.pop()
        lock = _first_lock(fd, first, behind)
        if lock is not None:
            low, high = max(lock[0], first), min(lock[1], behind)
            found += [byte - LOCK_SLOT for byte in range(low, high)]
            ranges += [part for part in ((first, low), (high, behind)) if part[0] < part[1]]
        if ranges and clock() > end:
            raise RegionError("the file has so many locks that its processes cannot be counted in time")
    return found


def _first_lock(fd: int, first: int, behind: int) -> tuple[int, int] | None:
    """The first byte of a lock, and the byte after its end; None if no lock is from `first` to before `behind`."""
    query = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, first, behind - first, 0)
    kind, _, start, length, _ = _FLOCK.unpack(fcntl.fcntl(fd, fcntl.F_OFD_GETLK, query))
    if kind == fcntl.F_UNLCK:
        return None
    return start, start + length if length else behind  # 0: up to the end of any file
