"""The score cache: the scores of every node, for the shapes of the most recent decisions.

Scores are computed again only for rows that changed. New workload tables change all scores of a policy, and computing
all of them takes longer than a decision may. So the old scores stay in use until all new scores are ready.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import numpy as np

from device_plugin.core.placement.card_columns import Floats, Ints, Mask, Places, kinds_where
from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.placement.near import near
from device_plugin.core.placement.table import NO_ROWS, NodeTable, NodeView, RowCache, StampedRowCache
from device_plugin.core.requests import ANYTHING, Shape

# Bounds of the cache, in shapes and in bytes of all scores; and the bytes of one score.
MOST, MOST_BYTES, NODE_BYTES = 256, 64 * 2**20, 10
# Nodes that are scored together: the arrays of more nodes do not fit into the processor's cache.
BATCH = 512
# Scoring this many nodes takes hardly longer than scoring one. If no more nodes changed, upper bounds save no time.
AT_ONCE = 48
# First the FEW nodes with the highest upper bounds are scored; if none of them wins, MORE times that number, and so on.
FEW, MORE = 6, 2

Bound = Callable[[Ints], Floats]
"""Returns an upper bound of the score of each node at these positions; shape (positions,)."""


class CompiledScores(Protocol):
    """Computes nodes' scores for one shape (kind of request) by compiled code.

    It is valid until rows of the table are assigned to other nodes.
    """

    def refresh(self, seen: int) -> None:
        """Compute the upper bound of the score of each node that changed after the change number (stamp) `seen`."""

    def best(self, among: Mask | None) -> int | None:
        """The position of the best node, of all nodes or of the nodes marked in `among`; None if none fits."""

    def score(self, positions: Ints) -> None:
        """Compute the exact scores of the nodes at these positions."""


class UpperBounds(StampedRowCache):
    """Computes upper bounds of scores, faster than the scores: a node whose bound is too low need not be scored."""

    @abstractmethod
    def of(self, shape: Shape, sizes: KindSizes, accepted: Mask, /) -> Bound:
        """A function that returns upper bounds of scores for `shape` (kind of request), for nodes at given positions.

        `sizes` are the sizes of the request on each kind of card; `accepted`, of shape (kinds + 1,), marks the kinds
        that the request accepts.
        """


class Policy(ABC):
    """Computes a score for each node. The highest score wins; of equal scores the first node in the table's order.

    A score may depend only on the node and the shape (kind of request), so that it stays valid until the node changes.
    For new workload tables a new policy object is made.
    """

    lasting = True
    """False if each score is for one decision only, and so is not cached."""
    bounds: UpperBounds | None = None
    """The policy's upper bounds; None if its scores are fast to compute."""

    def compiled(
        self,
        _shape: Shape,
        _sizes: KindSizes,
        _accepted: Mask,
        _value: Floats,
        _card: Places,
        _exact: Mask,
        /,
    ) -> CompiledScores | None:
        """Compiled code that computes the scores for one slice; None if there is none.

        It writes into arrays of NodeScores: `_value` is the score of each node, `_card` the index of its best card, and
        `_exact` is true for exact scores.
        """
        return None

    @abstractmethod
    def slices(self, view: NodeView, need: CardFit, shape: Shape, /) -> Floats:
        """The score of each card for a slice; shape (nodes, cards). Only the scores of cards that fit are used."""

    def whole(self, view: NodeView, _taken: Mask, _shape: Shape, /) -> Floats:
        """The score of each node if it gives the whole cards that `_taken` marks; shape (nodes,).

        `_taken` has the shape (nodes, cards).
        """
        return self.several(view)

    def several(self, view: NodeView, /) -> Floats:
        """The score of each node for a pod of several containers; shape (nodes,).

        By default the node with the least free part has the highest score.
        """
        return -view.node_slack()


class NodeScores(RowCache):
    """The scores of all nodes for one shape (kind of request) by one placement policy.

    `value`, of shape (nodes,), is minus infinity where no cards fit. If the policy has upper bounds, a value may be an
    upper bound until the exact score is needed.
    """

    def __init__(self, table: NodeTable, shape: Shape, policy: Policy) -> None:
        super().__init__(table)
        self.policy = policy
        self.used = 0
        """The number of the cache's latest use of these scores; the scores with the lowest number are dropped first."""
        self.shape = shape
        self._count = shape.request.count
        self.value: Floats = np.zeros(0)
        # The index of the best card in its row.
        self._card: Places = np.zeros(0, dtype=np.uint8)
        self._exact: Mask = np.zeros(0, dtype=bool)
        self._bound: Bound | None = None
        self._compiled: CompiledScores | None = None

    def refresh(self, most: int | None = None) -> bool:
        """Compute the outdated values of at most `most` nodes; true once no value is outdated."""
        self._follow()
        if self._compiled is None or most is not None or len(self._left):
            return super().refresh(most)
        self._compiled.refresh(self._seen)
        self._note(NO_ROWS, NO_ROWS)
        return True

    def best(self, among: Mask | None) -> int | None:
        """The position of the best node, of all nodes or of the nodes marked in `among`; None if none fits."""
        if self._compiled is not None:
            return self._compiled.best(among)
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
        """The exact score of the node in the table's row `position`."""
        if not self._exact[position]:
            self._make_exact(position, self.value, 1)
        return float(self.value[position])

    def cells(self, position: int) -> list[int]:
        """The indexes of the cards that a request of the shape takes on the node in row `position`, within that row."""
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
        # One byte for up to 255 cards of a node.
        self._card = np.zeros(nodes, dtype=np.min_scalar_type(self._table.there.shape[1]))
        self._exact = np.zeros(nodes, dtype=bool)
        self._sizes = KindSizes(kinds, shape.request)
        self._accepted = kinds_where(kinds, lambda kind: shape.accepts(kind.family, kind.model, kind.slices))
        self._all_kinds = bool(self._accepted[:-1].all())
        alone = shape.is_slice and self._count == 1 and shape.uuids == ANYTHING
        if alone:
            arrays = self.value, self._card, self._exact
            self._compiled = self.policy.compiled(shape, self._sizes, self._accepted, *arrays)
        bounds = self.policy.bounds
        self._bound = None if bounds is None else bounds.of(shape, self._sizes, self._accepted)
        if self._bound is not None and self._count > 1:
            # The sum of the scores of `count` cards is at most `count` times the best card's score.
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
        """Compute exact scores of at most `most` nodes: the node at `best`, and nodes whose upper bounds are highest.

        A node whose bound is not above every exact score is left out, because the node cannot win.
        """
        positions = np.array([best])
        if most > 1:
            known = value[self._exact].max(initial=-np.inf)
            near = ~self._exact & (value > known)
            # The best node is always scored: if its score equals its bound, the search is over.
            near[best] = True
            positions = np.flatnonzero(near)
            if len(positions) > most:
                behind = np.where(positions == best, -np.inf, -value[positions])
                positions = np.sort(positions[np.argpartition(behind, most)[:most]])
        self._score(positions)
        self._exact[positions] = True

    def _score(self, positions: Ints) -> None:
        if self._compiled is not None:
            self._compiled.score(positions)
            return
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
        """The score of each card for a slice, minus infinity if the slice does not fit it; shape (nodes, cards)."""
        need = CardFit(view, self._sizes)
        fits = self._open(view) & need.fits()
        if not fits.any():
            return np.full(fits.shape, -np.inf)
        return np.where(fits, self.policy.slices(view, need, self.shape), -np.inf)

    def _sums(self, values: Floats) -> Floats:
        """The sum of each node's best scores, one for each requested slice; minus infinity if too few cards fit."""
        if values.shape[1] < self._count:
            return np.full(len(values), -np.inf)
        return np.sort(values, axis=1)[:, -self._count :].sum(axis=1)

    def _taken(self, view: NodeView) -> Mask:
        """True for the first wholly free cards of each node, up to the requested number; shape (nodes, cards)."""
        free = self._open(view) & view.untouched
        return free & (np.cumsum(free, axis=1) <= self.shape.request.whole)

    def _open(self, view: NodeView) -> Mask:
        """True for usable cards that the selectors of the shape accept; shape (nodes, cards)."""
        cards = view.usable
        if not self._all_kinds:
            cards = cards & self._accepted[view.kind]
        if self.shape.uuids != ANYTHING:
            cards = cards & self._table.named(self.shape.uuids)[view.where]
        return cards


def _times(count: int, bound: Bound, positions: Ints) -> Floats:
    return count * bound(positions)


class ScoreCache:
    """Keeps scores by policy and shape (kind of request).

    Beyond MOST shapes, or MOST_BYTES of scores, the least recently used scores are dropped.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._scores: dict[tuple[str, Shape], NodeScores] = {}
        self._uses = 0
        # Scores of new policies, not used before all nodes are scored.
        self._coming: dict[tuple[str, Shape], NodeScores] = {}
        self.left_out = 0
        """Number of shapes whose scores were dropped because there were too many."""

    def __len__(self) -> int:
        return len(self._scores)

    @property
    def most(self) -> int:
        """The largest number of shapes (kinds of requests) with kept scores, for the present number of nodes."""
        return max(1, min(MOST, MOST_BYTES // (NODE_BYTES * max(1, len(self._table.nodes)))))

    def get(self, name: str, shape: Shape) -> NodeScores | None:
        """The kept scores of `shape` (kind of request), perhaps out of date; None if there are none.

        It needs no lock.
        """
        return self._scores.get((name, shape))

    def of(self, name: str, policy: Policy, shape: Shape) -> NodeScores:
        """The scores of `shape` (kind of request) cached under `name`; if there are none, new scores by `policy`.

        An earlier policy may have made the cached scores. New scores are cached, unless the policy's scores are for one
        decision only.
        """
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
        """Score at most `most` nodes again by the new `policies`; true once all cached scores are by these policies."""
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
