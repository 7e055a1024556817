"""A token bucket: it limits how often something may happen, on average and at once."""

from collections.abc import Callable


class TokenBucket:
    """Gives `per_second` tokens on average, and at most `burst` at once; at first `burst` tokens are there.

    `clock` is monotonic, in seconds. Callers hold a lock of their own.
    """

    def __init__(self, per_second: float, burst: float, clock: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._left, self._at = burst, clock()

    def take(self, keep: float = 0.0) -> bool:
        """Take one token, and leave at least `keep`; returns false, and takes none, if there are too few."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._at) * self._per_second)
        self._at = now
        if self._left < 1 + keep:
            return False
        self._left -= 1
        return True
