"""The use of slices as values: of one slice, and of several that are held together, by a card, a node or a pod.

A slice is idle if its node's agent says so for IDLE_SECONDS or longer. Then nothing of it is in use, whatever memory
its container still holds.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB
from device_plugin.core.idle import IDLE_SECONDS


class SliceUse(NamedTuple):
    """A container's use of its slice of a card: bytes of memory, their limit, and the busy share of its core groups.

    `idle` are the seconds since it last computed or allocated, and `peak` is the most memory that it used in the last
    `observed` seconds. An unknown value is None.
    """

    namespace: str
    pod: str
    container: str
    node: str
    card: str
    used: float | None
    limit: float | None
    compute: float | None
    idle: float | None = None
    peak: float | None = None
    observed: float | None = None

    def is_idle(self, seconds: float = IDLE_SECONDS) -> bool:
        """True if the slice has been idle for this time."""
        return self.idle is not None and self.idle >= seconds


SliceKey = tuple[str, str, str, str]
"""Namespace, pod, container and card."""


class HeldUse(NamedTuple):
    """The use of slices that are held together: bytes of memory in use, and busy core groups.

    `unused` are the bytes that are granted and not in use, all bytes of an idle slice included. `idle` counts the idle
    slices. A sum is None if it is not known for one of the slices.
    """

    used: float | None = None
    busy: float | None = None
    unused: float | None = None
    idle: int = 0


UNKNOWN = HeldUse()
NOTHING = HeldUse(0.0, 0.0, 0.0)


def whole_bytes(size: float | None) -> int | None:
    """Returns a size as a whole number for -o json, because shells do not compute with fractions; None stays None."""
    return None if size is None else round(size)


def slice_figures(use: SliceUse | None) -> Mapping[str, float | None]:
    """Returns the use of one slice as keys for -o json; all are None if it is not known."""
    return {
        "usedBytes": whole_bytes(use.used) if use else None, "compute": use.compute if use else None,
        "idleSeconds": use.idle if use else None, "peakBytes": whole_bytes(use.peak) if use else None,
        "observedSeconds": use.observed if use else None,
    }  # fmt: skip


def of_slice(part: Slice, use: SliceUse | None) -> HeldUse:
    """Returns the use of one slice; UNKNOWN if `use` is None. Unused memory is counted from the granted size."""
    if use is None:
        return UNKNOWN
    granted, idle = float(part.mem_mib * MIB), use.is_idle()
    unused = granted if idle else None if use.used is None else max(0.0, granted - use.used)
    busy = use.compute * len(part.cores) if use.compute is not None else None
    return HeldUse(use.used, busy, unused, int(idle))


def together(uses: Iterable[HeldUse]) -> HeldUse:
    """Returns the sum of the uses of several slices; a figure that is unknown for one of the slices is None."""
    total = NOTHING
    for use in uses:
        total = HeldUse(
            sum_if_known(total.used, use.used),
            sum_if_known(total.busy, use.busy),
            sum_if_known(total.unused, use.unused),
            total.idle + use.idle,
        )
    return total


def sum_if_known(one: float | None, other: float | None) -> float | None:
    """Returns the sum of two amounts; None if one of them is not known."""
    return one + other if one is not None and other is not None else None
