"""NodeScores that were kept equal scores that are made anew, whatever happened in between."""

import random

import numpy as np
import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.cache import NodeScores, Policy
from device_plugin.core.placement.card_columns import Floats, Mask
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fit import CardFit
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.table import NodeView
from device_plugin.core.placement.workload import TargetWorkload
from device_plugin.core.requests import NO_CARD, PodRequest, Request, Shape
from tests.builders.cards import FAMILY, inventory
from tests.core.placement.test_oracle import NODES, changed, mixed_node, mixed_request
from tests.effort import TIMES


@pytest.mark.no_cover
@pytest.mark.parametrize("policy", [policy for policy in POLICIES if policy != "random"])
def test_a_placer_that_has_seen_everything_decides_as_one_that_has_seen_nothing(policy: str) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    ledger, target = Ledger(), TargetWorkload()
    known = {name: mixed_node(rng, name) for name in NODES}
    for name, cards in known.items():
        ledger.set_node(name, cards, HostAmounts(64_000, 10_000))
    placer = Placer(ledger, POLICIES)
    shapes = [mixed_request(rng, "") for _ in range(12)]
    for number in range(150 * TIMES):
        request = rng.choice(shapes)
        request = type(request)(
            f"p{number}", request.containers, request.models, request.uuids, policy,
            HostAmounts(rng.choice((1000, 4000)), 10),
        )  # fmt: skip
        if number % 50 == 0:
            adopted, tables = target.frequent()[:12], None
        if tables is None or tables.kinds != placer.supply()[0]:
            tables = WorkloadTables(*placer.supply(), adopted)
            placer.install(tables)
        while number % 50 == 0 and not placer.renew(3):
            pass
        fresh = Placer(ledger, POLICIES)
        fresh.install(tables)
        found = placer.place(request)
        assert found == fresh.place(request)
        if (shape := Shape.of(request)) is not None:
            target.add(shape)
        if isinstance(found, Grant):
            ledger.hold(found, request.host)
        if rng.random() < 0.4 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
        if rng.random() < 0.1:
            name = rng.choice(NODES)
            known[name] = changed(rng, name, known[name])
            ledger.set_node(name, known[name], HostAmounts(rng.choice((2000, 64_000)), 10_000))


class Thorough(Policy):
    """The policy without its upper bounds."""

    def __init__(self, policy: ExpectedFill) -> None:
        self._policy = policy

    def slices(self, view: NodeView, need: CardFit, shape: Shape) -> Floats:
        return self._policy.slices(view, need, shape)

    def whole(self, view: NodeView, taken: Mask, shape: Shape) -> Floats:
        return self._policy.whole(view, taken, shape)


def test_looking_only_at_nodes_near_the_best_finds_the_best(rng: random.Random) -> None:
    ledger = Ledger()
    for name in (f"n{i:02}" for i in range(40)):
        host = HostAmounts(rng.choice((2000, 64_000)), 10_000)
        ledger.set_node(name, inventory(name, rng.randint(1, 4)), host)
    placer, target = Placer(ledger, POLICIES), TargetWorkload()
    shapes = [
        Shape(Request(FAMILY, 0, rng.randint(1, 12)), host=HostAmounts(rng.choice((0, 500, 4000))))
        for _ in range(12)
    ]
    shapes += [Shape(Request(FAMILY, 1)), Shape(Request(FAMILY, 2)), Shape(NO_CARD)]
    for shape in shapes:
        target.add(shape, rng.random())
    tables = WorkloadTables(*placer.supply(), target.frequent())
    policy = ExpectedFill(tables.fill, placer.table)
    kept = {shape: NodeScores(placer.table, shape, policy) for shape in shapes}
    for number in range(300):
        shape = rng.choice(shapes)
        thorough = NodeScores(placer.table, shape, Thorough(policy))
        placer.table.refresh()
        thorough.refresh()
        kept[shape].refresh()
        among = np.array([rng.random() < 0.7 for _ in placer.table.nodes]) if rng.random() < 0.5 else None
        found = kept[shape].best(among)
        assert found == thorough.best(among)
        if found is not None:
            assert kept[shape].at(found) == thorough.at(found)
            assert kept[shape].cells(found) == thorough.cells(found)
        request = PodRequest(f"p{number}", (("main", shape.request),), policy="random", host=shape.host)
        if shape.request is not NO_CARD and isinstance(grant := placer.place(request), Grant):
            ledger.hold(grant)
        if rng.random() < 0.3 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
