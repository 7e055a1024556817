"""Chooses cards of one node that are near each other, for a container with slices of several cards.

Traffic between cards is fastest over XGMI, within a hive, and slowest over PCIe and between NUMA nodes.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from device_plugin.core.contract.cards import Card


def near(cards: Sequence[Card], scores: Sequence[float], count: int) -> list[int]:
    """The positions, ascending, of `count` of the `cards` that are near each other; there must be enough cards.

    The cards come from the first of these that has enough: one hive on one NUMA node, one hive, one NUMA node, the
    whole node. If several sets are equally near, the highest sum of `scores` decides, then the order of the cards.
    """
    keys: tuple[Callable[[Card], object], ...] = (
        lambda card: card.hive and (card.hive, card.numa),
        lambda card: card.hive,
        lambda card: (card.numa,) if card.numa >= 0 else None,
        lambda _: True,
    )
    for key in keys:
        groups: defaultdict[object, list[int]] = defaultdict(list)
        for position, card in enumerate(cards):
            if group := key(card):
                groups[group].append(position)
        sets = [_best(members, scores, count) for members in groups.values() if len(members) >= count]
        if sets:
            return sorted(max(sets, key=lambda some: sum(scores[position] for position in some)))
    raise ValueError(f"{len(cards)} cards for {count} slices")


def _best(members: Sequence[int], scores: Sequence[float], count: int) -> list[int]:
    return sorted(members, key=lambda position: -scores[position])[:count]
