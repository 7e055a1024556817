"""Offers: the nodes that kube-scheduler offers for a pod, with their rows in a node table; recent offers are kept."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from itertools import repeat

import numpy as np

from device_plugin.core.placement.card_columns import Ints, Mask

# Most offers that are kept; kube-scheduler offers different nodes to requests of different sizes.
MOST = 8


class Offer:
    """The `names` of the offered nodes, and their `rows` in a node table; -1 for a node without a row.

    `position` is the row of each of the table's nodes, by name. An offer is equal only to itself.
    """

    __slots__ = ("mask", "names", "position", "rows")

    def __init__(self, position: Mapping[str, int], names: Sequence[str]) -> None:
        self.position = position
        self.names = tuple(names)
        self.rows = rows_of(position, self.names)
        self.mask = _mask(len(position), self.rows)
        """True for the rows of the offered nodes; shape (nodes,). Readers must not write to it."""

    def __contains__(self, name: object) -> bool:
        row = self.position.get(name, -1) if isinstance(name, str) else -1
        return bool(self.mask[row]) if row >= 0 else name in self.names


class RecentOffers:
    """Keeps the most recent offers: equal names return the same offer, because finding thousands of rows takes long.

    Comparing names is several times faster than finding their rows. Any thread may call it, without a lock.
    """

    def __init__(self) -> None:
        self._kept: tuple[tuple[Collection[str], Offer], ...] = ()

    def of(self, position: Mapping[str, int], nodes: Sequence[str]) -> Offer:
        """Returns an Offer: the names of `nodes` with their rows, which `position` gives by name.

        If the same nodes were offered recently, the earlier object is returned. The table replaces `position` and never
        changes it.
        """
        kept = self._kept
        for names, offer in kept:
            if offer.position is position and (names is nodes or names == nodes):
                return offer
        made = Offer(position, nodes)
        # Replaced, never changed, because other threads may read it.
        self._kept = ((copy(nodes), made), *(each for each in kept if each[1].position is position))[:MOST]
        return made


def rows_of(position: Mapping[str, int], nodes: Collection[str]) -> Ints:
    """The row in the node table of each of `nodes`, as `position` gives it by name; -1 for a name without a row."""
    return np.fromiter(map(position.get, nodes, repeat(-1)), dtype=np.int64, count=len(nodes))


def marked(position: Mapping[str, int], nodes: Collection[str]) -> Mask:
    """An array with True for the table rows of `nodes`; shape (all nodes of the table,)."""
    return _mask(len(position), rows_of(position, nodes))


def _mask(count: int, rows: Ints) -> Mask:
    # One more element at the end, for names that have no row.
    mask = np.zeros(count + 1, dtype=bool)
    mask[rows] = True
    return mask[:-1]
