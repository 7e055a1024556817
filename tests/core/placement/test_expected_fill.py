"""The quick bound is never lower than the score, and no higher where that would have many nodes looked at in vain."""

import random

import numpy as np
import pytest

from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer
from device_plugin.core.placement.cache import NodeScores
from device_plugin.core.placement.card_columns import Floats, kinds_where
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fit import KindSizes
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import TargetWorkload, Weighted
from device_plugin.core.requests import NO_CARD, PodRequest, Shape
from tests.builders.cards import inventory
from tests.builders.requests import shape
from tests.core.placement.test_cache import Thorough
from tests.core.placement.test_oracle import mixed_node, mixed_request


def bounds_and_scores(placer: Placer, policy: ExpectedFill, asked: Shape) -> tuple[Floats, Floats]:
    """Of all nodes, as they are now."""
    table = placer.table
    table.refresh()
    accepted = kinds_where(table.kinds, lambda kind: asked.accepts(kind.family, kind.model, kind.slices))
    bound = policy.bounds.of(asked, KindSizes(table.kinds, asked.request), accepted)
    thorough = NodeScores(table, asked, Thorough(policy))
    thorough.refresh()
    return bound(np.arange(len(table.nodes))), thorough.value


@pytest.mark.no_cover
def test_no_score_is_higher_than_its_bound(rng: random.Random) -> None:
    ledger, target = Ledger(), TargetWorkload()
    for name in (f"n{i}" for i in range(24)):
        ledger.set_node(name, mixed_node(rng, name), HostAmounts(rng.choice((3000, 64_000)), 10_000))
    placer = Placer(ledger, POLICIES)
    requests = [PodRequest("", mixed_request(rng, "").containers[:1], policy="random") for _ in range(30)]
    shapes = [Shape(NO_CARD, host=HostAmounts(700))]
    shapes += [Shape(r.containers[0][1], host=HostAmounts(rng.choice((0, 500, 4000)))) for r in requests]
    for each in shapes:
        target.add(each, rng.random())
    tables = WorkloadTables(*placer.supply(), target.frequent())
    policy = ExpectedFill(tables.fill, placer.table)
    finite = 0
    for number in range(400):
        bound, score = bounds_and_scores(placer, policy, rng.choice(shapes))
        assert (score <= bound).all()
        finite += int(np.isfinite(score).sum())
        request = rng.choice(requests)
        if isinstance(grant := placer.place(PodRequest(f"p{number}", request.containers)), Grant):
            ledger.hold(grant, HostAmounts(rng.choice((0, 500, 4000))))
        if rng.random() < 0.5 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
    assert finite > 200, "hardly anything fitted"


@pytest.mark.parametrize("mem_mib", [16368, 65520])
@pytest.mark.parametrize(
    "asked", [shape(1), shape(3), shape(5, 7), shape(cores=11), shape(whole=1), shape(whole=3)]
)
def test_on_free_nodes_it_is_the_score_itself(mem_mib: int, asked: Shape) -> None:
    ledger = Ledger()
    for name in ("n1", "n2"):
        ledger.set_node(name, inventory(name, 4, mem_mib=mem_mib))
    placer = Placer(ledger)
    target = [Weighted(each, 1.0) for each in (shape(1), shape(5, 7), shape(8, 20), shape(whole=1), asked)]
    tables = WorkloadTables(*placer.supply(), target)
    policy = ExpectedFill(tables.fill, placer.table)
    bound, score = bounds_and_scores(placer, policy, asked)
    assert bound.tolist() == score.tolist()


def test_where_nothing_fits_it_says_so() -> None:
    ledger = Ledger()
    ledger.set_node("n1", inventory("n1", 1))
    ledger.hold(Grant("p", "n1", {"main": (Slice("n1-0", 12 * 1023, tuple(range(50))),)}))
    placer = Placer(ledger)
    tables = WorkloadTables(*placer.supply(), [Weighted(each, 1.0) for each in (shape(1, 20), shape(8, 1))])
    policy = ExpectedFill(tables.fill, placer.table)
    for much in (
        shape(5, 1),
        shape(1, 11),
        shape(17, 1),
        shape(1, 61),
        shape(whole=1),
        shape(4, 10, models="K100"),
    ):
        bound, _ = bounds_and_scores(placer, policy, much)
        assert bound.tolist() == [-np.inf], much
    bound, _ = bounds_and_scores(placer, policy, shape(4, 10))
    assert np.isfinite(bound).all()
