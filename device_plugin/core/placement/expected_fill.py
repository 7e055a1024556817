"""The policy `fragmentation`: choose the node that loses the least expected fill.

Expected fill (module `fill`) is how much of a card's free part later pods will be able to use. The score of a
placement:
1. Take the worth of the node after the placement, and subtract its worth before.
2. Add the change of the worth of several free cards for pods that need them together.
3. Subtract the price of cards of a kind that other pods depend on.
4. Subtract OPENING on an untouched node, so that such nodes come last.

    worth(node) = min over CPU prices p of
        p * free CPU + sum over cards of fill.worth[kind, p, level] - IDLE * fill.useless[kind, level]

The minimum is a Lagrangian bound: CPU has a price on a node with too little CPU for its free cards, and no price on a
node with enough, so no fixed weight of CPU against cards is needed. The last term decides between nearly equal choices.
"""

from functools import partial

import numpy as np

from device_plugin.core.placement import kernel
from device_plugin.core.placement.cache import Bound, CompiledScores, Policy, UpperBounds
from device_plugin.core.placement.card_columns import Floats, Ints, Mask, Places
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.placement.table import NodeTable, NodeView
from device_plugin.core.requests import Shape

# Thousandths of a card that a wholly useless card costs.
IDLE = 3.0
# Thousandths of a card that the first slice on an untouched node costs in addition; decides nearly equal choices.
OPENING = 9.0
# Scores are rounded to this many digits. Upper bounds are summed in another order, with a difference below ERROR.
DIGITS, ERROR = 6, 1e-9
# The number of slices given: 0 before the placement, 1 after it.
_TIMES: Ints = np.array([0, 1])[:, None, None]
_ONE_KIND: Ints = np.zeros((1, 1), dtype=np.int64)


class Worth:
    """Computes the worth of nodes and cards: the part that later pods will be able to use, in thousandths of a card."""

    def __init__(self, fill: Fill) -> None:
        self._fill = fill
        # CPU prices are the first axis: a minimum over 17 long rows is ten times faster than over each short row.
        self.table: Floats = np.ascontiguousarray(
            (fill.worth - IDLE * fill.useless[:, None, :]).transpose(1, 0, 2)
        )
        """The worth of a card by CPU price, kind and level of its free part; shape (CPU prices, kinds, levels)."""
        self._levels = fill.worth.shape[-1]
        self._flat: Floats = self.table.reshape(len(fill.cpu), -1)

    def rows(self, table: NodeTable) -> kernel.Rows | None:
        """The node table's rows (nodes) for the compiled kernel; None if numpy must compute the scores.

        They are valid until rows are assigned to other nodes.
        """
        library, fill, (prices, kinds, _) = kernel.compiled(), self._fill, self.table.shape
        if library is None or not kinds or prices > kernel.MOST_PRICES:
            return None
        if table.there.shape[1] > kernel.MOST_CARDS:
            return None
        levels = fill.grid.mem, fill.grid.cores
        return kernel.Rows(
            library, table.layers, table.host, table.stamp, levels, self.table, fill.cpu, fill.price,
            fill.multi_card.amounts,
        )  # fmt: skip

    def prices(self, sizes: KindSizes, accepted: Mask) -> Floats:
        """The price of a slice on each kind of card; shape (kinds + 1,).

        Infinite for a kind that is not accepted or is too small.
        """
        return np.where(accepted & ~sizes.small, np.append(self._fill.price, 0.0) * sizes.share, np.inf)

    def now(self, view: NodeView) -> tuple[Floats, Floats]:
        """The present worth of nodes, and of their cards, at each CPU price.

        Their shapes are (CPU prices, nodes) and (CPU prices, nodes, cards).
        """
        # A card that can give no more slices is worth nothing.
        cards = self._of_cards(view, view.free_mib, view.free_cores) * view.gives
        return self._of_nodes(view, cards), cards

    def lost_by_slice(self, view: NodeView, mib: Ints, cores: Ints, cpu: int) -> Floats:
        """The change of a node's worth for later pods if a card gives `mib` and `cores`, and the host `cpu` (milli).

        The result has the shape (nodes, cards). It is undefined for a card with less than `mib` or `cores` free.
        """
        free_mib, free_cores = view.free_mib - _TIMES * mib, view.free_cores - _TIMES * cores
        cards, after = self._of_cards(view, free_mib, free_cores).swapaxes(0, 1)
        cards *= view.gives
        # A card that gave its last slice is worth nothing to other pods.
        after *= view.free_slices > 1
        node = self._of_nodes(view, cards)
        after += node[:, :, None] - cards
        if cpu:
            after -= (self._fill.cpu * cpu)[:, None, None]
        return after.min(axis=0) - node.min(axis=0)[:, None]

    def lost_by_whole(self, view: NodeView, taken: Mask, cpu: int) -> Floats:
        """The change of a node's worth if it gives whole cards (`taken`), and `cpu` (milli); shape (nodes,)."""
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
    """The policy `fragmentation`: scores nodes and cards by the expected fill they lose, in thousandths of a card.

    Expected fill is how much of a card's free part later pods will be able to use.
    """

    def __init__(self, fill: Fill, table: NodeTable) -> None:
        self._fill = fill
        self._worth = Worth(fill)
        self.bounds: FillBounds = FillBounds(fill, self._worth, table)

    def compiled(
        self, shape: Shape, sizes: KindSizes, accepted: Mask, value: Floats, card: Places, exact: Mask
    ) -> CompiledScores | None:
        """The compiled kernel's scores of a slice; None if there is no kernel, or too many cards on a node for it."""
        found = self.bounds.compiled()
        if found is None:
            return None
        asked = _kernel_sizes(shape, sizes, self._worth.prices(sizes, accepted))
        return kernel.SliceScores(*found, asked, value, card, exact)

    def slices(self, view: NodeView, need: CardFit, shape: Shape) -> Floats:
        """The score of each card for a slice: higher if later pods lose less free room; shape (nodes, cards)."""
        score = self._worth.lost_by_slice(view, need.mib, need.cores, shape.host.cpu_milli)
        score += self._fill.multi_card.lost_by_slice(view, shape)
        score -= self._fill.price[view.kind] * need.share
        return _settled(view, score)

    def whole(self, view: NodeView, taken: Mask, shape: Shape) -> Floats:
        """The score of each node for whole cards: higher if later pods lose less free room; shape (nodes,).

        `taken`, of shape (nodes, cards), marks the cards.
        """
        score = self._worth.lost_by_whole(view, taken, shape.host.cpu_milli)
        score -= np.where(taken, self._fill.price[view.kind], 0).sum(axis=1)
        score += self._fill.multi_card.lost_by_whole(view, shape)
        return _settled(view, score) if shape.request.whole else score.round(DIGITS)


def _kernel_sizes(shape: Shape, sizes: KindSizes, price: Floats) -> kernel.SliceSizes:
    """A slice for a request of `shape`, as the compiled kernel reads it, with its `price` on each kind of card."""
    return kernel.SliceSizes(shape.host.cpu_milli, shape.host.memory_mib, sizes.mib, sizes.cores, price)


def _settled(view: NodeView, score: Floats) -> Floats:
    """The scores, lower by OPENING for untouched nodes (no slice held); rounded, so that equal states score equally."""
    untouched = view.untouched.all(axis=1, keepdims=score.ndim > 1)
    return np.round(score - np.where(untouched, OPENING, 0.0), DIGITS)


class FillBounds(UpperBounds):
    """Computes upper bounds of scores by the policy `fragmentation`: faster than the scores, and never below them.

    A node's worth is a minimum over CPU prices. The worth after a placement is at most its value at the price that
    gives the minimum now. So it is enough to keep, for each node, this price and the worth of its cards at this price.
    """

    def __init__(self, fill: Fill, worth: Worth, table: NodeTable) -> None:
        super().__init__(table)
        self._fill = fill
        self._worth = worth
        self._flat: Floats = worth.table.reshape(-1)
        _, self._kinds, self._levels = worth.table.shape
        self._lay_out()

    def compiled(self) -> tuple[kernel.Rows, kernel.RowsNow] | None:
        """The nodes (rows) and their kept values for the compiled kernel; None if numpy must compute.

        They are valid until rows are assigned to other nodes.
        """
        self._follow()
        return None if self._rows is None else (self._rows, self._kept)

    def of(self, shape: Shape, sizes: KindSizes, accepted: Mask) -> Bound:
        """A function that returns the upper bounds for `shape`, valid until table rows are assigned to other nodes.

        `sizes` are the sizes of the request on each kind; `accepted` marks the kinds that it accepts.
        """
        if not shape.is_slice:
            return partial(self._whole, shape, accepted & ~sizes.small)
        price = self._worth.prices(sizes, accepted)
        plain = partial(self._slice, shape, sizes, price)
        if kernel.compiled() is None:
            return plain
        return partial(self._by_kernel, plain, _kernel_sizes(shape, sizes, price))

    def _by_kernel(self, plain: Bound, asked: kernel.SliceSizes, positions: Ints) -> Floats:
        """The upper bounds of these nodes' scores for a slice.

        The compiled kernel computes them, or the function `plain` if the kernel has no rows of this table.
        """
        self.refresh_some(positions)
        if self._rows is None:
            return plain(positions)
        return self._rows.bounds(asked, positions, self._kept)

    def _slice(self, shape: Shape, sizes: KindSizes, price: Floats, positions: Ints) -> Floats:
        """The upper bounds of the scores of these nodes for a slice, each on the node's best card.

        `price` has the shape (kinds + 1,).
        """
        self.refresh_some(positions)
        # With one kind of card its values are broadcast instead of copied for each card.
        kind = self._table.kind[positions] if self._kinds > 1 else _ONE_KIND
        mib, cores, slices = self._table.layers[:3].take(positions, axis=1)
        mib -= sizes.mib[kind]
        cores -= sizes.cores[kind]
        level = self._fill.grid.levels(mib, cores, self._table.mib[positions], self._table.groups[positions])
        level += self._levels * (self._kinds * self._price[positions][:, None] + kind)
        # A card that gave its last slice is worth nothing to other pods.
        after = self._flat.take(level, mode="clip") * (slices > 1)
        score = after - self._now.take(positions, axis=0) - price[kind]
        # `mib | cores` is negative where either is negative.
        score[(mib | cores) < 0] = -np.inf
        if self._fill.multi_card.matters:
            score += self._fill.multi_card.lost_by_slice(NodeView(self._table, positions), shape)
        return _rounded_up(score.max(axis=1) - self._cpu(positions, shape) - self._opened(positions))

    def _whole(self, shape: Shape, accepted: Mask, positions: Ints) -> Floats:
        """The upper bounds of these nodes' scores for whole cards, each priced as the node's cheapest free card.

        For a pod that asks for no card, only the CPU and the effect on pods of several cards count. A node with too few
        free cards gets minus infinity.
        """
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
        """The cost of the CPU that a pod of this shape asks for, on each node, at the node's CPU price."""
        return self._fill.cpu[self._price[positions]] * shape.host.cpu_milli

    def _opened(self, positions: Ints) -> Floats:
        return np.where(self._untouched[positions], OPENING, 0.0)

    def _lay_out(self) -> None:
        # `_now` is the worth of each card, infinite if it can give no slice. `_price` is the index of each node's CPU
        # price, and `_untouched` is true for nodes whose cards are all untouched.
        nodes = len(self._table.nodes)
        self._now: Floats = np.zeros(self._table.there.shape)
        self._price: Ints = np.zeros(nodes, dtype=np.int64)
        self._untouched: Mask = np.zeros(nodes, dtype=bool)
        self._kept = kernel.RowsNow(self._now, self._price, self._untouched, self._made)
        self._rows = self._worth.rows(self._table)

    def _compute(self, positions: Ints) -> None:
        if self._rows is not None:
            self._rows.compute(positions, self._kept)
            return
        view = NodeView(self._table, positions)
        node, cards = self._worth.now(view)
        price = node.argmin(axis=0)
        self._now[view.where] = np.where(view.gives, cards[price, np.arange(len(price))], np.inf)
        self._price[view.where] = price
        self._untouched[view.where] = view.untouched.all(axis=1)


def _rounded_up(score: Floats) -> Floats:
    return np.round(score + ERROR, DIGITS)
