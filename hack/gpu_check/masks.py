"""The driver's request SET_CU_MASK for a queue of this process, as the KFD's interface has it (linux/kfd_ioctl.h)."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping

SET_CU_MASK = 1 << 30 | 16 << 16 | ord("K") << 8 | 0x1A
QUEUES = 64  # numbers that are asked for: the driver gives the lowest free one

_libc = ctypes.CDLL(None, use_errno=True)
_devices: list[int] = []


class _Arguments(ctypes.Structure):
    _fields_ = (
        ("queue", ctypes.c_uint32),
        ("bits", ctypes.c_uint32),
        ("words", ctypes.c_uint64),
    )


def bits_of(units: int) -> int:
    """The number of bits in a mask for `units` compute units: the driver takes whole words of 32 bits."""
    return -(-units // 32) * 32


def words_of(mask: int, bits: int) -> ctypes.Array[ctypes.c_uint32]:
    """The words of a mask, the lowest bits first."""
    return (ctypes.c_uint32 * (bits // 32))(*(mask >> first & 0xFFFFFFFF for first in range(0, bits, 32)))


def set_mask(queue: int, mask: int, bits: int) -> int:
    """Set the mask of a queue; returns 0 or an errno: EFAULT if the process has no such queue."""
    if not _devices:
        _devices.append(os.open("/dev/kfd", os.O_RDWR | os.O_CLOEXEC))
    words = words_of(mask, bits)
    arguments = _Arguments(queue, bits, ctypes.addressof(words))
    refused = _libc.ioctl(_devices[0], ctypes.c_ulong(SET_CU_MASK), ctypes.byref(arguments))
    return ctypes.get_errno() if refused else 0


def answers(bits: int) -> dict[int, int]:
    """Set a mask of `bits` ones for each possible queue; returns 0 or an errno for each queue."""
    return {queue: set_mask(queue, (1 << bits) - 1, bits) for queue in range(QUEUES)}


def new_queues(before: Mapping[int, int], after: Mapping[int, int]) -> list[int]:
    """The queues that were made between two calls of `answers`."""
    return [queue for queue in after if before[queue] == errno.EFAULT != after[queue]]
