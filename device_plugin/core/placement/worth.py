"""What nodes are worth by expected fill: what their cards will probably hold of the pods to come.

    worth(node) = min over CPU prices p of
        p * free CPU + sum over cards of fill.worth[kind, p, level] - IDLE * fill.useless[kind, level]

The minimum is a Lagrangian bound: a node short of CPU for its free cards has a price for it, a node with plenty has
none, and nobody weighs CPU against cards. The last term settles near-equal choices.
"""

import numpy as np

from device_plugin.core.placement.columns import Numbers, Rows, Values
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.index import View

# Thousandths of a card that a wholly useless card costs.
IDLE = 3.0
# Now, and once it is given.
_TIMES: Numbers = np.array([0, 1])[:, None, None]


class Worth:
    """In thousandths of a card, by one target workload."""

    def __init__(self, fill: Fill) -> None:
        self._fill = fill
        # The CPU price comes first: to find the least of 17 long rows is ten times faster than of each short one.
        self.table: Values = np.ascontiguousarray(
            (fill.worth - IDLE * fill.useless[:, None, :]).transpose(1, 0, 2)
        )
        """Of shape (CPU prices, kinds, levels)."""
        self._levels = fill.worth.shape[-1]
        self._flat: Values = self.table.reshape(len(fill.cpu), -1)

    def now(self, view: View) -> tuple[Values, Values]:
        """Of nodes and of their cards at each CPU price; shapes (CPU prices, nodes) and (CPU prices, nodes, cards)."""
        # Where nothing more can be had there is nothing to lose.
        cards = self._of_cards(view, view.free_mib, view.free_cores) * view.gives
        return self._of_nodes(view, cards), cards

    def lost_by_slice(self, view: View, mib: Numbers, cores: Numbers, cpu: int) -> Values:
        """Less than zero by what a node loses when a card gives `mib` and `cores`, and it `cpu`; (nodes, cards).

        Anything where a card does not have as much.
        """
        free_mib, free_cores = view.free_mib - _TIMES * mib, view.free_cores - _TIMES * cores
        cards, after = self._of_cards(view, free_mib, free_cores).swapaxes(0, 1)
        cards *= view.gives
        # Whoever takes the last slice leaves nothing that others could have.
        after *= view.free_slices > 1
        node = self._of_nodes(view, cards)
        after += node[:, :, None] - cards
        if cpu:
            after -= (self._fill.cpu * cpu)[:, None, None]
        lost: Values = after.min(axis=0) - node.min(axis=0)[:, None]
        return lost

    def lost_by_whole(self, view: View, taken: Rows, cpu: int) -> Values:
        """Less than zero by what a node loses when it gives the cards `taken`, and `cpu`; shape (nodes,)."""
        node, cards = self.now(view)
        after = node - np.where(taken, cards, 0).sum(axis=2) - (self._fill.cpu * cpu)[:, None]
        lost: Values = after.min(axis=0) - node.min(axis=0)
        return lost

    def _of_nodes(self, view: View, cards: Values) -> Values:
        node: Values = cards.sum(axis=2) + self._fill.cpu[:, None] * view.cpu
        return node

    def _of_cards(self, view: View, mib: Numbers, cores: Numbers) -> Values:
        """Of each card with so much free, at each CPU price; shape (CPU prices, …, nodes, cards)."""
        level = self._fill.grid.levels(mib, cores, view.mib, view.groups)
        worth: Values = self._flat.take(view.kind * self._levels + level, axis=1, mode="clip")
        return worth
