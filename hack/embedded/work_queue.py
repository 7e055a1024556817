"""The work queue of a controller: keys of objects, each with the time when it is due."""

import threading
import time
from typing import Generic, TypeVar

Key = TypeVar("Key")


class WorkQueue(Generic[Key]):
    """Holds each key once. Safe from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._due: dict[Key, float] = {}
        self._closed = False

    def ask(self, key: Key, seconds: float = 0.0) -> None:
        """Make the key due in `seconds`, unless it is due earlier."""
        with self._changed:
            due = time.monotonic() + seconds
            self._due[key] = min(due, self._due.get(key, due))
            self._changed.notify()

    def take(self) -> Key | None:
        """Wait until a key is due, remove it, and return it; None when the queue is closed."""
        with self._changed:
            while not self._closed:
                key = min(self._due, key=self._due.__getitem__, default=None)
                left = None if key is None else self._due[key] - time.monotonic()
                if key is not None and left is not None and left <= 0:
                    del self._due[key]
                    return key
                self._changed.wait(left)
            return None

    def close(self) -> None:
        """Close the queue: `take` returns None from now on."""
        with self._changed:
            self._closed = True
            self._changed.notify()
