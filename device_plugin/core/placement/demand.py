"""The target workload against the kinds of cards: what each ask would take of a card of each kind, as shares."""

from collections.abc import Sequence

import numpy as np

from device_plugin.core.placement.columns import Columns, Kind, Numbers, Rows, Values, packed
from device_plugin.core.placement.need import Amounts, Need
from device_plugin.core.placement.target import Weighted


class Demand:
    """Arrays of shape (kinds, asks): `mib`, `cores`, and `allowed`; of shape (asks,) `whole`, `cpu`, `memory`, `count`.

    `whole` is 0 for a slice; `memory` is the host's, in MiB. An ask is allowed on a kind that its family and models
    accept and that it fits when empty; `family` is true where it would be but for its models.
    """

    def __init__(self, kinds: Sequence[Kind], asks: Sequence[Weighted]) -> None:
        self.kinds = tuple(kinds)
        shape = len(kinds), len(asks)
        self.mib: Numbers = np.zeros(shape, dtype=np.int64)
        self.cores: Numbers = np.zeros(shape, dtype=np.int64)
        self.allowed: Rows = np.zeros(shape, dtype=bool)
        self.family: Rows = np.zeros(shape, dtype=bool)
        self.whole: Numbers = np.array([w.ask.request.whole for w in asks], dtype=np.int64)
        self.slice: Rows = np.array([w.ask.is_slice for w in asks], dtype=bool)
        self.cpu: Numbers = np.array([w.ask.host.cpu_milli for w in asks], dtype=np.int64)
        self.memory: Numbers = np.array([w.ask.host.memory_mib for w in asks], dtype=np.int64)
        self.count: Values = np.array([w.count for w in asks], dtype=np.float64)
        empty = _empty(kinds)
        for number, weighted in enumerate(asks):
            ask = weighted.ask
            if not (ask.is_slice or ask.request.whole):
                continue
            need = Need(empty, Amounts(kinds, ask.request))
            self.mib[:, number], self.cores[:, number] = need.mib, need.cores
            family = [kind.family == ask.request.family for kind in kinds]
            accepted = [ask.accepts(kind) for kind in kinds]
            self.family[:, number] = need.fits() & np.array(family, dtype=bool)
            self.allowed[:, number] = self.family[:, number] & np.array(accepted, dtype=bool)

    def wanted(self) -> Values:
        """How many cards all pods of an ask want, a slice by its larger share of the card it is most of; (asks,)."""
        if not self.kinds:
            return np.zeros(len(self.count))
        cards = np.array([[kind.mem_mib, kind.groups] for kind in self.kinds])
        share = np.maximum(self.mib / cards[:, :1], self.cores / cards[:, 1:]).max(axis=0)
        wanted: Values = self.count * np.maximum(self.whole, 1) * share
        return wanted


def _empty(kinds: Sequence[Kind]) -> Columns:
    """One free card of each kind."""
    columns = [
        (k.mem_mib, k.groups, k.slices, k.mem_mib, k.units, k.groups, k.slices, number, 1, 1, 0, 0)
        for number, k in enumerate(kinds)
    ]
    return Columns(packed(columns))
