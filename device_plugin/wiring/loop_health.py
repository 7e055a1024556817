"""Health of a service: /healthz fails if one of its loops hangs."""

from collections.abc import Callable


class LoopHealth:
    """Records the turns of each loop, and reports which loops have not turned for `stuck_seconds`."""

    def __init__(self, clock: Callable[[], float], stuck_seconds: float) -> None:
        self._clock = clock
        self._stuck_seconds = stuck_seconds
        self._turned: dict[str, float] = {}

    def turn(self, loop: str) -> None:
        """Record a turn of `loop`."""
        self._turned[loop] = self._clock()

    def why_not_alive(self) -> str:
        """The loops that hang, as text; empty if none does."""
        now = self._clock()
        ages = sorted((loop, now - at) for loop, at in list(self._turned.items()))
        return "; ".join(
            f"{loop} has not turned for {age:.0f} s" for loop, age in ages if age >= self._stuck_seconds
        )
