"""A slot of a usage region, owned by the test as the library in a process owns one."""

import fcntl
import os
import struct
from pathlib import Path

from vgpu_runtime import region


class OwnedSlot:
    """Slot 0 of the region at `path`, alive until it is closed."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR)
        self._live = False

    def hold(self, mib: int) -> None:
        """Write the use of the first card that the process counts."""
        if not self._live:
            lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, region.LOCK_SLOT, 1, 0)
            fcntl.fcntl(self._fd, fcntl.F_OFD_SETLK, lock)
            self._live = True
        os.pwrite(self._fd, struct.pack("<Q", mib << 20), region.USED_OFFSET)

    def close(self) -> None:
        """The process ends."""
        os.close(self._fd)
