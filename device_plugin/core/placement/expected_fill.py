"""The policy `fragmentation`: choose the node that loses the least expected fill.

The score of a placement is the worth of the node after it minus the worth before. The worth counts each card, and free
cards that one pod could take together. The price of kinds of cards that other pods depend on is subtracted, and
untouched nodes come last.

    worth(node) = min over CPU prices p of
        p * free CPU + sum over cards of fill.worth[kind, p, level] - IDLE * fill.useless[kind, level]

The minimum is a Lagrangian bound: on a node that is short of CPU for its free cards CPU has a price, on a node with
plenty it has none, so no fixed weight of CPU against cards is needed. The last term decides between nearly equal
choices.
"""

from functools import partial

import numpy as np

from device_plugin.core.placement.cache import Bound, Policy, UpperBounds
from device_plugin.core.placement.card_columns import Floats, Ints, Mask
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.placement.table import NodeTable, NodeView
from device_plugin.core.requests import Shape

# Thousandths of a card that a wholly useless card costs.
IDLE = 3.0
# Thousandths of a card that opening an untouched node costs in addition to expected fill; decides nearly equal choices.
OPENING = 9.0
# Scores are rounded to this many digits; the sums of upper bounds differ from theirs by less than ERROR.
DIGITS, ERROR = 6, 1e-9
# Before and after one slice is given.
_TIMES: Ints = np.array([0, 1])[:, None, None]
_ONE_KIND: Ints = np.zeros((1, 1), dtype=np.int64)


class Worth:
    """Computes the worth of nodes and of their cards by expected fill, in thousandths of a card."""

    def __init__(self, fill: Fill) -> None:
        self._fill = fill
        # CPU prices are the first axis: a minimum over 17 long rows is ten times faster than over each short row.
        self.table: Floats = np.ascontiguousarray(
            (fill.worth - IDLE * fill.useless[:, None, :]).transpose(1, 0, 2)
        )
        """Its shape is (CPU prices, kinds, levels)."""
        self._levels = fill.worth.shape[-1]
        self._flat: Floats = self.table.reshape(len(fill.cpu), -1)

    def now(self, view: NodeView) -> tuple[Floats, Floats]:
        """The worth of nodes and of their cards at each CPU price.

        Shapes (CPU prices, nodes) and (CPU prices, nodes, cards).
        """
        # A card that can give no more slices has no worth to lose.
        cards = self._of_cards(view, view.free_mib, view.free_cores) * view.gives
        return self._of_nodes(view, cards), cards

    def lost_by_slice(self, view: NodeView, mib: Ints, cores: Ints, cpu: int) -> Floats:
        """Minus the worth that a node loses when a card gives `mib` and `cores`, and the host `cpu`.

        Shape (nodes, cards). Undefined for a card with less than `mib` or `cores` free.
        """
        free_mib, free_cores = view.free_mib - _TIMES * mib, view.free_cores - _TIMES * cores
        cards, after = self._of_cards(view, free_mib, free_cores).swapaxes(0, 1)
        cards *= view.gives
        # Once its last slice is given, a card is worth nothing to other pods.
        after *= view.free_slices > 1
        node = self._of_nodes(view, cards)
        after += node[:, :, None] - cards
        if cpu:
            after -= (self._fill.cpu * cpu)[:, None, None]
        return after.min(axis=0) - node.min(axis=0)[:, None]

    def lost_by_whole(self, view: NodeView, taken: Mask, cpu: int) -> Floats:
        """Minus the worth that a node loses when it gives the cards `taken` and `cpu`; shape (nodes,)."""
        node, cards = self.now(view)
        after = node - np.where(taken, cards, 0).sum(axis=2) - (self._fill.cpu * cpu)[:, None]
        return after.min(axis=0) - node.min(axis=0)

    def _of_nodes(self, view: NodeView, cards: Floats) -> Floats:
        return cards.sum(axis=2) + self._fill.cpu[:, None] * view.cpu

    def _of_cards(self, view: NodeView, mib: Ints, cores: Ints) -> Floats:
        """The worth of cards with `mib` and `cores` free, at each CPU price; shape (CPU prices, …, nodes, cards)."""
        level = self._fill.grid.levels(mib, cores, view.mib, view.groups)
        return self._flat.take(view.kind * self._levels + level, axis=1, mode="clip")


class ExpectedFill(Policy):
    """Scores in thousandths of a card."""

    def __init__(self, fill: Fill, table: NodeTable) -> None:
        self._fill = fill
        self._worth = Worth(fill)
        self.bounds: FillBounds = FillBounds(fill, self._worth, table)

    def slices(self, view: NodeView, need: CardFit, shape: Shape) -> Floats:
        """The less expected fill is lost, the better."""
        score = self._worth.lost_by_slice(view, need.mib, need.cores, shape.host.cpu_milli)
        score += self._fill.multi_card.lost_by_slice(view, shape)
        score -= self._fill.price[view.kind] * need.share
        return _settled(view, score)

    def whole(self, view: NodeView, taken: Mask, shape: Shape) -> Floats:
        """The less expected fill is lost, the better."""
        score = self._worth.lost_by_whole(view, taken, shape.host.cpu_milli)
        score -= np.where(taken, self._fill.price[view.kind], 0).sum(axis=1)
        score += self._fill.multi_card.lost_by_whole(view, shape)
        return _settled(view, score) if shape.request.whole else score.round(DIGITS)


def _settled(view: NodeView, score: Floats) -> Floats:
    """The scores with untouched nodes put last, rounded so that equal states have exactly equal scores."""
    untouched = view.untouched.all(axis=1, keepdims=score.ndim > 1)
    return np.round(score - np.where(untouched, OPENING, 0.0), DIGITS)


class FillBounds(UpperBounds):
    """Computes upper bounds of the policy's scores, faster than the scores, and never below them.

    A node's worth is a minimum over CPU prices. At the price that gives the minimum now, the node loses what the one
    card loses, plus the CPU at that price; at any other price it loses no less. So it is enough to keep for each node
    that price and the worth of its cards at it.
    """

    def __init__(self, fill: Fill, worth: Worth, table: NodeTable) -> None:
        super().__init__(table)
        self._fill = fill
        self._worth = worth
        self._flat: Floats = worth.table.reshape(-1)
        _, self._kinds, self._levels = worth.table.shape
        self._lay_out()

    def of(self, shape: Shape, sizes: KindSizes, accepted: Mask) -> Bound:
        """The bounds for `shape`, which takes `sizes` of the `accepted` kinds; valid until the layout changes."""
        accepted = accepted & ~sizes.small
        if not shape.is_slice:
            return partial(self._whole, shape, accepted)
        price = np.where(accepted, np.append(self._fill.price, 0.0) * sizes.share, np.inf)
        return partial(self._slice, shape, sizes, price)

    def _slice(self, shape: Shape, sizes: KindSizes, price: Floats, positions: Ints) -> Floats:
        """The bound of a slice: by the card of each node that loses least. `price` has the shape (kinds + 1,)."""
        self.refresh_some(positions)
        # With one kind of card its values are broadcast instead of copied for each card.
        kind = self._table.kind[positions] if self._kinds > 1 else _ONE_KIND
        mib, cores, slices = self._table.layers[:3].take(positions, axis=1)
        mib -= sizes.mib[kind]
        cores -= sizes.cores[kind]
        level = self._fill.grid.levels(mib, cores, self._table.mib[positions], self._table.groups[positions])
        level += self._levels * (self._kinds * self._price[positions][:, None] + kind)
        # Once its last slice is given, a card is worth nothing to other pods.
        after = self._flat.take(level, mode="clip") * (slices > 1)
        score = after - self._now.take(positions, axis=0) - price[kind]
        # True where either is negative, because the sign is a bit.
        score[(mib | cores) < 0] = -np.inf
        if self._fill.multi_card.matters:
            score += self._fill.multi_card.lost_by_slice(NodeView(self._table, positions), shape)
        return _rounded_up(score.max(axis=1) - self._cpu(positions, shape) - self._opened(positions))

    def _whole(self, shape: Shape, accepted: Mask, positions: Ints) -> Floats:
        """The bound of whole cards: their number times the worth of the least free card; without cards, CPU alone."""
        self.refresh_some(positions)
        view, number = NodeView(self._table, positions), shape.request.whole
        score = self._fill.multi_card.lost_by_whole(view, shape) - self._cpu(positions, shape)
        if not number:
            return _rounded_up(score)
        free = view.usable & view.untouched & accepted[view.kind]
        least = np.where(free, self._now[positions] + self._fill.price[view.kind], np.inf).min(axis=1)
        score -= number * least + self._opened(positions)
        return _rounded_up(np.where(free.sum(axis=1) >= number, score, -np.inf))

    def _cpu(self, positions: Ints, shape: Shape) -> Floats:
        """The cost of the shape's CPU on each node, at the node's CPU price."""
        return self._fill.cpu[self._price[positions]] * shape.host.cpu_milli

    def _opened(self, positions: Ints) -> Floats:
        return np.where(self._untouched[positions], OPENING, 0.0)

    def _lay_out(self) -> None:
        # For each card its worth, infinite where it can give no slice. For each node the index of its CPU price, and
        # whether all of its cards are untouched.
        nodes = len(self._table.nodes)
        self._now: Floats = np.zeros(self._table.there.shape)
        self._price: Ints = np.zeros(nodes, dtype=np.int64)
        self._untouched: Mask = np.zeros(nodes, dtype=bool)

    def _compute(self, positions: Ints) -> None:
        view = NodeView(self._table, positions)
        node, cards = self._worth.now(view)
        price = node.argmin(axis=0)
        self._now[view.where] = np.where(view.gives, cards[price, np.arange(len(price))], np.inf)
        self._price[view.where] = price
        self._untouched[view.where] = view.untouched.all(axis=1)


def _rounded_up(score: Floats) -> Floats:
    return np.round(score + ERROR, DIGITS)
