"""The table after any changes equals one that is built afresh, and a twin changes nothing but itself."""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from pytest_mock import MockerFixture

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.loads import Load, Loads
from device_plugin.core.placement import Placer
from device_plugin.core.placement.card_columns import CardStates, Ints
from device_plugin.core.placement.table import NodeTable, RowCache, StampedRowCache
from device_plugin.core.placement.workload import TargetWorkload
from device_plugin.core.requests import PodRequest, Selector, Shape
from tests.builders.cards import card, inventory
from tests.builders.requests import random_request, slice_request
from tests.core.placement.test_oracle import NODES, changed, mixed_node, mixed_request


def same(one: NodeTable, other: NodeTable) -> bool:
    """True if both tables say the same of all nodes and cards."""
    codes, states = one.states.code, one.states.columns().layers
    return (
        one.nodes == other.nodes
        and one.kinds == other.kinds
        and all(one.node(name) == other.node(name) for name in one.nodes)
        and np.array_equal(one.layers, other.layers)
        and np.array_equal(one.there, other.there)
        and np.array_equal(one.host, other.host)
        and np.array_equal(states[:, codes], one.layers)
    )


@pytest.mark.parametrize("seed", range(3))
def test_a_table_that_followed_equals_a_fresh_one(seed: int) -> None:
    rng = random.Random(seed)
    ledger = Ledger()
    table, placer = NodeTable(ledger), Placer(ledger)
    known: dict[str, Inventory] = {}
    for i in range(300):
        for _ in range(rng.randint(1, 3)):
            name = rng.choice(NODES)
            if rng.random() < 0.1:
                known.pop(name, None)
                ledger.drop_node(name)
            elif rng.random() < 0.3 or name not in known:
                known[name] = changed(rng, name, known[name]) if name in known else mixed_node(rng, name)
                ledger.set_node(name, known[name])
            elif isinstance(grant := placer.place(mixed_request(rng, f"p{i}")), Grant):
                ledger.hold(grant)
        table.refresh()
        assert same(table, NodeTable(ledger))


def test_a_grant_writes_only_its_own_cards(mocker: MockerFixture) -> None:
    ledger = Ledger()
    for i in range(10):
        ledger.set_node(f"n{i}", inventory(f"n{i}", 4))
    placer = Placer(ledger)
    rng = random.Random(1)
    written = mocker.spy(CardStates, "move")
    held = 0
    for i in range(30):
        found = placer.place(random_request(rng, f"p{i}"))
        if isinstance(found, Grant):
            ledger.hold(found)
            held += len(list(found.slices()))
    assert 0 < written.call_count <= held


def test_nodes_with_fewer_cards_have_empty_cells() -> None:
    ledger = Ledger()
    for name, count in (("a", 2), ("b", 0), ("c", 1)):
        ledger.set_node(name, inventory(name, count))
    table = NodeTable(ledger)
    assert table.there.tolist() == [[True, True], [False, False], [True, False]]
    assert table.usable.tolist() == table.there.tolist()
    assert table.card_count == 3
    assert table.chosen(["c", "ghost"]).tolist() == [False, False, True]
    assert not table.chosen([]).any()
    assert table.named(Selector("!a-0")).tolist() == [[False, True], [False, False], [True, False]]
    assert table.named(Selector("a-0")).tolist() == [[True, False], [False, False], [False, False]]
    ledger.set_node("d", inventory("a", 2))
    table.refresh()
    assert table.named(Selector("a-0")).tolist() == [
        [True, False],
        [False, False],
        [False, False],
        [True, False],
    ]
    assert Placer(ledger).place(slice_request("p", 1), ["c"]).node == "c"  # type: ignore[union-attr]


class Recorder(RowCache):
    """A cache that records which rows were computed since it was last asked."""

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table)
        self.layouts = 0
        self._computed: list[int] = []

    def _lay_out(self) -> None:
        self.layouts += 1

    def _compute(self, positions: Ints) -> None:
        self._computed += positions.tolist()

    def computed(self) -> list[int]:
        found, self._computed = self._computed, []
        return found


class StampedRecorder(Recorder, StampedRowCache):
    pass


def three_nodes() -> tuple[Ledger, NodeTable]:
    ledger = Ledger()
    for name in ("a", "b", "c"):
        ledger.set_node(name, inventory(name, 1))
    return ledger, NodeTable(ledger)


@pytest.mark.parametrize("kind", [Recorder, StampedRecorder])
def test_a_cache_computes_each_changed_row_once_at_once_or_in_parts(kind: type[Recorder]) -> None:
    ledger, table = three_nodes()
    cache = kind(table)
    assert not cache.refresh(2)
    assert cache.computed() == [0, 1]
    assert cache.refresh()
    assert cache.refresh()
    assert cache.computed() == [2]
    assert cache.layouts == 1
    ledger.hold(Placer(ledger).place(slice_request("p", 1), ["b"]))  # type: ignore[arg-type]
    table.refresh()
    assert cache.refresh()
    assert cache.computed() == [1]
    ledger.set_node("d", inventory("d", 1))
    table.refresh()
    assert cache.refresh()
    assert cache.computed() == [0, 1, 2, 3]
    assert cache.layouts == 2


@pytest.mark.parametrize("kind", [Recorder, StampedRecorder])
def test_rows_that_change_while_others_are_left_are_computed_once(kind: type[Recorder]) -> None:
    ledger, table = three_nodes()
    cache = kind(table)
    assert not cache.refresh(1)
    for node in ("a", "c"):
        ledger.hold(Placer(ledger).place(slice_request(node, 1), [node]))  # type: ignore[arg-type]
    table.refresh()
    assert not cache.refresh(2)
    assert cache.refresh(1)
    assert cache.computed() == [0, 0, 1, 2]


@pytest.mark.parametrize("kind", [Recorder, StampedRecorder])
def test_rows_that_could_not_be_computed_are_computed_next_time(
    kind: type[Recorder], mocker: MockerFixture
) -> None:
    cache = kind(three_nodes()[1])
    broken = mocker.patch.object(cache, "_compute", side_effect=MemoryError)
    with pytest.raises(MemoryError):
        cache.refresh()
    mocker.stop(broken)
    assert cache.refresh()
    assert cache.computed() == [0, 1, 2]


def test_of_a_stamped_cache_the_changed_ones_of_some_rows_are_computed() -> None:
    ledger, table = three_nodes()
    cache = StampedRecorder(table)
    cache.refresh()
    cache.computed()
    ledger.hold(Placer(ledger).place(slice_request("p", 1), ["b"]))  # type: ignore[arg-type]
    table.refresh()
    cache.refresh_some(np.array([0]))
    assert cache.computed() == []
    cache.refresh_some(np.array([0, 1]))
    assert cache.refresh()
    assert cache.computed() == [1]


@pytest.mark.parametrize("seed", range(3))
def test_where_cards_of_known_kinds_come_and_go_a_followed_table_equals_a_fresh_one(seed: int) -> None:
    """Here rows are written and moved; where the kinds of cards or the width change, a new layout is made."""
    rng = random.Random(seed)
    ledger, loads = Ledger(), Loads()
    for name in ("always-1", "always-2"):
        ledger.set_node(name, Inventory((*inventory(name, 3).cards, card(f"{name}-x", groups=30))))
    table = NodeTable(ledger, loads)
    placer = Placer(ledger, loads=loads)
    for i in range(300):
        for name in rng.sample([f"n{number}" for number in range(6)], rng.randint(1, 3)):
            if rng.random() < 0.3:
                ledger.drop_node(name)
            else:
                cards = rng.sample([card(f"{name}-{n}", groups=rng.choice((60, 30))) for n in range(5)], 4)
                known = Inventory(tuple(cards[: rng.randint(0, 4)]), serving=rng.random() < 0.9)
                ledger.set_node(name, known, HostAmounts(rng.choice((4000, 64_000)), 10_000))
        node = ledger.node(rng.choice(ledger.nodes()))
        assert node is not None
        loads.put(node, {state.card.uuid: Load(rng.random()) for state in node.cards})
        if isinstance(grant := placer.place(random_request(rng, f"p{i}")), Grant):
            ledger.hold(grant)
        if rng.random() < 0.6:
            table.refresh()
            fresh = NodeTable(ledger, loads)
            assert same(table, fresh)
            assert np.array_equal(table.used, fresh.used)
            words = ",".join(state.card.uuid for state in node.cards[:2])
            for selector in (Selector(words), Selector(f"!{words}")):
                assert np.array_equal(table.named(selector), fresh.named(selector))


@pytest.mark.parametrize(
    "change",
    [
        lambda ledger: ledger.set_node("n5", inventory("n5", 3)),
        lambda ledger: ledger.set_node("n5", inventory("other", 4)),
        lambda ledger: ledger.drop_node("n5"),
        lambda ledger: ledger.set_node("n5x", inventory("n5x", 4)),
    ],
)
def test_other_cards_of_one_node_write_only_its_own_row(
    mocker: MockerFixture, change: Callable[[Ledger], None]
) -> None:
    """Under the lock: writing all rows took 0.3 s at 5,000 nodes."""
    ledger = Ledger()
    for i in range(50):
        ledger.set_node(f"n{i}", inventory(f"n{i}", 4))
    table = NodeTable(ledger)
    written = mocker.spy(CardStates, "move")
    change(ledger)
    table.refresh()
    assert 0 < written.call_count <= 2 * 4
    assert same(table, NodeTable(ledger))


def test_a_twin_decides_as_its_original_would_and_changes_nothing_of_it(rng: random.Random) -> None:
    ledger = Ledger()
    for name in (f"n{i}" for i in range(12)):
        ledger.set_node(name, mixed_node(rng, name), HostAmounts(rng.choice((4000, 64_000)), 10_000))
    placer, target = Placer(ledger), TargetWorkload()
    requests = [mixed_request(rng, "") for _ in range(20)]
    for request in requests:
        if (shape := Shape.of(request)) is not None:
            target.add(shape)
    placer.learn(target.frequent())
    for number in range(60):
        change(rng, placer, ledger, replace(rng.choice(requests), pod=f"p{number}"))
        if number % 20 == 10:
            before, mine = deepcopy(ledger), deepcopy(ledger)
            twin = placer.twin(mine, Loads())
            twin.use(placer.tables)
            assert [twin.find(each) for each in requests] == [placer.find(each) for each in requests]
            for other in range(30):
                change(rng, twin, mine, replace(rng.choice(requests), pod=f"f{other}"))
                assert same(twin.table, NodeTable(mine))
            assert same(placer.table, NodeTable(before))


def change(rng: random.Random, placer: Placer, ledger: Ledger, request: PodRequest) -> None:
    """Place and hold the request, and now and then let a pod go."""
    found = placer.find(request)
    if found is not None:
        ledger.hold(found, request.host)
    if rng.random() < 0.4 and ledger.grants():
        ledger.release(rng.choice(sorted(ledger.grants())))
    placer.table.refresh()
