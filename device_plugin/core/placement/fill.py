"""Expected fill: what the rest of a card will probably be worth to the pods that are still to come."""

from collections.abc import Sequence

import numpy as np

from device_plugin.core.placement.columns import Kind, Numbers, Rows, Values
from device_plugin.core.placement.demand import Demand
from device_plugin.core.placement.duals import central_duals
from device_plugin.core.placement.grid import Grid
from device_plugin.core.placement.target import Weighted
from device_plugin.core.placement.together import Together

FREE_CARD = 1000.0
# Prices of CPU that are tried, as multiples of what an average pod of the workload is worth per unit of its CPU.
CPU_PRICES = (0, .05, .1, .15, .2, .25, .3, .35, .4, .5, .6, .7, .85, 1.0, 1.3, 1.8, 3.0)  # fmt: skip
# A card meets a random stream of pods but need not take each: the better half of those that fit.
CHOOSY = 0.5
# What an untouched card is worth beyond its fill: breaks ties, so that no card is opened without need.
UNTOUCHED = 10.0
# A kind is scarce when the pods confined to it would fill more than this share of it.
SCARCE = 0.25


class Fill:
    """The worth of what is left of cards, in thousandths of a free card.

    `worth` has the shape (kinds, CPU prices, levels); `cpu` are the CPU prices, per milli; `price`, of shape (kinds,),
    is what a whole card of a kind costs beyond its fill, because others depend on it. `useless`, of shape (kinds,
    levels), is how much of a card is idle at each level, times the share of the workload that is too large for it,
    models left out. `together` is what cards are worth beyond that where several of a node are free.
    """

    def __init__(self, kinds: Sequence[Kind], supply: Sequence[int], asks: Sequence[Weighted]) -> None:
        demand = Demand(kinds, asks)
        self.grid = Grid.for_demand(demand)
        mass = demand.count * np.maximum(demand.whole, 1) * (demand.slice | (demand.whole > 0))
        cpu = demand.cpu / np.maximum(demand.whole, 1)
        sizes = [self.grid.sizes(kind, demand.mib[k], demand.cores[k]) for k, kind in enumerate(kinds)]
        values = [FREE_CARD * self._duals(size, demand.slice, mass) for size in sizes]
        value = np.mean(values, axis=0) if values else np.zeros(len(asks))
        spent = float((mass * cpu).sum())
        # Where nobody requests CPU it has no price.
        self.cpu: Values = (
            np.array(CPU_PRICES) * float((mass * value).sum()) / spent if spent else np.zeros(1)
        )
        rows, columns = self.grid.shape
        self.worth: Values = np.zeros((len(kinds), len(self.cpu), rows * columns))
        self.useless: Values = np.zeros((len(kinds), rows * columns))
        alike: dict[tuple[bytes, ...], Values] = {}
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
        self.price: Values = FREE_CARD * np.maximum(0.0, _scarcity(demand, np.asarray(supply)) - SCARCE)
        self.together = Together(demand, FREE_CARD)

    def _duals(self, sizes: Numbers, slices: Rows, mass: Values) -> Values:
        """What each ask costs of a card of one kind, in cards; 1 for a whole card."""
        card = self.grid.mem, self.grid.cores
        parts = slices & (mass > 0) & (sizes <= card).all(axis=1) & (sizes.sum(axis=1) > 0)
        costs: Values = np.ones(len(sizes))
        if parts.any():
            distinct, which = np.unique(sizes[parts], axis=0, return_inverse=True)
            which = which.reshape(-1)
            demand = np.bincount(which, mass[parts]).astype(np.float64)
            costs[parts] = central_duals(distinct, demand, card)[which]
        return costs


def _expected(shape: tuple[int, int], sizes: Numbers, gain: Values, mass: Values) -> Values:
    """The worth of every level of a card; shape (CPU prices, levels).

    By recursion: the mean over the better half of the asks that fit, of what such a pod is worth and what it leaves.
    And never less than the same space in two parts.
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


def _useless(grid: Grid, sizes: Numbers, demand: Demand, family: Rows) -> Values:
    """Of a card of one kind; shape (levels,). What is idle is the lesser of memory and core groups."""
    mem, cores = np.divmod(np.arange(np.prod(grid.shape)), grid.cores + 1)
    idle = mem / grid.mem
    if grid.cores:
        idle = np.minimum(idle, cores / grid.cores)
    usable = (mem[:, None] >= sizes[:, 0]) & (cores[:, None] >= sizes[:, 1]) & family
    # Whole cards are asked for where nobody holds any of them.
    usable[:-1] &= demand.slice
    wanted = demand.count * (demand.slice | (demand.whole > 0))
    useless: Values = idle * (1 - usable @ wanted / max(float(wanted.sum()), 1e-9))
    return useless


def _better_half(values: Values, mass: Values) -> Values:
    order = np.argsort(-values, axis=0)
    values, mass = np.take_along_axis(values, order, 0), mass[order]
    half = CHOOSY * mass[:, 0].sum()
    taken = np.clip(half - (np.cumsum(mass, axis=0) - mass), 0, mass)
    mean: Values = (taken * np.maximum(values, 0)).sum(axis=0) / half
    return mean


def _scarcity(demand: Demand, supply: Values) -> Values:
    """Of each kind: demand confined to some kinds over the supply of those, all demand scaled to all supply."""
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
