"""Health: /healthz fails if a loop of the job engine hangs."""

from collections.abc import Callable

# Seconds without a turn after which a loop counts as hung: a round makes many calls of at most 3 s each.
STUCK_SECONDS = 120.0


class LoopHealth:
    """Records the turns of each loop, and tells which loops hang."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._turned: dict[str, float] = {}

    def turn(self, loop: str) -> None:
        """Record a turn of `loop`."""
        self._turned[loop] = self._clock()

    def why_dead(self) -> str:
        """The loops that hang, as text; empty if none does."""
        now = self._clock()
        silent = {loop: now - at for loop, at in list(self._turned.items()) if now - at >= STUCK_SECONDS}
        return "; ".join(f"{loop} has not turned for {age:.0f} s" for loop, age in sorted(silent.items()))
