"""Tables: what policies know of the target workload. Made off the decision path."""

from collections.abc import Sequence
from dataclasses import replace

from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.ask import Ask
from device_plugin.core.placement.columns import Kind
from device_plugin.core.placement.fill import Fill
from device_plugin.core.placement.fragments import Fragments
from device_plugin.core.placement.target import Weighted
from device_plugin.core.requests import ANYTHING

# FGD's own cut: rare asks cost time and change nothing. And no more kinds of asks than so many, CPU apart, for each is
# looked at for every card.
COVER, KINDS = 0.95, 128
# Kinds of asks, CPU and models apart, that count where fragmentation is measured all the time.
PLAIN = 48


class Tables:
    """For kinds of cards, how many of each there are, and a target workload, most frequent ask first."""

    def __init__(self, kinds: Sequence[Kind], supply: Sequence[int], asks: Sequence[Weighted]) -> None:
        self.kinds = tuple(kinds)
        self.asks = tuple(asks)
        self.fill = Fill(self.kinds, supply, self.asks)
        most = _most(self.asks)
        self.fragments = Fragments(self.kinds, most)
        self.plain = Fragments(self.kinds, _plainest(most))


def _plainest(asks: Sequence[Weighted]) -> Sequence[Weighted]:
    """The most frequent, models left out: several times faster, and hardly another figure."""
    plain = [replace(each, ask=replace(each.ask, models=ANYTHING)) for each in asks]
    counts: dict[Ask, float] = {}
    for each in plain:
        ask = replace(each.ask, host=NOTHING)
        counts[ask] = counts.get(ask, 0.0) + each.count
    frequent = set(sorted(counts, key=lambda ask: -counts[ask])[:PLAIN])
    return [each for each in plain if replace(each.ask, host=NOTHING) in frequent]


def _most(asks: Sequence[Weighted]) -> Sequence[Weighted]:
    total, seen, kinds = sum(each.count for each in asks), 0.0, set[Ask]()
    for number, each in enumerate(asks):
        kinds.add(replace(each.ask, host=NOTHING))
        if seen >= COVER * total or len(kinds) > KINDS:
            return asks[:number]
        seen += each.count
    return asks
