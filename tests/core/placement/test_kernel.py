"""The compiled kernel gives the values of numpy to the last digit, whatever cards, shapes and workloads there are."""

import random
from collections.abc import Callable

import numpy as np
import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import POLICIES, Placer, kernel
from device_plugin.core.placement.cache import NodeScores
from device_plugin.core.placement.card_columns import Floats, kinds_where
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fit import KindSizes
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import TargetWorkload
from device_plugin.core.requests import PodRequest, Request, Shape
from tests.core.placement.test_oracle import FAMILIES, mixed_card, mixed_request
from tests.effort import TIMES
from tests.requirement import require

ROUNDS = 12 * TIMES


@pytest.fixture(autouse=True)
def library() -> None:
    require(kernel.compiled(), "needs the compiled kernel: make native")


def values(placer: Placer, tables: WorkloadTables, asked: Shape) -> tuple[Floats, Floats, list[int]]:
    """Bounds and scores of all nodes as they are now, and the best cards; by new policies with nothing cached."""
    table, policy = placer.table, ExpectedFill(tables.fill, placer.table)
    accepted = kinds_where(table.kinds, lambda kind: asked.accepts(kind.family, kind.model, kind.slices))
    bound = policy.bounds.of(asked, KindSizes(table.kinds, asked.request), accepted)
    scores = NodeScores(table, asked, policy)
    scores.refresh()
    exact = [scores.at(position) for position in range(len(table.nodes))]
    return (
        bound(np.arange(len(table.nodes))),
        np.array(exact),
        [scores.cells(p)[0] for p in range(len(exact))],
    )


@pytest.mark.no_cover
@pytest.mark.parametrize("attempt", range(4))
def test_scores_and_bounds_equal_numpys(attempt: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}, attempt {attempt}")
    rng = random.Random(seed)
    ledger, target = Ledger(), TargetWorkload()
    # numpy adds eight and more values in another order than fewer.
    nodes, most = ((40, 3), (20, 8), (10, 21), (30, 1))[attempt]
    for name in (f"n{i:02}" for i in range(nodes)):
        cards = tuple(mixed_card(rng, f"{name}-{i}") for i in range(rng.randint(0, most)))
        ledger.set_node(name, Inventory(cards), HostAmounts(rng.choice((3000, 64_000)), 10_000))
    placer = Placer(ledger, POLICIES)
    requests = [PodRequest("", mixed_request(rng, "").containers[:1], policy="random") for _ in range(30)]
    if attempt == 3:  # a workload that asks for memory alone has levels of memory alone
        family = rng.choice(FAMILIES)
        sized = [Request(family, 0, rng.randint(1, 18)) for _ in range(30)]
        requests = [PodRequest("", (("c0", each),), policy="random") for each in sized]
    family = requests[0].containers[0][1].family
    shapes = [
        Shape(each, host=HostAmounts(rng.choice((0, 500, 4000)), rng.choice((0, 900))))
        for each in [*(r.containers[0][1] for r in requests), *(Request(family, whole=n) for n in (2, 4, 8))]
    ]
    for each in shapes:
        target.add(each, rng.random() * (50 if each.request.whole > 1 else 1))
    tables = WorkloadTables(*placer.supply(), target.frequent())
    finite = 0
    for _ in range(ROUNDS):
        placer.table.refresh()
        for asked in rng.sample([each for each in shapes if each.is_slice and each.request.count == 1], 3):
            compiled = values(placer, tables, asked)
            with monkeypatch.context() as patch:
                patch.setattr(kernel, "compiled", lambda: None)
                plain = values(placer, tables, asked)
            assert (compiled[0] == plain[0]).all()
            assert (compiled[1] == plain[1]).all()
            assert compiled[2] == plain[2]
            finite += int(np.isfinite(plain[1]).sum())
        for _ in range(5):
            request = rng.choice(requests)
            if isinstance(grant := placer.place(PodRequest(f"p{rng.random()}", request.containers)), Grant):
                ledger.hold(grant, HostAmounts(rng.choice((0, 500, 4000)), rng.choice((0, 900))))
        if rng.random() < 0.5 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
    print(
        f"{finite} scores, pods of several cards matter: {tables.fill.multi_card.matters}, grid {tables.fill.grid}"
    )
    assert finite > 10


def test_without_the_library_numpy_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    load: Callable[[], object] = kernel.compiled.__wrapped__
    monkeypatch.setattr(kernel, "LIBRARY", f"{tmp_path}/none.so")
    assert load() is None
