"""Placement policies: which of the cards that fit is taken. Feasibility is never theirs to decide.

A policy gives keys, each of shape (candidates,); the least wins, key by key, and what is still equal is decided by the
fixed order of the cards.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from device_plugin.core.placement.index import Numbers

Policy = Callable[[Numbers, Numbers], Sequence[Numbers]]
"""From what would remain of each card, and the slack of its node, to keys."""


def pack(leftover: Numbers, slack: Numbers) -> Sequence[Numbers]:
    """Best fit on the card, then the fullest node."""
    return leftover, slack


def spread(leftover: Numbers, slack: Numbers) -> Sequence[Numbers]:
    """The emptiest node, then the emptiest card."""
    return -slack, -leftover


POLICIES: Mapping[str, Policy] = {"pack": pack, "spread": spread}
DEFAULT = "pack"


def least(keys: Sequence[Numbers]) -> int:
    """Position of the least candidate; of equal ones the first."""
    left = np.arange(len(keys[0]))
    for key in keys:
        values = key[left]
        left = left[values == values.min()]
    return int(left[0])
