"""Waiting for what another thread or process will do."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(look: Callable[[], T], seconds: float, every: float = 0.01) -> T:
    """What `look` finds, once that is true; after `seconds` what it found last, for the assertion to show."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(every)


def until(condition: Callable[[], object], what: str = "", seconds: float = 60.0) -> None:
    """Return once `condition` holds; fails after `seconds`, and then says `what` did not come about."""
    assert eventually(condition, seconds), f"not in time: {what or condition}"
