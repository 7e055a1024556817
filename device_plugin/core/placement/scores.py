"""Scores: what a policy thinks of every node for one ask, kept, and renewed only where something changed."""

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.behind import Behind
from device_plugin.core.placement.columns import Numbers, Rows, Values
from device_plugin.core.placement.index import Index, View
from device_plugin.core.placement.need import Amounts, Need
from device_plugin.core.placement.policy import Bound, Policy
from device_plugin.core.requests import ANYTHING

# There may be hundreds of scores for ten thousand nodes each.
Places = NDArray[np.int16]
# Beyond this many nodes at once the arrays leave the processor's cache.
BATCH = 512
# So many rough values are made exact at first, for that takes hardly longer than one; and MORE times as many each time.
FEW, MORE = 6, 2


class Scores:
    """`value` of shape (nodes,), minus infinity where no cards fit; `card` is the best card's place there.

    Where a policy has a rough one, a value is that one's, and so too high at most, until the node comes near the best.
    """

    def __init__(self, index: Index, ask: Ask, policy: Policy) -> None:
        self.policy = policy
        self._index = index
        self._ask = ask
        self._behind = Behind(index)
        self.value: Values = np.zeros(0)
        self.card: Places = np.zeros(0, dtype=np.int16)
        self._exact: Rows = np.zeros(0, dtype=bool)
        self._amounts = Amounts((), ask.request)
        self._kinds: Rows = np.zeros(0, dtype=bool)
        self._all_kinds = True
        self._bound: Bound | None = None

    def refresh(self, most: int | None = None) -> bool:
        """Score the nodes that changed since they were scored, but `most` of them; true once none is left."""
        if self._behind.relaid():
            nodes = len(self._index.nodes)
            self.value = np.full(nodes, -np.inf)
            self.card = np.zeros(nodes, dtype=np.int16)
            self._exact = np.zeros(nodes, dtype=bool)
            kinds = self._index.kinds
            self._amounts = Amounts(kinds, self._ask.request)
            self._kinds = np.array([self._ask.accepts(kind) for kind in kinds], dtype=bool)
            self._all_kinds = bool(self._kinds.all())
            rough = self.policy.rough
            self._bound = None if rough is None else rough.of(self._ask, self._amounts, self._kinds)
        changed = self._behind.nodes(most)
        for start in range(0, len(changed), BATCH):
            batch = changed[start : start + BATCH]
            if self._bound is not None:
                self.value[batch] = self._bound(batch)
            else:
                self._score(batch)
        self._exact[changed] = self._bound is None
        return self._behind.done()

    def best(self, among: Rows | None) -> int | None:
        """Where the highest value is, the first if there are several, of all nodes or `among` some; None if nowhere."""
        looked = FEW
        while len(self.value):
            value = self.value if among is None else np.where(among, self.value, -np.inf)
            best = int(value.argmax())
            if value[best] == -np.inf:
                return None
            if self._exact[best]:
                return best
            self._make_exact(best, value, looked)
            looked *= MORE
        return None

    def at(self, position: int) -> float:
        """The value of one node."""
        if not self._exact[position]:
            self._make_exact(position, self.value, 1)
        return float(self.value[position])

    def _make_exact(self, best: int, value: Values, most: int) -> None:
        """The rough value of the best, and of at most so many in all that are better than every exact one."""
        positions = np.array([best])
        if most > 1:
            known = value[self._exact].max(initial=-np.inf)
            rough = ~self._exact & (value > known)
            # The foremost itself too, whatever is as good: where its rough value is the truth, that settles it.
            rough[best] = True
            positions = np.flatnonzero(rough)
            if len(positions) > most:
                behind = np.where(positions == best, -np.inf, -value[positions])
                positions = np.sort(positions[np.argpartition(behind, most)[:most]])
        self._score(positions)
        self._exact[positions] = True

    def rows(self, position: int) -> list[int]:
        """The index's rows of the cards that the ask takes on the node at `position`."""
        index, ask = self._index, self._ask
        if ask.is_slice:
            return [int(index.grid[position, self.card[position]])]
        view = View(index, np.array([position]))
        return [int(row) for row in view.rows[self._taken(view)]]

    def _score(self, positions: Numbers) -> None:
        index, ask = self._index, self._ask
        view = View(index, positions)
        if ask.is_slice:
            need = Need(view, self._amounts)
            fits = self._open(view) & need.fits()
            if not fits.any():
                self.value[positions] = -np.inf
                return
            values = np.where(fits, self.policy.slices(view, need, ask), -np.inf)
            self.card[positions] = values.argmax(axis=1)
            self.value[positions] = values.max(axis=1, initial=-np.inf)
        else:
            taken = self._taken(view)
            enough = taken.sum(axis=1) == ask.request.whole
            if not enough.any():
                self.value[positions] = -np.inf
                return
            self.value[positions] = np.where(enough, self.policy.whole(view, taken, ask), -np.inf)

    def _taken(self, view: View) -> Rows:
        """The first so many wholly free cards of each node; fewer where there are not enough."""
        free = self._open(view) & view.untouched
        taken: Rows = free & (np.cumsum(free, axis=1) <= self._ask.request.whole)
        return taken

    def _open(self, view: View) -> Rows:
        """Cards that the ask may have at all."""
        index, ask = self._index, self._ask
        rows = view.usable
        if not self._all_kinds:
            rows = rows & self._kinds[view.kind]
        if ask.uuids != ANYTHING:
            rows = rows & index.named(ask.uuids)[view.rows]
        return rows
