"""Expected fill: an estimate of the part of a card's free part that later pods will be able to use.

Its tables are computed in the background, for one target workload: the shapes that later pods will probably have
(module `workload`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from device_plugin.core.placement.card_columns import CardKind, Floats, Ints, Mask
from device_plugin.core.placement.duals import central_duals
from device_plugin.core.placement.table import NodeView
from device_plugin.core.placement.workload import Demand, Weighted
from device_plugin.core.requests import Shape

FREE_CARD = 1000.0
# The CPU prices to try, as multiples of the average worth of the workload's pods for each milli-CPU that they request.
CPU_PRICES = (0, .05, .1, .15, .2, .25, .3, .35, .4, .5, .6, .7, .85, 1.0, 1.3, 1.8, 3.0)  # fmt: skip
# The share of the fitting pods that counts, the best ones: pods come at random, and a card need not take every pod.
CHOOSY = 0.5
# Thousandths that an untouched card is worth in addition to its fill, so that no card is opened without need.
UNTOUCHED = 10.0
# A kind of card is scarce if the pods that can use only this kind would fill more than this share of it.
SCARCE = 0.25
# Most levels of memory if it stands for core groups too, and most levels of each if memory and core groups both count.
STEPS, STEPS_OF_TWO = 100, 24


@dataclass(frozen=True, slots=True)
class Grid:
    """The levels of a card's free part: 0..`mem` of free memory and 0..`cores` of free core groups.

    `cores` is 0 if the workload always requests memory and core groups in proportion. Then the level is that of the
    free memory. It is lower only if clearly fewer core groups are free, because a request in proportion is rounded up
    to whole groups.
    """

    mem: int
    cores: int

    @classmethod
    def for_demand(cls, demand: Demand) -> "Grid":
        """The grid that suits the requests of a workload (`demand`).

        The steps of the grid's levels match the cards' memory units: if possible, a unit is a whole number of levels,
        or a level is a whole number of units.
        """
        units = max((kind.units for kind in demand.kinds), default=1)
        if not _apart(demand):
            return cls(_multiple(units, STEPS), 0)
        groups = max(kind.groups for kind in demand.kinds)
        return cls(_divisor(units, STEPS_OF_TWO), _divisor(groups, STEPS_OF_TWO))

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of an array with a value for every level (free part of a card): by free memory, by free cores."""
        return self.mem + 1, self.cores + 1

    def levels(self, mib: Ints, cores: Ints, card_mib: Ints, card_cores: Ints) -> Ints:
        """The level of a card (its free part) with `mib` and `cores` free, rounded down: an index into a flat table."""
        first = mib * self.mem // card_mib
        if not self.cores:
            level: Ints = np.minimum(first, -(-cores * self.mem // card_cores))
        else:
            level = first * (self.cores + 1) + cores * self.cores // card_cores
        return level

    def sizes(self, kind: CardKind, mib: Ints, cores: Ints) -> Ints:
        """The levels that slices of `mib` and `cores` take on a card of `kind`, rounded up; shape (slices, 2)."""
        first = -(-mib * self.mem // kind.mem_mib)
        if self.cores:
            return np.stack((first, -(-cores * self.cores // kind.groups)), axis=-1)
        return np.stack((first, np.zeros_like(first)), axis=-1)


def _apart(demand: Demand) -> bool:
    """True if a kind of request (shape) needs clearly different shares of a card's memory and core groups."""
    for number, kind in enumerate(demand.kinds):
        shapes = demand.allowed[number] & demand.slice & (demand.cores[number] > 0)
        shares = demand.mib[number, shapes] / kind.mem_mib - demand.cores[number, shapes] / kind.groups
        if (abs(shares) > 1.0 / kind.groups + 1.0 / kind.units).any():
            return True
    return False


def _multiple(units: int, most: int) -> int:
    return units * (most // units) if units <= most else most


def _divisor(units: int, most: int) -> int:
    divisors: Sequence[int] = [n for n in range(1, most + 1) if units % n == 0]
    return max(divisors) if max(divisors) > most // 3 else most


class Fill:
    """Tables of the worth that the free part of cards has for later pods, in thousandths of a free card.

    - `worth`: the worth of a card; shape (kinds, CPU prices, levels).
    - `cpu`: the CPU prices, each for a thousandth of a CPU.
    - `price`: the additional cost of a whole card of a scarce kind; shape (kinds,).
    - `useless`: the idle share of a card, times the share of later pods that do not fit its free part; card models do
      not count; shape (kinds, levels).
    - `multi_card`: the additional worth that several free cards have because they are on one node.
    """

    def __init__(self, kinds: Sequence[CardKind], supply: Sequence[int], shapes: Sequence[Weighted]) -> None:
        demand = Demand(kinds, shapes)
        self.grid = Grid.for_demand(demand)
        mass = demand.count * np.maximum(demand.whole, 1) * (demand.slice | (demand.whole > 0))
        cpu = demand.cpu / np.maximum(demand.whole, 1)
        sizes = [self.grid.sizes(kind, demand.mib[k], demand.cores[k]) for k, kind in enumerate(kinds)]
        values = [FREE_CARD * self._duals(size, demand.slice, mass) for size in sizes]
        value = np.mean(values, axis=0) if values else np.zeros(len(shapes))
        spent = float((mass * cpu).sum())
        # CPU has no price if no pod requests any.
        self.cpu: Floats = (
            np.array(CPU_PRICES) * float((mass * value).sum()) / spent if spent else np.zeros(1)
        )
        rows, columns = self.grid.shape
        self.worth: Floats = np.zeros((len(kinds), len(self.cpu), rows * columns))
        self.useless: Floats = np.zeros((len(kinds), rows * columns))
        alike: dict[tuple[bytes, ...], Floats] = {}
        for k in range(len(kinds)):
            self.useless[k] = _useless(self.grid, sizes[k], demand, demand.family[k])
            allowed = demand.allowed[k] & (mass > 0)
            gain = values[k][allowed, None] - np.outer(cpu[allowed], self.cpu)
            key = sizes[k][allowed].tobytes(), gain.tobytes(), mass[allowed].tobytes()
            if key not in alike:
                alike[key] = _expected(self.grid.shape, sizes[k][allowed], gain, mass[allowed])
            self.worth[k] = alike[key]
        self.worth *= FREE_CARD / np.maximum(self.worth[:, :1, -1:], 1e-9)
        self.worth[:, :, -1] += UNTOUCHED
        self.price: Floats = FREE_CARD * np.maximum(0.0, _scarcity(demand, np.asarray(supply)) - SCARCE)
        self.multi_card = MultiCardWorth(demand, FREE_CARD)

    def _duals(self, sizes: Ints, slices: Mask, mass: Floats) -> Floats:
        """The cost of a slice of each shape (kind of request) on cards of one kind, in cards; 1 for whole cards."""
        card = self.grid.mem, self.grid.cores
        parts = slices & (mass > 0) & (sizes <= card).all(axis=1) & (sizes.sum(axis=1) > 0)
        costs: Floats = np.ones(len(sizes))
        if parts.any():
            distinct, which = np.unique(sizes[parts], axis=0, return_inverse=True)
            which = which.reshape(-1)
            demand = np.bincount(which, mass[parts]).astype(np.float64)
            costs[parts] = central_duals(distinct, demand, card)[which]
        return costs


def _expected(shape: tuple[int, int], sizes: Ints, gain: Floats, mass: Floats) -> Floats:
    """The worth for later pods of every level (free part) of a card; shape (CPU prices, levels).

    For each level, from the lowest:
    1. Add, for every shape that fits, its gain and the worth of the level that is left after it.
    2. Take the mean of the better half of these sums.
    3. If two parts of the level are worth more together, take the sum of their worths.
    """
    worth = np.zeros((*shape, gain.shape[1]))
    for i, j in np.ndindex(shape):
        fits = (sizes <= (i, j)).all(axis=1)
        if fits.any():
            left = np.array((i, j)) - sizes[fits]
            worth[i, j] = _better_half(gain[fits] + worth[left[:, 0], left[:, 1]], mass[fits])
        parts = worth[: i + 1, : j + 1]
        worth[i, j] = np.maximum(worth[i, j], (parts + parts[::-1, ::-1]).max(axis=(0, 1)))
    return worth.reshape(-1, gain.shape[1]).T


def _useless(grid: Grid, sizes: Ints, demand: Demand, family: Mask) -> Floats:
    """A card's idle share, times the share of the workload that cannot use it, for one kind; shape (levels,).

    The idle share is the smaller of the free shares of memory and core groups.
    """
    mem, cores = np.divmod(np.arange(np.prod(grid.shape)), grid.cores + 1)
    idle = mem / grid.mem
    if grid.cores:
        idle = np.minimum(idle, cores / grid.cores)
    usable = (mem[:, None] >= sizes[:, 0]) & (cores[:, None] >= sizes[:, 1]) & family
    # Requests for whole cards can use only a free card, the last level.
    usable[:-1] &= demand.slice
    wanted = demand.count * (demand.slice | (demand.whole > 0))
    return idle * (1 - usable @ wanted / max(float(wanted.sum()), 1e-9))


def _better_half(values: Floats, mass: Floats) -> Floats:
    order = np.argsort(-values, axis=0)
    values, mass = np.take_along_axis(values, order, 0), mass[order]
    half = CHOOSY * mass[:, 0].sum()
    taken = np.clip(half - (np.cumsum(mass, axis=0) - mass), 0, mass)
    return (taken * np.maximum(values, 0)).sum(axis=0) / half


def _scarcity(demand: Demand, supply: Floats) -> Floats:
    """The scarcity of each kind: the demand for it by shapes that cannot use all kinds; shape (kinds,).

    Each such shape adds its demand, divided by the supply of all kinds that it can use. The total demand is scaled to
    the total supply.
    """
    scarcity = np.zeros(len(supply))
    wanted = demand.wanted()
    if not len(supply) or not wanted.sum():
        return scarcity
    wanted = wanted * supply.sum() / float(wanted.sum())
    patterns, which = np.unique(demand.allowed, axis=1, return_inverse=True)
    for number, allowed in enumerate(patterns.T):
        if 0 < supply[allowed].sum() < supply.sum():
            scarcity[allowed] += wanted[which.reshape(-1) == number].sum() / supply[allowed].sum()
    return scarcity


# For each shape of n > 1 cards: a node that has these cards free is worth KEEPING * n * A * (B - FEW) cards more. A is
# the share of all wanted cards that pods of this shape want, and B the share that all pods of n cards want. If B is
# below FEW, keeping cards together costs more than it gains. B is reduced by one standard error, because a small sample
# may contain a pod of eight cards by chance.
KEEPING, FEW = 0.3, 0.1
# Only this many shapes count, those with the highest value; rarer ones change nothing.
MOST = 32


class MultiCardWorth:
    """Computes the worth of nodes for pods that need several cards of one node, in thousandths of a card.

    The worth of a single card does not depend on its node. But a node on which a pod of eight cards fits has additional
    worth. It loses all of this worth if it gives away one of these cards, or the CPU or memory that such a pod needs.
    `matters` is true if enough pods want several cards.
    """

    def __init__(self, demand: Demand, free_card: float) -> None:
        wanted = demand.wanted()
        share = wanted / max(float(wanted.sum()), 1e-9)
        alike, pods = (np.bincount(demand.whole, each)[demand.whole] for each in (share, demand.count))
        sure = alike * np.maximum(0, 1 - 1 / np.sqrt(np.maximum(pods, 1)))
        value = free_card * KEEPING * demand.whole * share * np.maximum(0, sure - FEW)
        several = np.flatnonzero((demand.whole > 1) & (value > 0))
        chosen = several[np.argsort(-value[several], kind="stable")[:MOST]]
        self._cards, self._cpu, self._memory = demand.whole[chosen], demand.cpu[chosen], demand.memory[chosen]
        self._value: Floats = value[chosen] * demand.allowed[:, chosen]
        self.matters = len(chosen) > 0

    @property
    def amounts(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Cards, CPU (milli) and memory (MiB) of requests for several cards, and their value on each kind of card.

        The arrays have the shapes (requests,), (requests,), (requests,) and (kinds, requests).
        """
        return self._cards, self._cpu, self._memory, self._value

    def lost_by_slice(self, view: NodeView, shape: Shape) -> Floats:
        """The change of a node's worth for pods of several cards if a card gives a slice; shape (nodes, cards)."""
        if not self.matters:
            return np.zeros(view.kind.shape)
        free = _free(view)
        number, taken = free.sum(axis=1), np.array([[0], [1], [0]])
        now, opened, touched = self._worth(view, number - taken, shape, np.array([[0], [1], [1]]))
        return np.where(free, opened[:, None], touched[:, None]) - now[:, None]

    def lost_by_whole(self, view: NodeView, shape: Shape) -> Floats:
        """The change of a node's worth for pods of several cards, if a pod of `shape` takes cards; shape (nodes,)."""
        if not self.matters:
            return np.zeros(len(view.kind))
        number, times = _free(view).sum(axis=1), np.array([[0], [1]])
        now, then = self._worth(view, number - times * shape.request.whole, shape, times)
        return then - now

    def _worth(self, view: NodeView, number: Ints, shape: Shape, times: Ints) -> Floats:
        """The worth of nodes with `number` free cards for pods of several cards; it has the shape of `number`.

        Before, the CPU and memory of `shape` are taken from each node, as many times as `times` says.
        """
        cpu, memory = view.cpu - times * shape.host.cpu_milli, view.memory - times * shape.host.memory_mib
        fits: Mask = number[..., None] >= self._cards
        fits &= cpu[..., None] >= self._cpu
        fits &= memory[..., None] >= self._memory
        # The cards of a node are nearly always of one kind.
        return np.where(fits, self._value[view.kind[:, 0]], 0).sum(axis=-1)


def _free(view: NodeView) -> Mask:
    return view.untouched & view.usable
