"""The bell: makes runtimes read their folder of CDI specs again, once for all containers that wait for it.

A runtime with CDI's own Go library (containerd, CRI-O) reads every spec of the folder whenever a file there is renamed
or removed, at some 0.2 ms of CPU each, and does not notice one that is moved in from another folder. So specs are moved
in, and only then the bell rings: when many containers start, several share one reading.
"""

import threading
import time
from collections.abc import Callable
from pathlib import Path

# So a runtime reads for a fiftieth of its time. A container that comes alone does not wait.
SECONDS_A_SPEC = 0.01
MOST_SECONDS = 0.5


class Bell:
    """The bell of one folder. Safe from any thread; `clock` is monotonic, in seconds, as `sleep` takes them."""

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._sleep = sleep
        self._count = threading.Lock()
        self._changes = 0
        self._turn = threading.Lock()
        self._told = 0
        self._rung = float("-inf")

    def changed(self) -> None:
        """A spec has been moved in."""
        with self._count:
            self._changes += 1

    def ring(self) -> None:
        """Return when runtimes have been told of all changes so far. Raises OSError."""
        wanted = self._changes
        with self._turn:
            if self._told >= wanted:
                return  # by who was before us, for us as well
            specs = sum(1 for _ in self._folder.iterdir())
            wait = self._rung + min(SECONDS_A_SPEC * specs, MOST_SECONDS) - self._clock()
            if wait > 0:
                self._sleep(wait)
            told = self._changes
            clapper = self._folder / ".vgpu-bell"
            clapper.touch()
            clapper.unlink()
            self._told, self._rung = told, self._clock()
