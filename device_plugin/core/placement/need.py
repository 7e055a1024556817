"""What one container's request needs of every card at once: `fit` over whole columns."""

from collections.abc import Collection

import numpy as np

from device_plugin.core.placement.columns import Columns, Kind, Numbers, Rows, Values
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import Request


class Amounts:
    """What one request takes of a card of each kind: `mib`, `cores`, the larger `share` of both; shape (kinds,).

    `small` are the kinds that do not have as much; `fits_all` if there are none.
    """

    def __init__(self, kinds: Collection[Kind], request: Request) -> None:
        self.request = request
        sizes = np.array([(k.mem_mib, k.units, k.groups) for k in kinds], dtype=np.int64).reshape(-1, 3)
        mib, card_units, card_cores = sizes.T
        units, cores = card_units, card_cores
        if not request.whole:
            units, cores = (np.full(len(kinds), part or 0) for part in (request.mem, request.cores))
            if request.mem is None:
                units = -(-cores * card_units // np.maximum(card_cores, 1))
            elif request.cores is None:
                cores = -(-units * card_cores // np.maximum(card_units, 1))
        self.cores: Numbers = cores
        self.mib: Numbers = mib if request.whole else units * mib // np.maximum(card_units, 1)
        self.small: Rows = (units > card_units) | (cores > card_cores)
        self.fits_all = not self.small.any()
        self.share: Values = np.maximum(self.mib / mib, cores / card_cores)


class Need:
    """Columns for one request: `mib` and `cores` that it would take, `share` of each card, and where it fits."""

    def __init__(self, columns: Columns, amounts: Amounts) -> None:
        self._columns = columns
        self._amounts = amounts
        self.mib: Numbers = amounts.mib[columns.kind]
        self.cores: Numbers = amounts.cores[columns.kind]

    @property
    def share(self) -> Values:
        """What it would take of each card, the larger share of memory and core groups."""
        share: Values = self._amounts.share[self._columns.kind]
        return share

    @property
    def small(self) -> Rows:
        """Cards that do not have as much when they are free."""
        small: Rows = self._amounts.small[self._columns.kind]
        return small

    def fits(self) -> Rows:
        """Cards with room; health, family and selectors are not looked at."""
        columns = self._columns
        room: Rows = (
            (columns.free_mib >= self.mib) & (columns.free_cores >= self.cores) & (columns.free_slices >= 1)
        )
        if not self._amounts.fits_all:
            room &= ~self.small
        return room & columns.untouched if self._amounts.request.whole else room

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
        whole = self._amounts.request.whole
        return [
            (Reason.TOO_LARGE, self.small),
            (Reason.WHOLE, ~columns.untouched if whole else np.zeros(columns.mib.shape, dtype=bool)),
            (Reason.SLICES, columns.free_slices < 1),
            (Reason.MEMORY, columns.free_mib < self.mib),
            (Reason.CORES, columns.free_cores < self.cores),
        ]
