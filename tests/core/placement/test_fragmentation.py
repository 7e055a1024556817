"""Fragmentation against its definition, card by card and pod by pod."""

import random

import numpy as np
import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger, NodeState
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.fit import CardFit, KindSizes, fit
from device_plugin.core.placement.fragmentation import Fragments
from device_plugin.core.placement.table import NodeView
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import PodRequest, Shape
from tests.builders.cards import card
from tests.builders.requests import shape, target

TARGET = target(
    (shape(4, cpu=1000), 30), (shape(8, 10, cpu=2000), 20), (shape(whole=2, cpu=4000), 10), (shape(1, 40), 5)
)  # fmt: skip


def by_definition(state: NodeState, cpu: int, shapes: tuple[Weighted, ...]) -> float:
    total = sum(each.count for each in shapes)
    idle = [
        min(c.free_mib / c.card.mem_mib, c.free_cores.bit_count() / c.card.core_groups) for c in state.cards
    ]
    found = 0.0
    for each in shapes:
        usable = [fit(c, each.shape.request) is not None for c in state.cards]
        serves = cpu >= each.shape.host.cpu_milli and sum(usable) >= max(1, each.shape.request.whole)
        useless = sum(i for i, u in zip(idle, usable, strict=True) if not (serves and u))
        found += each.count / total * useless
    return found


@pytest.mark.parametrize("seed", range(4))
def test_fragments_are_what_their_definition_says_before_and_after(seed: int) -> None:
    rng = random.Random(seed)
    ledger = Ledger()
    for name in "abc":
        cards = tuple(card(f"{name}{i}") for i in range(rng.randint(1, 4)))
        ledger.set_node(name, Inventory(cards), HostAmounts(rng.choice((2000, 8000, 32000)), 0))
    placer = Placer(ledger, POLICIES)
    placer.table.refresh()
    fragments = Fragments(tuple(placer.table.kinds), TARGET)
    for number in range(40):
        wanted = rng.choice(TARGET).shape
        request = PodRequest(f"p{number}", (("main", wanted.request),), policy="random", host=wanted.host)
        found = placer.place(request)
        if not isinstance(found, Grant):
            continue
        before = measured(placer, fragments)
        for name, value in before.items():
            state = ledger.node(name)
            assert state is not None
            assert value == pytest.approx(by_definition(state, state.left.cpu_milli, TARGET))
        added = foretold(placer, fragments, wanted, found)
        ledger.hold(found, wanted.host)
        assert measured(placer, fragments)[found.node] - before[found.node] == pytest.approx(added)


def measured(placer: Placer, fragments: Fragments) -> dict[str, float]:
    placer.table.refresh()
    view = NodeView(placer.table, np.arange(len(placer.table.nodes)))
    return dict(zip(placer.table.nodes, fragments.of(view).tolist(), strict=True))


def foretold(placer: Placer, fragments: Fragments, wanted: Shape, found: Grant) -> float:
    position = placer.table.position[found.node]
    view = NodeView(placer.table, np.array([position]))
    cards = [state.card.uuid for state in placer.table.cards(position)]
    given = [s.card for s in found.slices()]
    if wanted.is_slice:
        added = fragments.added_by_slice(
            view, CardFit(view, KindSizes(placer.table.kinds, wanted.request)), wanted
        )
        return float(added[0, cards.index(given[0])])
    taken = view.there & np.array([[*(uuid in given for uuid in cards), *[False] * 4][: view.there.shape[1]]])
    return float(fragments.added_by_whole(view, taken, wanted)[0])
