"""What one container's request needs of every card at once: `fit` over whole columns."""

import numpy as np

from device_plugin.core.placement.columns import Columns, Numbers, Rows
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import Request


class Need:
    """Columns for one request: `mib` and `cores` that it would take, and where it fits."""

    def __init__(self, columns: Columns, request: Request) -> None:
        self._columns = columns
        self._request = request
        if request.whole:
            self.mib, self.cores = columns.mib, columns.groups
            self.small: Rows = np.zeros(columns.mib.shape, dtype=bool)
        else:
            units, self.cores = self._completed()
            self.mib = units * columns.mib // np.maximum(columns.units, 1)
            self.small = (units > columns.units) | (self.cores > columns.groups)

    def fits(self) -> Rows:
        """Cards with room; health, family and selectors are not looked at."""
        columns = self._columns
        room: Rows = (
            (columns.free_mib >= self.mib) & (columns.free_cores >= self.cores) & (columns.free_slices >= 1)
        )
        return room & ~self.small & ~self._touched()

    def copies(self) -> Numbers:
        """How many times over it fits each card, nothing else being taken."""
        columns = self._columns
        slices = np.minimum(
            columns.free_mib // np.maximum(self.mib, 1), columns.free_cores // np.maximum(self.cores, 1)
        )
        return np.where(self.fits(), np.minimum(slices, columns.free_slices), 0)

    def leftover(self) -> Numbers:
        """What would remain of each card, in millionths of the card, memory and core groups added."""
        columns = self._columns
        left: Numbers = (columns.free_mib - self.mib) * 10**6 // columns.mib
        left += (columns.free_cores - self.cores) * 10**6 // columns.groups
        return left

    def lacking(self) -> list[tuple[Reason, Rows]]:
        """For each reason the rows that it holds of, the first that applies being the one to name."""
        columns = self._columns
        return [
            (Reason.TOO_LARGE, self.small),
            (Reason.WHOLE, self._touched()),
            (Reason.SLICES, columns.free_slices < 1),
            (Reason.MEMORY, columns.free_mib < self.mib),
            (Reason.CORES, columns.free_cores < self.cores),
        ]

    def _touched(self) -> Rows:
        columns = self._columns
        return ~columns.untouched if self._request.whole else np.zeros(columns.mib.shape, dtype=bool)

    def _completed(self) -> tuple[Numbers, Numbers]:
        columns, mem, cores = self._columns, self._request.mem, self._request.cores
        shape = columns.mib.shape
        groups = np.full(shape, cores if cores is not None else 0, dtype=np.int64)
        units = np.full(shape, mem if mem is not None else 0, dtype=np.int64)
        if mem is None:
            units = -(-groups * columns.units // np.maximum(columns.groups, 1))
        elif cores is None:
            groups = -(-units * columns.groups // np.maximum(columns.units, 1))
        return units, groups
