"""Levels: what is left of a card, coarse enough for tables."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from device_plugin.core.placement.columns import Kind, Numbers
from device_plugin.core.placement.demand import Demand

STEPS = 100
STEPS_OF_TWO = 24


@dataclass(frozen=True, slots=True)
class Grid:
    """Levels 0..`mem` of free memory, and 0..`cores` of free core groups beside them.

    `cores` is 0 where memory and core groups are always asked for in proportion: then memory stands for both, and core
    groups count only where they are clearly short, for a proportion is rounded up to whole groups.
    """

    mem: int
    cores: int

    @classmethod
    def for_demand(cls, demand: Demand) -> "Grid":
        """As fine as the cards' own units allow."""
        units = max((kind.units for kind in demand.kinds), default=1)
        if not _apart(demand):
            return cls(_multiple(units, STEPS), 0)
        groups = max(kind.groups for kind in demand.kinds)
        return cls(_divisor(units, STEPS_OF_TWO), _divisor(groups, STEPS_OF_TWO))

    @property
    def shape(self) -> tuple[int, int]:
        """Of a table with a value for every level."""
        return self.mem + 1, self.cores + 1

    def levels(self, mib: Numbers, cores: Numbers, card_mib: Numbers, card_cores: Numbers) -> Numbers:
        """The level of a card with so much free, rounded down, as an index into a flat table."""
        first = mib * self.mem // card_mib
        if not self.cores:
            level: Numbers = np.minimum(first, -(-cores * self.mem // card_cores))
        else:
            level = first * (self.cores + 1) + cores * self.cores // card_cores
        return level

    def sizes(self, kind: Kind, mib: Numbers, cores: Numbers) -> Numbers:
        """How many levels a slice takes of a card of a kind, rounded up; shape (slices, 2)."""
        first = -(-mib * self.mem // kind.mem_mib)
        if self.cores:
            return np.stack((first, -(-cores * self.cores // kind.groups)), axis=-1)
        return np.stack((first, np.zeros_like(first)), axis=-1)


def _apart(demand: Demand) -> bool:
    """True if some slice asks for memory and core groups out of proportion."""
    for number, kind in enumerate(demand.kinds):
        asks = demand.allowed[number] & demand.slice & (demand.cores[number] > 0)
        shares = demand.mib[number, asks] / kind.mem_mib - demand.cores[number, asks] / kind.groups
        if (abs(shares) > 1.0 / kind.groups + 1.0 / kind.units).any():
            return True
    return False


def _multiple(units: int, most: int) -> int:
    return units * (most // units) if units <= most else most


def _divisor(units: int, most: int) -> int:
    divisors: Sequence[int] = [n for n in range(1, most + 1) if units % n == 0]
    return max(divisors) if max(divisors) > most // 3 else most
