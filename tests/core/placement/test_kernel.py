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
from device_plugin.core.placement.card_columns import Floats, Mask, kinds_where
from device_plugin.core.placement.expected_fill import ExpectedFill
from device_plugin.core.placement.fit import KindSizes
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import TargetWorkload
from device_plugin.core.requests import PodRequest, Request, Shape
from tests.core.placement.test_oracle import FAMILIES, mixed_card, mixed_request
from tests.effort import TIMES
from tests.requirement import require

ROUNDS = 6 * TIMES


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


class RandomCluster:
    """A small mixed cluster with a target workload, and changes of its ledger."""

    def __init__(self, attempt: int) -> None:
        seed = random.randrange(2**32)
        print(f"seed {seed}, attempt {attempt}")
        rng = self.rng = random.Random(seed)
        self.ledger, target = Ledger(), TargetWorkload()
        # numpy adds eight and more values in another order than fewer.
        nodes, most = ((40, 3), (20, 8), (10, 21), (30, 1))[attempt]
        for name in (f"n{i:02}" for i in range(nodes)):
            cards = tuple(mixed_card(rng, f"{name}-{i}") for i in range(rng.randint(0, most)))
            self.ledger.set_node(name, Inventory(cards), HostAmounts(rng.choice((3000, 64_000)), 10_000))
        self.placer = Placer(self.ledger, POLICIES)
        requests = [PodRequest("", mixed_request(rng, "").containers[:1], policy="random") for _ in range(30)]
        if attempt == 3:  # a workload that asks for memory alone has levels of memory alone
            family = rng.choice(FAMILIES)
            sized = [Request(family, 0, rng.randint(1, 18)) for _ in range(30)]
            requests = [PodRequest("", (("c0", each),), policy="random") for each in sized]
        self._requests = requests
        family = requests[0].containers[0][1].family
        wholes = (Request(family, whole=n) for n in (2, 4, 8))
        shapes = [
            Shape(each, host=HostAmounts(rng.choice((0, 500, 4000)), rng.choice((0, 900))))
            for each in [*(r.containers[0][1] for r in requests), *wholes]
        ]
        for each in shapes:
            target.add(each, rng.random() * (50 if each.request.whole > 1 else 1))
        self.tables = WorkloadTables(*self.placer.supply(), target.frequent())
        self.shapes = [each for each in shapes if each.is_slice and each.request.count == 1]

    def change(self) -> None:
        """Place some pods, and perhaps end one."""
        rng, ledger = self.rng, self.ledger
        for _ in range(5):
            containers = rng.choice(self._requests).containers
            if isinstance(grant := self.placer.place(PodRequest(f"p{rng.random()}", containers)), Grant):
                ledger.hold(grant, HostAmounts(rng.choice((0, 500, 4000)), rng.choice((0, 900))))
        if rng.random() < 0.5 and ledger.grants():
            ledger.release(rng.choice(sorted(ledger.grants())))
        self.placer.table.refresh()


@pytest.mark.no_cover
@pytest.mark.parametrize("attempt", range(4))
def test_scores_and_bounds_equal_numpys(attempt: int, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = RandomCluster(attempt)
    finite = 0
    for _ in range(ROUNDS):
        for asked in cluster.rng.sample(cluster.shapes, 3):
            compiled = values(cluster.placer, cluster.tables, asked)
            with monkeypatch.context() as patch:
                patch.setattr(kernel, "compiled", lambda: None)
                plain = values(cluster.placer, cluster.tables, asked)
            assert (compiled[0] == plain[0]).all()
            assert (compiled[1] == plain[1]).all()
            assert compiled[2] == plain[2]
            finite += int(np.isfinite(plain[1]).sum())
        cluster.change()
    fill = cluster.tables.fill
    print(f"{finite} scores, pods of several cards matter: {fill.multi_card.matters}, grid {fill.grid}")
    assert finite > 10


@pytest.mark.no_cover
@pytest.mark.parametrize("attempt", range(4))
def test_the_best_nodes_equal_numpys_while_cards_change(
    attempt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = RandomCluster(attempt)
    both = {asked: lasting(cluster, asked, monkeypatch) for asked in cluster.shapes}
    placed = 0
    for _ in range(2 * ROUNDS):
        # Scores that are not asked for in a round have more outdated rows in the next one.
        for asked in cluster.rng.sample(cluster.shapes, len(cluster.shapes) // 3):
            some = np.array([cluster.rng.random() < 0.5 for _ in cluster.placer.table.nodes])
            compiled, plain = ([best(each, among) for among in (some, None)] for each in both[asked])
            assert compiled == plain
            placed += sum(each is not None for each in plain)
        cluster.change()
    assert placed > 10


def lasting(
    cluster: RandomCluster, asked: Shape, monkeypatch: pytest.MonkeyPatch
) -> tuple[NodeScores, NodeScores]:
    """The scores for `asked` by the kernel and by numpy, which are kept while the ledger changes."""
    table = cluster.placer.table
    compiled = NodeScores(table, asked, ExpectedFill(cluster.tables.fill, table))
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "compiled", lambda: None)
        plain = NodeScores(table, asked, ExpectedFill(cluster.tables.fill, table))
        plain.refresh()
    return compiled, plain


def best(scores: NodeScores, among: Mask | None) -> tuple[int, float, list[int]] | None:
    """The best node, its score and its card."""
    scores.refresh()
    found = scores.best(among)
    return None if found is None else (found, scores.at(found), scores.cells(found))


def test_without_the_library_numpy_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    load: Callable[[], object] = kernel.compiled.__wrapped__
    monkeypatch.setattr(kernel, "LIBRARY", f"{tmp_path}/none.so")
    assert load() is None
