"""Waiting for a cluster: a look may cost a kubectl, so it is taken less often than elsewhere."""

from collections.abc import Callable
from typing import TypeVar

from tests import deadline

T = TypeVar("T")
# Deadlines are written for a machine of one's own; CI runs several clusters on two cores that others use too.
PATIENCE = 3


def eventually(look: Callable[[], T], seconds: float) -> T:
    """What `look` finds, once that is true; after PATIENCE times `seconds` what it found last."""
    return deadline.eventually(look, PATIENCE * seconds, every=0.25)


def within(look: Callable[[], T], seconds: float) -> T:
    """What `look` finds, once that is true: for what is promised in so many seconds."""
    return deadline.eventually(look, seconds, every=0.25)
