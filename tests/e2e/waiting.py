"""Waiting for a cluster: a look may cost a kubectl, so it is taken less often than elsewhere.

A look that the cluster does not answer is taken again: a pod is not there yet, or the API server is away for a moment.
"""

from collections.abc import Callable
from typing import TypeVar

from tests import deadline
from tests.e2e.kubectl import KubectlError

T = TypeVar("T")
# Deadlines are written for a machine of one's own; CI runs several clusters on two cores that others use too.
PATIENCE = 3


def eventually(look: Callable[[], T], seconds: float, every: float = 0.25) -> T:
    """What `look` finds, once that is true; after PATIENCE times `seconds` what it found last, or its KubectlError."""
    return deadline.eventually(look, PATIENCE * seconds, every, KubectlError)


def within(look: Callable[[], T], seconds: float) -> T:
    """What `look` finds, once that is true: for what is promised in so many seconds."""
    return deadline.eventually(look, seconds, 0.25, KubectlError)
