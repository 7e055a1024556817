"""A thread that asks for something again and again while a browser shows the page."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable

# Seconds until it is looked again whether a browser shows the page.
CLOSED_SECONDS = 1.0


class Asking(ABC):
    """Calls `step` in a thread while `is_open` returns true."""

    def __init__(self, name: str, is_open: Callable[[], bool]) -> None:
        self._name = name
        self._is_open = is_open
        self._stop = threading.Event()

    @abstractmethod
    def step(self) -> float:
        """Ask once; returns the seconds until the next call."""

    def start(self) -> None:
        """Start the thread; it asks until `close`."""
        threading.Thread(target=self._run, name=self._name, daemon=True).start()

    def close(self) -> None:
        """Stop asking; the thread ends."""
        self._stop.set()

    def _run(self) -> None:
        pause = CLOSED_SECONDS
        while not self._stop.wait(pause):
            pause = self.step() if self._is_open() else CLOSED_SECONDS
