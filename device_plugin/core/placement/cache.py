"""The score cache: the scores that policies gave every node, for the shapes that were decided most recently.

Scores are computed again only for rows that changed. A policy with new workload tables makes all of its old scores
void, and computing all again takes longer than a decision may. So the old scores stay in use, with the policy that
computed them, until all new scores are ready.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.placement.card_columns import Floats, Ints, Mask, kinds_where
from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.placement.near import near
from device_plugin.core.placement.table import NodeTable, NodeView, RowCache
from device_plugin.core.requests import ANYTHING, Shape

# Bounds of the cache: shapes, bytes of scores in all, and bytes of one score.
MOST, MOST_BYTES, NODE_BYTES = 256, 24 * 2**20, 20
# Beyond this many nodes at once the arrays leave the processor's cache.
BATCH = 512
# Scoring this many nodes takes hardly longer than scoring one: where no more changed, upper bounds save no time.
AT_ONCE = 48
# Among upper bounds the FEW best are made exact first; if none of them wins, MORE times that number, and so on.
FEW, MORE = 6, 2

Places = NDArray[np.int16]
Bound = Callable[[Ints], Floats]
"""For nodes at these positions values that are never lower than their scores; both of shape (positions,)."""


class UpperBounds(RowCache):
    """Computes upper bounds of scores, faster than the scores: a node whose bound is too low need not be scored."""

    @abstractmethod
    def of(self, shape: Shape, sizes: KindSizes, accepted: Mask, /) -> Bound:
        """The bounds for `shape`, which takes `sizes` of the `accepted` kinds of cards, of shape (kinds + 1,)."""


class Policy(ABC):
    """Computes a score for each node; the highest wins, of equal scores the first node in the fixed order of nodes.

    A score may depend on nothing but the node and the shape, so that it stays valid until the node changes. A policy
    for new workload tables is a new object.
    """

    lasting = True
    """False if each score is for one decision only."""
    bounds: UpperBounds | None = None
    """None for a policy whose scores are fast to compute."""

    @abstractmethod
    def slices(self, view: NodeView, need: CardFit, shape: Shape, /) -> Floats:
        """The score of each card for a slice; shape (nodes, cards). Used only where the shape fits."""

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape, /) -> Floats:
        """The score of each node for the whole cards `_taken` of shape (nodes, cards); shape (nodes,)."""
        return self.several(view)

    def several(self, view: NodeView, /) -> Floats:
        """The score of each node for a pod of several containers, by default the fullest; shape (nodes,)."""
        return -view.node_slack()


class NodeScores(RowCache):
    """The scores of all nodes for one shape by one policy.

    `value`, of shape (nodes,), is minus infinity where no cards fit. Where a policy has upper bounds, a value may be
    one of these until the node comes near the best.
    """

    def __init__(self, table: NodeTable, shape: Shape, policy: Policy) -> None:
        super().__init__(table)
        self.policy = policy
        self.used = 0
        """The number of the cache's latest use of these scores: those with the lowest number were used longest ago."""
        self.shape = shape
        self._count = shape.request.count
        self.value: Floats = np.zeros(0)
        # The index of the best card in its row.
        self._card: Places = np.zeros(0, dtype=np.int16)
        self._exact: Mask = np.zeros(0, dtype=bool)
        self._bound: Bound | None = None

    def best(self, among: Mask | None) -> int | None:
        """The position of the highest value, the first of equal ones, of all nodes or `among` some; None if none."""
        few = FEW
        while len(self.value):
            value = self.value if among is None else np.where(among, self.value, -np.inf)
            best = int(value.argmax())
            if value[best] == -np.inf:
                return None
            if self._exact[best]:
                return best
            self._make_exact(best, value, few)
            few *= MORE
        return None

    def at(self, position: int) -> float:
        """The value of one node."""
        if not self._exact[position]:
            self._make_exact(position, self.value, 1)
        return float(self.value[position])

    def cells(self, position: int) -> list[int]:
        """The indexes of the cards that the shape takes in the row at `position`."""
        if self.shape.is_slice and self._count == 1:
            return [int(self._card[position])]
        view = NodeView(self._table, np.array([position]))
        if not self.shape.is_slice:
            return np.flatnonzero(self._taken(view)[0]).tolist()
        values = self._of_cards(view)[0]
        slots = np.flatnonzero(values > -np.inf)
        cards = self._table.cards(position)
        chosen = near([cards[slot].card for slot in slots], values[slots].tolist(), self._count)
        return slots[chosen].tolist()

    def _lay_out(self) -> None:
        nodes, kinds, shape = len(self._table.nodes), self._table.kinds, self.shape
        self.value = np.full(nodes, -np.inf)
        self._card = np.zeros(nodes, dtype=np.int16)
        self._exact = np.zeros(nodes, dtype=bool)
        self._sizes = KindSizes(kinds, shape.request)
        self._accepted = kinds_where(kinds, lambda kind: shape.accepts(kind.family, kind.model, kind.slices))
        self._all_kinds = bool(self._accepted[:-1].all())
        bounds = self.policy.bounds
        self._bound = None if bounds is None else bounds.of(shape, self._sizes, self._accepted)
        if self._bound is not None and self._count > 1:
            # The sum of the best cards' scores is at most the best one's, as often as there are slices.
            self._bound = partial(_times, self._count, self._bound)

    def _compute(self, positions: Ints) -> None:
        bound = None if len(positions) <= AT_ONCE else self._bound
        for start in range(0, len(positions), BATCH):
            batch = positions[start : start + BATCH]
            if bound is not None:
                self.value[batch] = bound(batch)
            else:
                self._score(batch)
        self._exact[positions] = bound is None

    def _make_exact(self, best: int, value: Floats, most: int) -> None:
        """Score the node at `best` and those with the highest bounds above every exact value, `most` in all."""
        positions = np.array([best])
        if most > 1:
            known = value[self._exact].max(initial=-np.inf)
            near = ~self._exact & (value > known)
            # The best one is always among them: if its exact value equals its bound, the search is over.
            near[best] = True
            positions = np.flatnonzero(near)
            if len(positions) > most:
                behind = np.where(positions == best, -np.inf, -value[positions])
                positions = np.sort(positions[np.argpartition(behind, most)[:most]])
        self._score(positions)
        self._exact[positions] = True

    def _score(self, positions: Ints) -> None:
        view, shape = NodeView(self._table, positions), self.shape
        if shape.is_slice:
            values = self._of_cards(view)
            self._card[positions] = values.argmax(axis=1)
            self.value[positions] = values.max(axis=1) if self._count == 1 else self._sums(values)
            return
        taken = self._taken(view)
        enough = taken.sum(axis=1) == shape.request.whole
        if not enough.any():
            self.value[positions] = -np.inf
            return
        self.value[positions] = np.where(enough, self.policy.whole(view, taken, shape), -np.inf)

    def _of_cards(self, view: NodeView) -> Floats:
        """The score of each card for a slice, minus infinity where it does not fit; shape (nodes, cards)."""
        need = CardFit(view, self._sizes)
        fits = self._open(view) & need.fits()
        if not fits.any():
            return np.full(fits.shape, -np.inf)
        return np.where(fits, self.policy.slices(view, need, self.shape), -np.inf)

    def _sums(self, values: Floats) -> Floats:
        """The sum of each node's best scores, one for each slice; minus infinity where too few cards fit."""
        if values.shape[1] < self._count:
            return np.full(len(values), -np.inf)
        return np.sort(values, axis=1)[:, -self._count :].sum(axis=1)

    def _taken(self, view: NodeView) -> Mask:
        """The first wholly free cards of each node, up to the number asked for; fewer where there are not enough."""
        free = self._open(view) & view.untouched
        return free & (np.cumsum(free, axis=1) <= self.shape.request.whole)

    def _open(self, view: NodeView) -> Mask:
        """Usable cards that the selectors of the shape accept; shape (nodes, cards)."""
        cards = view.usable
        if not self._all_kinds:
            cards = cards & self._accepted[view.kind]
        if self.shape.uuids != ANYTHING:
            cards = cards & self._table.named(self.shape.uuids)[view.where]
        return cards


def _times(count: int, bound: Bound, positions: Ints) -> Floats:
    return count * bound(positions)


class ScoreCache:
    """Scores by policy name and shape; beyond MOST shapes or MOST_BYTES the least recently used are dropped."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._scores: dict[tuple[str, Shape], NodeScores] = {}
        self._uses = 0
        # Scores by a policy that is not in use yet.
        self._coming: dict[tuple[str, Shape], NodeScores] = {}
        self.left_out = 0
        """Number of shapes whose scores were dropped because there were too many."""

    def __len__(self) -> int:
        return len(self._scores)

    @property
    def most(self) -> int:
        """The bound of shapes with scores, at the present number of nodes."""
        return max(1, min(MOST, MOST_BYTES // (NODE_BYTES * max(1, len(self._table.nodes)))))

    def get(self, name: str, shape: Shape) -> NodeScores | None:
        """The cached scores of `shape`, perhaps out of date; None if there are none. It needs no lock."""
        return self._scores.get((name, shape))

    def of(self, name: str, policy: Policy, shape: Shape) -> NodeScores:
        """The cached scores of `shape`, even by an earlier policy of this name; else new ones by `policy`."""
        scores = self.get(name, shape)
        if scores is None:
            scores = NodeScores(self._table, shape, policy)
            if policy.lasting:
                while len(self._scores) >= self.most:
                    self.left_out += 1
                    oldest = min(self._scores, key=lambda key: self._scores[key].used)
                    del self._scores[oldest]
                    self._coming.pop(oldest, None)
                self._scores[name, shape] = scores
        self._uses += 1
        scores.used = self._uses
        return scores

    def renew(self, policies: Mapping[str, Policy], most: int) -> bool:
        """Score at most `most` nodes by the new `policies`; true once all cached scores are theirs."""
        for key, scores in self._scores.items():
            policy = policies[key[0]]
            if scores.policy is policy:
                continue
            coming = self._coming.get(key)
            if coming is None or coming.policy is not policy:
                coming = self._coming[key] = NodeScores(self._table, key[1], policy)
            if coming.refresh(most):
                coming.used = scores.used
                self._scores[key] = self._coming.pop(key)
            return False
        return True

    def clear(self) -> None:
        self._scores.clear()
        self._coming.clear()
