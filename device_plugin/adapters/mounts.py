"""Calls mount(2) for the tmpfs that vgpu mounts on a node."""

import ctypes
import os
from pathlib import Path

_NOSUID, _NODEV, _NOEXEC, _REMOUNT = 2, 4, 8, 32


def tmpfs(folder: Path, size: int, inodes: int, *, again: bool = False) -> None:
    """Mount a tmpfs of `size` bytes and `inodes` at `folder`; with `again`, resize the existing one.

    Programs in it cannot run, and devices in it cannot be opened. Raises OSError, also for a size below the used bytes.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    flags = _NOSUID | _NODEV | _NOEXEC | (_REMOUNT if again else 0)
    options = f"size={size},nr_inodes={inodes},mode=755,huge=never".encode()
    if libc.mount(b"vgpu", os.fsencode(folder), b"tmpfs", ctypes.c_ulong(flags), options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
