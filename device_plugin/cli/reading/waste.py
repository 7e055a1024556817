"""Waste: memory that slices hold and do not need, times the duration, by the owner of their pods or by namespace.

The whole memory of an idle slice counts, for as long as the slice has been idle. Another slice counts if it has used
less than the share LITTLE of its memory: its unused memory, for as long as the node's agent has followed the slice.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from device_plugin.cli.reading.held_use import SliceUse
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB

LITTLE = 0.5
GIB_HOUR = 1024.0 * MIB * 3600


class Owner(NamedTuple):
    """The controller of pods; if that is a ReplicaSet, its Deployment. A pod without a controller is its own owner."""

    kind: str
    name: str


class WastedSlice(NamedTuple):
    """A slice that is idle, or of which little is used. `wasted` is in bytes times seconds.

    `asked_back` is the number of seconds until the pod is evicted if all of the pod's slices stay idle; None if the pod
    has no idle limit.
    """

    namespace: str
    owner: Owner
    pod: str
    container: str
    node: str
    part: Slice
    use: SliceUse
    idle: bool
    wasted: float
    asked_back: float | None = None


class Waste(NamedTuple):
    """The wasted slices of one owner, or of all owners of a namespace (then `owner` is None), the worst first."""

    namespace: str
    owner: Owner | None
    slices: Sequence[WastedSlice]

    @property
    def held(self) -> int:
        """Returns the bytes that all of the slices hold together."""
        return sum(each.part.mem_mib for each in self.slices) * MIB

    @property
    def used(self) -> float | None:
        """Returns the bytes that are used of all of the slices; None if the use of one of them is not known."""
        known = [each.use.used for each in self.slices if each.use.used is not None]
        return sum(known) if len(known) == len(self.slices) else None

    @property
    def idle(self) -> float | None:
        """Returns the longest time for which one of the slices has been idle; None if none is idle."""
        return max((each.use.idle or 0.0 for each in self.slices if each.idle), default=None)

    @property
    def wasted(self) -> float:
        """Returns the waste of all of the slices together, in bytes times seconds."""
        return sum(each.wasted for each in self.slices)


def amount(part: Slice, use: SliceUse, seconds: float) -> float:
    """Returns the waste of the slice `part`, in bytes times seconds.

    Returns 0 if the waste is not known, or has lasted less than `seconds`.
    """
    granted = float(part.mem_mib * MIB)
    idle = granted * use.idle if use.idle is not None and use.is_idle(seconds) else 0.0
    if use.peak is None or use.observed is None or use.observed < seconds or use.peak >= LITTLE * granted:
        return idle
    return max(idle, (granted - use.peak) * use.observed)


def by_owner(slices: Iterable[WastedSlice]) -> Sequence[Waste]:
    """Returns the waste of each owner, the worst first."""
    return _by(slices, lambda each: (each.namespace, each.owner))


def by_namespace(slices: Iterable[WastedSlice]) -> Sequence[Waste]:
    """Returns the waste of each namespace, the worst first."""
    return _by(slices, lambda each: (each.namespace, None))


def _by(
    slices: Iterable[WastedSlice], of: Callable[[WastedSlice], tuple[str, Owner | None]]
) -> Sequence[Waste]:
    found: dict[tuple[str, Owner | None], list[WastedSlice]] = {}
    for each in sorted(slices, key=lambda each: (-each.wasted, each.namespace, each.pod, each.container)):
        found.setdefault(of(each), []).append(each)
    return sorted((Waste(*key, parts) for key, parts in found.items()), key=lambda waste: -waste.wasted)
