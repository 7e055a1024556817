"""The score cache: what policies think of every node for the shapes that were lately decided.

Scores are made again only for rows that changed. When a policy learns something new, all of its scores are void at
once, and making them anew takes longer than a decision may. So the old ones stay in use, each with the policy that made
it, until new ones stand ready beside them.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.placement.table import Floats, Ints, Mask, NodeTable, NodeView, StaleRows, kinds_where
from device_plugin.core.requests import ANYTHING, Shape

# Shapes whose scores are kept: by number, and by bytes for all of their nodes.
MOST, MOST_BYTES, NODE_BYTES = 256, 24 * 2**20, 20
# Beyond this many nodes at once the arrays leave the processor's cache.
BATCH = 512
# Nodes whose scores take hardly longer than those of one: where no more changed, upper bounds are not worth their time.
AT_ONCE = 48
# Among upper bounds the FEW best are made exact first; if none of them wins, MORE times as many, and so on.
FEW, MORE = 6, 2

Places = NDArray[np.int16]
Bound = Callable[[Ints], Floats]
"""For nodes at these positions values that are never lower than their scores; both of shape (positions,)."""


class UpperBounds(Protocol):
    """Finds quickly how good a node can be at best: a node that is far behind by that need not be scored."""

    def of(self, shape: Shape, sizes: KindSizes, accepted: Mask, /) -> Bound:
        """Bounds for a shape, which takes these sizes of cards, of the kinds that are accepted; shape (kinds + 1,)."""

    def renew(self, most: int, /) -> bool:
        """Catch up with at most `most` nodes that changed; true once none is left."""


class Policy(ABC):
    """Scores nodes; the highest wins, of equal ones the first in the fixed order of the nodes.

    A score may depend on nothing but the node itself and the shape: that is why scores can be kept until the node
    changes. A policy that learns something new is another object.
    """

    lasting = True
    """False if no score outlives its decision."""
    bounds: UpperBounds | None = None
    """None where scores are found quickly enough."""

    @abstractmethod
    def slices(self, view: NodeView, need: CardFit, shape: Shape, /) -> Floats:
        """The score of each card for a slice; shape (nodes, cards). Used only where the shape fits."""

    @abstractmethod
    def whole(self, view: NodeView, taken: Mask, shape: Shape, /) -> Floats:
        """The score of each node for the whole cards `taken` of shape (nodes, cards); shape (nodes,)."""

    def several(self, view: NodeView, /) -> Floats:
        """The score of each node for a pod of several containers, by default the fullest; shape (nodes,)."""
        return -view.node_slack()

    def fork(self, _table: NodeTable, /) -> "Policy":
        """The policy for a fork of the node table: itself, if it keeps nothing about nodes."""
        return self


class NodeScores:
    """The scores of all nodes for one shape by one policy.

    `value`, of shape (nodes,), is minus infinity where no cards fit. Where a policy has upper bounds, a value may be
    one of these until the node comes near the best.
    """

    def __init__(self, table: NodeTable, shape: Shape, policy: Policy) -> None:
        self.policy = policy
        self.used = 0
        """Grows with every use of scores of the cache: the least was used the longest ago."""
        self._table = table
        self.shape = shape
        self._stale = StaleRows(table)
        self.value: Floats = np.zeros(0)
        # The best card's place in its row.
        self._card: Places = np.zeros(0, dtype=np.int16)
        self._exact: Mask = np.zeros(0, dtype=bool)
        self._bound: Bound | None = None

    def refresh(self, most: int | None = None) -> bool:
        """Score at most `most` of the nodes that changed since they were scored; true once none is left."""
        if self._stale.relaid():
            self._lay_out()
        stale = self._stale.all()
        now = stale[:most]
        bound = None if len(now) <= AT_ONCE else self._bound
        for start in range(0, len(now), BATCH):
            batch = now[start : start + BATCH]
            if bound is not None:
                self.value[batch] = bound(batch)
            else:
                self._score(batch)
        self._exact[now] = bound is None
        self._stale.made(now)
        return len(now) == len(stale)

    def best(self, among: Mask | None) -> int | None:
        """Where the highest value is, the first if there are several, of all nodes or `among` some; None if nowhere."""
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
        """The places of the cards that the shape takes in the row at `position`."""
        if self.shape.is_slice:
            return [int(self._card[position])]
        taken: list[int] = np.flatnonzero(
            self._taken(NodeView(self._table, np.array([position])))[0]
        ).tolist()
        return taken

    def _lay_out(self) -> None:
        nodes, kinds, shape = len(self._table.nodes), self._table.kinds, self.shape
        self.value = np.full(nodes, -np.inf)
        self._card = np.zeros(nodes, dtype=np.int16)
        self._exact = np.zeros(nodes, dtype=bool)
        self._sizes = KindSizes(kinds, shape.request)
        self._accepted = kinds_where(kinds, lambda kind: shape.accepts(kind.family, kind.model))
        self._all_kinds = bool(self._accepted[:-1].all())
        bounds = self.policy.bounds
        self._bound = None if bounds is None else bounds.of(shape, self._sizes, self._accepted)

    def _make_exact(self, best: int, value: Floats, most: int) -> None:
        """Score the node at `best` and those with the highest bounds above every exact value, `most` in all."""
        positions = np.array([best])
        if most > 1:
            known = value[self._exact].max(initial=-np.inf)
            near = ~self._exact & (value > known)
            # The foremost itself too, whatever is as good: where its bound is the truth, that settles it.
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
            need = CardFit(view, self._sizes)
            fits = self._open(view) & need.fits()
            if not fits.any():
                self.value[positions] = -np.inf
                return
            values = np.where(fits, self.policy.slices(view, need, shape), -np.inf)
            self._card[positions] = values.argmax(axis=1)
            self.value[positions] = values.max(axis=1)
            return
        taken = self._taken(view)
        enough = taken.sum(axis=1) == shape.request.whole
        if not enough.any():
            self.value[positions] = -np.inf
            return
        self.value[positions] = np.where(enough, self.policy.whole(view, taken, shape), -np.inf)

    def _taken(self, view: NodeView) -> Mask:
        """Of each node the first wholly free cards, as many as are asked for; fewer where there are not enough."""
        free = self._open(view) & view.untouched
        taken: Mask = free & (np.cumsum(free, axis=1) <= self.shape.request.whole)
        return taken

    def _open(self, view: NodeView) -> Mask:
        """Cards that the shape may have at all."""
        cards = view.usable
        if not self._all_kinds:
            cards = cards & self._accepted[view.kind]
        if self.shape.uuids != ANYTHING:
            cards = cards & self._table.named(self.shape.uuids)[view.where]
        return cards


class ScoreCache:
    """Scores by the name of a policy and the shape; beyond the bounds the least recently used are forgotten."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._scores: dict[tuple[str, Shape], NodeScores] = {}
        self._uses = 0
        # By a policy that is not in use yet.
        self._coming: dict[tuple[str, Shape], NodeScores] = {}
        self.left_out = 0
        """Scores that were forgotten because there were too many."""

    def __len__(self) -> int:
        """Number of shapes whose scores are kept."""
        return len(self._scores)

    @property
    def most(self) -> int:
        """How many may be kept."""
        return max(1, min(MOST, MOST_BYTES // (NODE_BYTES * max(1, len(self._table.nodes)))))

    def get(self, name: str, shape: Shape) -> NodeScores | None:
        """The kept scores of this shape, as they were made last; None if there are none. It needs no lock."""
        return self._scores.get((name, shape))

    def of(self, name: str, policy: Policy, shape: Shape) -> NodeScores:
        """The scores of this shape by `policy`, or by the one that had its name before, kept if they last."""
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
        """Score at most `most` nodes by `policies`, which are to be used next; true once all scores are theirs."""
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
        """Forget all scores."""
        self._scores.clear()
        self._coming.clear()
