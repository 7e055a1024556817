"""Enforcement modes: the measures against a container whose programs bypass the library that limits them.

In every mode the library, or Hygon's own driver stack, refuses memory beyond the limit and masks core groups.
"""

from collections.abc import Iterable
from enum import Enum


class Enforcement(Enum):
    """The enforcement mode of a card family; each mode does what the mode before it does, and one thing more."""

    OBSERVE = "observe"
    """The container is reported: in an event, a metric and /explain."""
    ENFORCE = "enforce"
    """The kernel limits the pod's card memory as well, where it can (dmem.max of its cgroup)."""
    KILL = "kill"
    """The allocator deletes the container's pod."""


def strongest(modes: Iterable[Enforcement]) -> Enforcement:
    """The strongest of the modes, for a container with cards of several families; OBSERVE if there is no mode."""
    order = list(Enforcement)
    return max(modes, key=order.index, default=Enforcement.OBSERVE)
