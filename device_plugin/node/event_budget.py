"""The event budget: bounds the events about the node, which a fault that comes and goes would write without end."""

from collections.abc import Callable
from dataclasses import dataclass

from device_plugin.core.annotations import MAX_CARDS
from device_plugin.core.events import Event

# Events of one reason that may be posted at once: one for each card. Then one more every REFILL_SECONDS.
BURST = MAX_CARDS
REFILL_SECONDS = 300.0


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class EventBudget:
    """A token bucket for each reason. `clock` is monotonic, in seconds. Safe only under the caller's lock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._buckets: dict[Event, _Bucket] = {}

    def take(self, event: Event) -> bool:
        """True if an event of this reason may be posted now, which is then charged."""
        now = self._clock()
        bucket = self._buckets.setdefault(event, _Bucket(BURST, now))
        bucket.left = min(BURST, bucket.left + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
