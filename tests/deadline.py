"""Waiting for what another thread or process will do."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# Milliseconds that a test waits for a browser: only a test that fails waits as long. The search of the site answered
# within 13 s alone, and not within 30 s beside five other runs of tests.
BROWSER_MS = 150_000


def eventually(
    look: Callable[[], T],
    seconds: float,
    every: float = 0.01,
    missed: type[Exception] | tuple[type[Exception], ...] = (),
) -> T:
    """What `look` finds, once that is true; after `seconds` what it found last, for the assertion to show.

    A look that raises one of `missed` found nothing. Raises that of the last look.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            found = look()
        except missed:
            if time.monotonic() > deadline:
                raise
        else:
            if found or time.monotonic() > deadline:
                return found
        time.sleep(every)


def until(condition: Callable[[], object], what: str = "", seconds: float = 60.0) -> None:
    """Return once `condition` holds; fails after `seconds`, and then says `what` did not come about."""
    assert eventually(condition, seconds), f"not in time: {what or condition}"
