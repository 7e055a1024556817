"""What nodes are worth by expected fill, kept: the scores of all asks start from it.

The worth of a node is what its cards will probably hold of the pods to come, given what CPU it has left:

    worth(node) = min over CPU prices p of  p * free CPU + sum over cards of fill.worth[kind, p, level]

The minimum is a Lagrangian bound: a node short of CPU for its free cards has a price for it, a node with plenty has
none, and nobody weighs CPU against cards.
"""

import numpy as np

from device_plugin.core.placement.columns import Numbers, Rows, Values
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.index import Index, View


class Worth:
    """In thousandths of a card, by one target workload, for the nodes of one index."""

    def __init__(self, index: Index, fill: Fill) -> None:
        self._index = index
        self._fill = fill
        # The CPU price comes first: to find the least of 17 long rows is ten times faster than of each short one.
        prices, levels = len(fill.cpu), fill.worth.shape[-1]
        self._levels = levels
        self._worth: Values = np.ascontiguousarray(fill.worth.transpose(1, 0, 2)).reshape(prices, -1)
        self._layout = -1
        self._made: Numbers = np.zeros(0, dtype=np.int64)
        # At each CPU price all of a node, and of each card all of its node but the card.
        self._node: Values = np.zeros((prices, 0))
        self._others: Values = np.zeros((prices, 0, 0))
        self._now: Values = np.zeros(0)

    def lost_by_slice(self, view: View, mib: Numbers, cores: Numbers, cpu: int) -> Values:
        """Less than zero by what a node loses when a card gives `mib` and `cores`, and it `cpu`; (nodes, cards)."""
        self._catch_up(view)
        after = self._of_cards(view, view.free_mib - mib, view.free_cores - cores)
        after += self._others[:, view.where]
        if cpu:
            after -= (self._fill.cpu * cpu)[:, None, None]
        lost: Values = after.min(axis=0) - self._now[view.where][:, None]
        return lost

    def lost_by_whole(self, view: View, taken: Rows, cpu: int) -> Values:
        """Less than zero by what a node loses when it gives the cards `taken`, and `cpu`; shape (nodes,)."""
        self._catch_up(view)
        node = self._node[:, view.where]
        given = np.where(taken, node[:, :, None] - self._others[:, view.where], 0).sum(axis=2)
        after = node - given - (self._fill.cpu * cpu)[:, None]
        lost: Values = after.min(axis=0) - self._now[view.where]
        return lost

    def _catch_up(self, view: View) -> None:
        index = self._index
        if self._layout != index.layout:
            self._layout, prices, (nodes, cards) = index.layout, len(self._fill.cpu), index.grid.shape
            self._made = np.full(nodes, -1, dtype=np.int64)
            self._node, self._others = np.zeros((prices, nodes)), np.zeros((prices, nodes, cards))
            self._now = np.zeros(nodes)
        behind = index.stamp[view.where] > self._made[view.where]
        if behind.any():
            self._make(View(index, view.positions[behind]))

    def _make(self, view: View) -> None:
        cards = np.where(view.there & view.usable, self._of_cards(view, view.free_mib, view.free_cores), 0)
        node = cards.sum(axis=2) + self._fill.cpu[:, None] * view.cpu
        self._node[:, view.where] = node
        self._others[:, view.where] = node[:, :, None] - cards
        self._now[view.where] = node.min(axis=0)
        self._made[view.where] = self._index.stamp[view.where]

    def _of_cards(self, view: View, mib: Numbers, cores: Numbers) -> Values:
        """Of each card with so much free, at each CPU price; shape (CPU prices, nodes, cards)."""
        level = self._fill.grid.levels(np.maximum(mib, 0), np.maximum(cores, 0), view.mib, view.groups)
        worth: Values = self._worth.take(view.kind * self._levels + level, axis=1)
        return worth
