"""Usage regions as a tenant may leave them."""

import fcntl
import os
import random
import struct
from contextlib import ExitStack
from pathlib import Path

from vgpu_runtime import region
from vgpu_runtime.region import RegionError

_VALUES = (0, 1, region.USED_MAX, region.USED_MAX + 1, 1 << 63, (1 << 64) - 1)


def read_damaged(path: Path, rng: random.Random) -> None:
    """Let the agent read a new region at `path` with a few random changes, locks and another length.

    Raises what the agent does not expect: anything but RegionError, AssertionError where the figures cannot be true.
    """
    region.create(path)
    with ExitStack() as locks, path.open("r+b") as file:
        for _ in range(rng.randrange(64)):
            at = rng.randrange(32) if rng.random() < 0.02 else rng.randrange(region.SIZE)
            os.pwrite(file.fileno(), struct.pack("<Q", rng.choice(_VALUES))[: rng.randint(1, 8)], at)
        for _ in range(rng.randrange(8)):
            owner = locks.enter_context(path.open("r+b"))
            first, length = region.LOCK_SLOT - 1 + rng.randrange(region.SLOTS + 8), rng.choice([1, 1, 7, 0])
            kind = rng.choice([fcntl.F_RDLCK, fcntl.F_WRLCK])
            try:
                fcntl.fcntl(
                    owner, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, first, length, 0)
                )
            except BlockingIOError:
                continue  # another of these has it
        if rng.random() < 0.1:
            os.truncate(path, rng.randrange(2 * region.SIZE))
        try:
            usage = region.read(path)
        except RegionError:
            return
    assert len(usage.used_bytes) == len(usage.denied) == region.CARDS
    assert 0 <= usage.live_slots <= region.SLOTS
    assert all(0 <= used <= usage.live_slots * region.USED_MAX for used in usage.used_bytes)
