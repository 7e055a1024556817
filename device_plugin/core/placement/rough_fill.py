"""How much expected fill a placement leaves at best: quick to find, and never less than what it really leaves.

A node's worth is a minimum over CPU prices. At the one price that gives the minimum now, the node loses what the one
card loses, and CPU at that price; and at any other price it loses no less.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Numbers, Rows, Values
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.index import Index, View
from device_plugin.core.placement.need import Amounts
from device_plugin.core.placement.policy import Bound
from device_plugin.core.placement.worth import Worth

# What is exact is rounded to so many digits; here the sums come out otherwise, by less than ERROR.
DIGITS, ERROR = 6, 1e-9


@dataclass(frozen=True, slots=True)
class _Asked:
    """What the ask takes of a card of each kind, and what it costs of the kind's price; shape (kinds,)."""

    ask: Ask
    mib: Numbers
    cores: Numbers
    price: Values


class RoughFill:
    """Of the policy `fragmentation`; `opening` is what an untouched node costs."""

    def __init__(self, fill: Fill, worth: Worth, index: Index, opening: float) -> None:
        self._fill = fill
        self._worth = worth
        self._index = index
        self._opening = opening
        self._table: Values = worth.table.reshape(-1)
        _, self._kinds, self._levels = worth.table.shape
        self._layout = -1
        self._lay_out((0, 0))

    def of(self, ask: Ask, amounts: Amounts, accepted: Rows) -> Bound:
        """For the ask, which takes so much of cards of each kind, where it is `accepted`; until the layout changes."""
        accepted = accepted & ~amounts.small
        if not ask.is_slice:
            return partial(self._whole, ask, accepted)
        price = np.where(accepted, self._fill.price * amounts.share, np.inf)
        return partial(self._slice, _Asked(ask, amounts.mib, amounts.cores, price))

    def _slice(self, asked: "_Asked", positions: Numbers) -> Values:
        """By the card that loses least."""
        self._catch_up(positions)
        # Where all cards are alike, what holds for their kind need not be copied for each.
        kind = self._kind[positions] if self._kinds > 1 else np.zeros((1, 1), dtype=np.int64)
        mib, cores = self._mib[positions] - asked.mib[kind], self._cores[positions] - asked.cores[kind]
        level = self._fill.grid.levels(mib, cores, self._sizes[0, kind], self._sizes[1, kind])
        level += self._first[positions][:, None] + self._levels * kind
        lost = self._table.take(level, mode="clip") - self._now[positions] - asked.price[kind]
        score = np.where((mib >= 0) & (cores >= 0), lost, -np.inf)
        if self._fill.together.matters:
            score += self._fill.together.lost_by_slice(View(self._index, positions), asked.ask)
        return _settled(score.max(axis=1) - self._spent(positions, asked.ask))

    def _whole(self, ask: Ask, accepted: Rows, positions: Numbers) -> Values:
        """By the free card that is worth least, so many times; where none is asked for, CPU alone."""
        self._catch_up(positions)
        number = ask.request.whole
        score = -(self._spent(positions, ask) if number else self._cpu[positions] * ask.host.cpu_milli)
        if self._fill.together.matters:
            score += self._fill.together.lost_by_whole(View(self._index, positions), ask)
        if not number:
            return _settled(score)
        kind = self._kind[positions]
        free = self._free[positions] & accepted[kind]
        worth = self._now[positions] + self._fill.price[kind]
        least = np.where(free, worth, worth.max(initial=0)).min(axis=1)
        score -= number * least
        return _settled(np.where(free.sum(axis=1) >= number, score, -np.inf))

    def _spent(self, positions: Numbers, ask: Ask) -> Values:
        """What each node loses beside its cards."""
        cpu = self._cpu[positions] * ask.host.cpu_milli
        spent: Values = cpu + np.where(self._untouched[positions], self._opening, 0.0)
        return spent

    def renew(self, most: int) -> bool:
        """Catch up with no more than `most` nodes that changed; true once none is left."""
        self._follow()
        behind = np.flatnonzero(self._index.stamp > self._made)
        if len(behind):
            self._make(View(self._index, behind[:most]))
        return len(behind) <= most

    def _follow(self) -> None:
        if self._layout != self._index.layout:
            self._layout = self._index.layout
            self._lay_out(self._index.grid.shape)

    def _catch_up(self, positions: Numbers) -> None:
        self._follow()
        index = self._index
        behind = positions[index.stamp[positions] > self._made[positions]]
        if len(behind):
            self._make(View(index, behind))

    def _lay_out(self, shape: tuple[int, ...]) -> None:
        self._made: Numbers = np.full(shape[0], -1, dtype=np.int64)
        # Memory and core groups of a card of each kind.
        sizes = [(kind.mem_mib, kind.groups) for kind in self._index.kinds]
        self._sizes: Numbers = np.array(sizes, dtype=np.int64).reshape(-1, 2).T
        # Of each card what it can give, less than nothing where nothing; its kind, and what it is worth.
        self._mib: Numbers = np.zeros(shape, dtype=np.int64)
        self._cores: Numbers = np.zeros(shape, dtype=np.int64)
        self._kind: Numbers = np.zeros(shape, dtype=np.int64)
        self._now: Values = np.zeros(shape)
        # Which cards are free; of each node the CPU price, where its part of the table begins, and whether all of its
        # cards are untouched.
        self._free: Rows = np.zeros(shape, dtype=bool)
        self._cpu: Values = np.zeros(shape[0])
        self._first: Numbers = np.zeros(shape[0], dtype=np.int64)
        self._untouched: Rows = np.zeros(shape[0], dtype=bool)

    def _make(self, view: View) -> None:
        fill, where = self._fill, view.where
        node, cards = self._worth.now(view)
        price = node.argmin(axis=0)
        gives = view.open & (view.free_slices >= 1)
        self._mib[where], self._cores[where] = np.where(gives, view.free_mib, -1), view.free_cores
        self._kind[where], self._now[where] = view.kind, cards[price, np.arange(len(price))]
        self._cpu[where], self._first[where] = fill.cpu[price], price * (self._kinds * self._levels)
        untouched = view.untouched
        self._free[where] = gives & untouched
        self._untouched[where] = (untouched | ~view.there).all(axis=1)
        self._made[where] = self._index.stamp[where]


def _settled(score: Values) -> Values:
    settled: Values = np.round(score + ERROR, DIGITS)
    return settled
