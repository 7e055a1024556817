"""Tables: what policies know of the target workload. Made off the decision path."""

from collections.abc import Sequence
from dataclasses import replace

from device_plugin.core.placement.columns import Kind
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.fragments import Fragments
from device_plugin.core.placement.target import Weighted
from device_plugin.core.requests import Selector

# FGD's own cut: rare asks cost time and change nothing.
COVER = 0.95


class Tables:
    """For kinds of cards, how many of each there are, and a target workload, most frequent ask first."""

    def __init__(self, kinds: Sequence[Kind], supply: Sequence[int], asks: Sequence[Weighted]) -> None:
        self.kinds = tuple(kinds)
        self.asks = tuple(asks)
        self.fill = Fill(self.kinds, supply, self.asks)
        most = _most(self.asks)
        self.fragments = Fragments(self.kinds, most)
        # To settle ties it need not be known who may use which model, and that makes it several times faster.
        self.ties = Fragments(self.kinds, [replace(e, ask=replace(e.ask, models=Selector())) for e in most])


def _most(asks: Sequence[Weighted]) -> Sequence[Weighted]:
    total, seen = sum(each.count for each in asks), 0.0
    for number, each in enumerate(asks):
        if seen >= COVER * total:
            return asks[:number]
        seen += each.count
    return asks
