"""What a node is worth, and what it loses: foretold as it comes."""

import random

import numpy as np
import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.expected_fill import Worth
from device_plugin.core.placement.fit import CardFit, KindSizes, fit
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.table import NodeView
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.requests import Shape
from tests.builders.cards import inventory
from tests.builders.requests import shape

CPU = 8000


class World:
    """One node of some cards, and a target workload."""

    def __init__(self, cards: int, shapes: list[Shape], **size: int) -> None:
        self.ledger = Ledger()
        self.ledger.set_node("n1", inventory("n1", cards, **size), HostAmounts(CPU, 10_000))
        self.placer = Placer(self.ledger, POLICIES)
        self.fill = WorkloadTables(*self.placer.supply(), [Weighted(each, 1.0) for each in shapes]).fill
        self.worth = Worth(self.fill)

    def view(self) -> NodeView:
        self.placer.table.refresh()
        return NodeView(self.placer.table, np.array([0]))

    def now(self) -> float:
        node, _ = self.worth.now(self.view())
        return float(node.min())

    def hold(self, pod: str, card: int, wanted: Shape) -> bool:
        state = self.ledger.node("n1")
        assert state is not None
        given = fit(state.cards[card], wanted.request)
        if given is not None:
            self.ledger.hold(Grant(pod, "n1", {"main": (given,)}), wanted.host)
        return given is not None


def test_what_a_slice_costs_is_what_the_node_is_then_worth_less(rng: random.Random) -> None:
    shapes = [
        shape(rng.randint(1, 9), rng.choice((None, 8, 20)), cpu=rng.choice((0, 500, 2000))) for _ in range(8)
    ]
    world, met = World(3, shapes), 0
    for number in range(60):
        wanted, card, before = rng.choice(shapes), rng.randrange(3), world.now()
        need = CardFit(world.view(), KindSizes(world.placer.table.kinds, wanted.request))
        lost = world.worth.lost_by_slice(world.view(), need.mib, need.cores, wanted.host.cpu_milli)
        if world.hold(f"p{number}", card, wanted):
            assert world.now() - before == pytest.approx(float(lost[0, card]))
            met += 1
        elif world.ledger.grants():
            world.ledger.release(rng.choice(sorted(world.ledger.grants())))
    assert met > 10, "hardly anything fitted"


def test_what_is_left_beside_the_last_slice_is_worth_nothing() -> None:
    world = World(1, [shape(4), shape(12)], slices=1)
    assert world.now() > 0
    assert world.hold("p", 0, shape(4))
    assert world.now() == 0


def test_near_equal_remainders_are_told_apart_by_who_can_use_them() -> None:
    """A remainder of 4 fills as little as one of 3, but idles more."""
    fill = World(1, [shape(10), shape(5), shape(5), shape(5, models="K100")]).fill
    level = [units * fill.grid.mem // 16 for units in range(17)]
    useless = fill.useless[0, level]
    assert useless[4] == pytest.approx(4 / 16)
    assert useless[3] == pytest.approx(3 / 16)
    assert useless[5] == pytest.approx(5 / 16 / 4), "models make no difference"
    assert useless[16] == useless[0] == 0


def test_only_a_free_card_is_of_use_to_whoever_wants_whole_cards() -> None:
    fill = World(1, [shape(4), shape(whole=2)]).fill
    assert fill.useless[0, -1] == 0
    assert fill.useless[0, -2] == pytest.approx((fill.grid.mem - 1) / fill.grid.mem / 2)
