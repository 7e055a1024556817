"""How much expected fill a placement leaves at best: quick to find, and never less than what it really leaves.

A node's worth is a minimum over CPU prices. At the one price that gives the minimum now, the node loses what the one
card loses, and CPU at that price; and at any other price it loses no less. So all that must be known of each card is
where in the table of worths it stands, and the rest is a subtraction.
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
    """What the ask takes of a card of each kind, shape (kinds,): so many levels, and `mib` and `cores` beyond them.

    `tying` and `opening` are what it gains at most beside expected fill, `opening` on a node that is untouched.
    """

    ask: Ask
    level: Numbers
    mib: Numbers
    cores: Numbers
    tying: Values
    opening: Values


class RoughFill:
    """Of the policy `fragmentation`: `tie` and `opened` are what it adds to settle near-equal choices.

    That is at most `tie` times the share of a card that is given away, and on an untouched node, exactly `opened`.
    """

    def __init__(self, fill: Fill, worth: Worth, index: Index, tie: float, opened: float) -> None:
        self._fill = fill
        self._worth = worth
        self._index = index
        self._tie, self._opened = tie, opened
        grid = fill.grid
        # A level of less than nothing, in memory or in core groups, is worth minus infinity: there nothing fits.
        self._rows, self._columns = 2 * grid.mem + 3, 2 * grid.cores + 2
        kinds, prices = fill.worth.shape[:2]
        table = np.full((prices, kinds, self._rows, self._columns), -np.inf)
        table[:, :, grid.mem + 2 :, grid.cores + 1 :] = fill.worth.reshape(
            kinds, prices, *grid.shape
        ).swapaxes(0, 1)
        self._table: Values = table.reshape(-1)
        self._layout = -1
        self._lay_out((0, 0))

    def of(self, ask: Ask, amounts: Amounts, accepted: Rows) -> Bound:
        """For the ask, which takes so much of cards of each kind, where it is `accepted`; until the layout changes."""
        accepted = accepted & ~amounts.small
        if not ask.is_slice:
            return partial(self._whole, ask, accepted)
        grid, share = self._fill.grid, amounts.share
        sizes = np.array([(kind.mem_mib, kind.groups) for kind in self._index.kinds]).reshape(-1, 2)
        rows, mib = np.divmod(np.where(accepted, amounts.mib, 0) * grid.mem, sizes[:, 0])
        columns, cores = np.divmod(np.where(accepted, amounts.cores, 0) * grid.cores, sizes[:, 1])
        price = np.where(accepted, -self._fill.price * share, -np.inf)
        level = rows * self._columns + columns
        asked = _Asked(ask, level, mib, cores, price + self._tie * share, price + self._opened)
        return partial(self._slice, asked)

    def _slice(self, asked: "_Asked", positions: Numbers) -> Values:
        """By the card that loses least."""
        self._catch_up(positions)
        kind = self._kind[positions] if len(asked.level) > 1 else np.zeros((1, 1), dtype=np.int64)
        after = self._cell[positions] - asked.level[kind]
        # What is left is rounded down: one level more is lost by a card that has less than that beyond its level.
        after -= (self._beyond[0, positions] < asked.mib[kind]) * self._columns
        if self._fill.grid.cores:
            after -= self._beyond[1, positions] < asked.cores[kind]
        score = self._table.take(after) - self._now[positions]
        score += np.where(self._untouched[positions][:, None], asked.opening[kind], asked.tying[kind])
        if self._fill.together.matters:
            score += self._fill.together.lost_by_slice(View(self._index, positions), asked.ask)
        return _settled(score.max(axis=1) - self._cpu[positions] * asked.ask.host.cpu_milli)

    def _whole(self, ask: Ask, accepted: Rows, positions: Numbers) -> Values:
        """By the free card that is worth least, so many times; where none is asked for, CPU alone."""
        self._catch_up(positions)
        number, score = ask.request.whole, -self._cpu[positions] * ask.host.cpu_milli
        if self._fill.together.matters:
            score += self._fill.together.lost_by_whole(View(self._index, positions), ask)
        if not number:
            return _settled(score)
        kind = self._kind[positions]
        free = self._free[positions] & accepted[kind]
        worth = self._now[positions] + self._fill.price[kind]
        least = np.where(free, worth, worth.max(initial=0)).min(axis=1)
        score += np.where(self._untouched[positions], self._opened, self._tie * number) - number * least
        return _settled(np.where(free.sum(axis=1) >= number, score, -np.inf))

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
        # Of each card where it stands in the table, what it has beyond that level, and what it is worth.
        self._cell: Numbers = np.zeros(shape, dtype=np.int64)
        self._beyond: Numbers = np.zeros((2, *shape), dtype=np.int64)
        self._now: Values = np.zeros(shape)
        self._kind: Numbers = np.zeros(shape, dtype=np.int64)
        # Which cards are free; of each node the CPU price, and whether all of its cards are untouched.
        self._free: Rows = np.zeros(shape, dtype=bool)
        self._cpu: Values = np.zeros(shape[0])
        self._untouched: Rows = np.zeros(shape[0], dtype=bool)

    def _make(self, view: View) -> None:
        fill, where = self._fill, view.where
        node, cards = self._worth.now(view)
        price = node.argmin(axis=0)
        rows, mib = np.divmod(view.free_mib * fill.grid.mem, view.mib)
        columns, cores = np.divmod(view.free_cores * fill.grid.cores, view.groups)
        gives = view.open & (view.free_slices >= 1)
        rows = np.where(gives, rows, -1) + fill.grid.mem + 2
        first = price[:, None] * len(fill.worth) + view.kind
        self._cell[where] = (first * self._rows + rows) * self._columns + columns + fill.grid.cores + 1
        self._beyond[0, where], self._beyond[1, where] = mib, cores
        self._now[where] = cards[price, np.arange(len(price))]
        self._kind[where], self._cpu[where] = view.kind, fill.cpu[price]
        untouched = view.untouched
        self._free[where] = gives & untouched
        self._untouched[where] = (untouched | ~view.there).all(axis=1)
        self._made[where] = self._index.stamp[where]


def _settled(score: Values) -> Values:
    settled: Values = np.round(score + ERROR, DIGITS)
    return settled
