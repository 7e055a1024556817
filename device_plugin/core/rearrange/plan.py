"""Plans: values that say who would leave which card, and who would fit then."""

from dataclasses import dataclass

from device_plugin.core.grants import Grant
from device_plugin.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class Ranked:
    """What a pod asks for, or asked for when it was placed, and its priority."""

    request: PodRequest
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """A pod leaves what it holds. `target` is where it would go; None for a victim, which just ends."""

    source: Grant
    target: Grant | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, and what pods that wait would be granted after them."""

    moves: tuple[Move, ...]
    places: tuple[Grant, ...] = ()
