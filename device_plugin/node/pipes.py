"""Pipes of Hygon's cards: each live slice of a card has its own.

The driver needs about a second to let go of a pipe, so one that a slice has left rests for that long.
"""

import time
from collections.abc import Callable, Collection, Mapping

from vgpu_runtime import vdev

REST_SECONDS = 1.0


class Pipes:
    """The pipes of all cards. Not safe for threads: the caller locks. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, int] = {}
        self._left: dict[tuple[str, int], float] = {}

    def left(self, pipes: Mapping[str, int]) -> None:
        """A slice has just left these pipes, by card."""
        self._left.update(dict.fromkeys(pipes.items(), self._clock()))

    def take(self, card: str, live: Collection[int], previous: int | None = None) -> int | None:
        """A pipe that no slice of the card has now or had a second ago; None if there is none at this moment.

        `live` are the pipes of the card's other slices, `previous` is the one that a restarted container had.
        """
        now = self._clock()
        if previous is not None:
            self._left.setdefault((card, previous), now)
        resting = [
            pipe for (on, pipe), since in self._left.items() if on == card and now - since < REST_SECONDS
        ]
        taken = vdev.free_pipe([*live, *resting], self._last.get(card))
        if taken is not None:
            self._last[card] = taken
            self._left.pop((card, taken), None)
        return taken
