"""Plans: values that name the pods to move or end, and the grants that are possible then."""

from dataclasses import dataclass

from device_plugin.core.grants import Grant
from device_plugin.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class Ranked:
    """A pod's request, or for a placed pod the request that it had then, and its priority."""

    request: PodRequest
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """A pod releases its grant `source`. `target` is its new grant; None for a victim, which ends."""

    source: Grant
    target: Grant | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, and the grants that waiting pods can get after them."""

    moves: tuple[Move, ...]
    places: tuple[Grant, ...] = ()
