"""How much expected fill a placement leaves at best: quick to find, and never less than what it really leaves.

A node's worth is a minimum over CPU prices. At the one price that gives the minimum now, the node loses what the one
card loses, and CPU at that price; and at any other price it loses no less.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import COUNTS, Numbers, Rows, Values
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.index import Index, View
from device_plugin.core.placement.need import Amounts
from device_plugin.core.placement.policy import Bound
from device_plugin.core.placement.worth import Worth

# What is exact is rounded to so many digits; here the sums come out otherwise, by less than ERROR.
DIGITS, ERROR = 6, 1e-9
_KIND = COUNTS.index("kind")


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
        kind = self._index.padded[_KIND, positions] if self._kinds > 1 else np.zeros((1, 1), dtype=np.int64)
        mib, cores, slices = self._index.padded[:3].take(positions, axis=1)
        mib -= asked.mib[kind]
        cores -= asked.cores[kind]
        level = self._fill.grid.levels(mib, cores, self._sizes[0, kind], self._sizes[1, kind])
        level += self._levels * (self._kinds * self._price[positions][:, None] + kind)
        # Whoever takes the last slice leaves nothing that others could have.
        after = self._table.take(level, mode="clip") * (slices > 1)
        score = after - self._now.take(positions, axis=0) - asked.price[kind]
        # Less than nothing if either is: signs are bits.
        score[(mib | cores) < 0] = -np.inf
        if self._fill.together.matters:
            score += self._fill.together.lost_by_slice(View(self._index, positions), asked.ask)
        return _settled(score.max(axis=1) - self._cpu(positions, asked.ask) - self._opened(positions))

    def _whole(self, ask: Ask, accepted: Rows, positions: Numbers) -> Values:
        """By the free card that is worth least, so many times; where none is asked for, CPU alone."""
        self._catch_up(positions)
        view, number = View(self._index, positions), ask.request.whole
        score = self._fill.together.lost_by_whole(view, ask) - self._cpu(positions, ask)
        if not number:
            return _settled(score)
        free = view.usable & view.untouched & accepted[view.kind]
        least = np.where(free, self._now[positions] + self._fill.price[view.kind], np.inf).min(axis=1)
        score -= number * least + self._opened(positions)
        return _settled(np.where(free.sum(axis=1) >= number, score, -np.inf))

    def _cpu(self, positions: Numbers, ask: Ask) -> Values:
        """What its CPU costs on each node."""
        cpu: Values = self._fill.cpu[self._price[positions]] * ask.host.cpu_milli
        return cpu

    def _opened(self, positions: Numbers) -> Values:
        return np.where(self._untouched[positions], self._opening, 0.0)

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
        # Of each card what it is worth, more than anything where nothing can be had. Of each node which CPU price is
        # its own, and whether all of its cards are untouched.
        self._now: Values = np.zeros(shape)
        self._price: Numbers = np.zeros(shape[0], dtype=np.int64)
        self._untouched: Rows = np.zeros(shape[0], dtype=bool)

    def _make(self, view: View) -> None:
        where = view.where
        node, cards = self._worth.now(view)
        price = node.argmin(axis=0)
        self._now[where] = np.where(view.gives, cards[price, np.arange(len(price))], np.inf)
        self._price[where] = price
        self._untouched[where] = view.untouched.all(axis=1)
        self._made[where] = self._index.stamp[where]


def _settled(score: Values) -> Values:
    settled: Values = np.round(score + ERROR, DIGITS)
    return settled
