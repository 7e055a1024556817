"""What one container's request needs of every card at once: `fit` over whole columns."""

import numpy as np

from device_plugin.core.placement.index import Index, Numbers, Rows
from device_plugin.core.placement.refusal import gib, largest
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import Request


class Need:
    """Columns of shape (cards,) for one request: `mib` and `cores` that it would take, and where it fits."""

    def __init__(self, index: Index, request: Request) -> None:
        self._index = index
        self._request = request
        if request.whole:
            self.mib, self.cores = index.mib, index.groups
            self.small: Rows = np.zeros(len(index.cards), dtype=bool)
        else:
            units, self.cores = self._completed()
            self.mib = units * index.mib // np.maximum(index.units, 1)
            self.small = (units > index.units) | (self.cores > index.groups)

    def fits(self) -> Rows:
        """Rows of the cards with room; health, family and selectors are not looked at."""
        index = self._index
        room: Rows = (
            (index.free_mib >= self.mib) & (index.free_cores >= self.cores) & (index.free_slices >= 1)
        )
        return room & ~self.small & ~self._touched()

    def copies(self) -> Numbers:
        """How many times over it fits each card, nothing else being taken."""
        index = self._index
        slices = np.minimum(
            index.free_mib // np.maximum(self.mib, 1), index.free_cores // np.maximum(self.cores, 1)
        )
        return np.where(self.fits(), np.minimum(slices, index.free_slices), 0)

    def leftover(self) -> Numbers:
        """What would remain of each card, in millionths of the card, memory and core groups added."""
        index = self._index
        left: Numbers = (index.free_mib - self.mib) * 10**6 // index.mib
        left += (index.free_cores - self.cores) * 10**6 // index.groups
        return left

    def lacking(self) -> list[tuple[Reason, Rows]]:
        """For each reason the rows that it holds of, the first that applies being the one to name."""
        index = self._index
        return [
            (Reason.TOO_LARGE, self.small),
            (Reason.WHOLE, self._touched()),
            (Reason.SLICES, index.free_slices < 1),
            (Reason.MEMORY, index.free_mib < self.mib),
            (Reason.CORES, index.free_cores < self.cores),
        ]

    def detail(self, reason: Reason, rows: Rows) -> str:
        """A number that helps with the reason, over `rows`; empty if there is none."""
        index = self._index
        if reason is Reason.MEMORY:
            return f"largest free {gib(int(index.free_mib[rows].max()))}"
        if reason is Reason.CORES:
            return f"most free core groups {int(index.free_cores[rows].max())}"
        if reason is Reason.TOO_LARGE:
            family = self._request.family
            units, groups = largest(
                (index.cards[r].card.units, index.cards[r].card.core_groups) for r in np.flatnonzero(rows)
            )
            return f"at most {family}-mem: {units}, {family}-cores: {groups}"
        return ""

    def _touched(self) -> Rows:
        index = self._index
        if self._request.whole:
            touched: Rows = index.free_slices < index.most
            return touched
        return np.zeros(len(index.cards), dtype=bool)

    def _completed(self) -> tuple[Numbers, Numbers]:
        index, mem, cores = self._index, self._request.mem, self._request.cores
        count = len(index.cards)
        groups = np.full(count, cores if cores is not None else 0, dtype=np.int64)
        units = np.full(count, mem if mem is not None else 0, dtype=np.int64)
        if mem is None:
            units = -(-groups * index.units // np.maximum(index.groups, 1))
        elif cores is None:
            groups = -(-units * index.groups // np.maximum(index.units, 1))
        return units, groups
