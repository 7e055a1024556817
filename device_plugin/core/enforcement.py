"""Enforcement modes: what becomes of a container that uses a card past the library that limits it.

The library refuses and masks in every mode, and so does the stack of a vendor that has one of its own (Hygon).
"""

from collections.abc import Iterable
from enum import Enum


class Enforcement(Enum):
    """The mode of a card family. Each does what the one before it does, and more."""

    OBSERVE = "observe"
    """The container is reported: in an event, a metric and /explain."""
    ENFORCE = "enforce"
    """The kernel limits the pod's card memory as well, where it can (dmem.max of its cgroup)."""
    KILL = "kill"
    """The allocator deletes its pod."""


def strongest(modes: Iterable[Enforcement]) -> Enforcement:
    """The mode of a container with cards of families that have these; OBSERVE if there is none."""
    order = list(Enforcement)
    return max(modes, key=order.index, default=Enforcement.OBSERVE)
