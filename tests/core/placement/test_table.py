"""The table after any changes equals one that is built afresh, and a fork of it changes nothing but itself."""

import random
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from pytest_mock import MockerFixture

from device_plugin.core.cards import Inventory
from device_plugin.core.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.placement.table import CardStates, NodeTable, StaleRows
from device_plugin.core.placement.workload import Target
from device_plugin.core.requests import PodRequest, Selector, Shape
from tests.core.clusters import inventory, random_request, slice_request
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


def test_a_cache_learns_of_each_changed_row_once_or_in_parts() -> None:
    ledger = Ledger()
    for name in ("a", "b", "c"):
        ledger.set_node(name, inventory(name, 1))
    table = NodeTable(ledger)
    stale = StaleRows(table)
    assert stale.relaid()
    assert not stale.relaid()
    stale.made(stale.all()[:2])
    assert stale.all().tolist() == [2]
    stale.made(stale.all())
    ledger.hold(Placer(ledger).place(slice_request("p", 1), ["b"]))  # type: ignore[arg-type]
    table.refresh()
    assert stale.all().tolist() == [1]
    assert stale.among(np.array([0, 1])).tolist() == [1]
    ledger.set_node("d", inventory("d", 1))
    table.refresh()
    assert stale.relaid()
    assert stale.all().tolist() == [0, 1, 2, 3]


def test_a_fork_decides_as_its_original_would_and_changes_nothing_of_it(rng: random.Random) -> None:
    ledger = Ledger()
    for name in (f"n{i}" for i in range(12)):
        ledger.set_node(name, mixed_node(rng, name), HostAmounts(rng.choice((4000, 64_000)), 10_000))
    placer, target = Placer(ledger), Target()
    requests = [mixed_request(rng, "") for _ in range(20)]
    for request in requests:
        if (shape := Shape.of(request)) is not None:
            target.add(shape)
    placer.learn(target.frequent())
    for number in range(60):
        change(rng, placer, ledger, replace(rng.choice(requests), pod=f"p{number}"))
        if number % 20 == 10:
            before, mine = deepcopy(ledger), deepcopy(ledger)
            fork = placer.fork(mine)
            assert [fork.find(each) for each in requests] == [placer.find(each) for each in requests]
            for other in range(30):
                change(rng, fork, mine, replace(rng.choice(requests), pod=f"f{other}"))
                assert same(fork.table, NodeTable(mine))
            assert same(placer.table, NodeTable(before))


def change(rng: random.Random, placer: Placer, ledger: Ledger, request: PodRequest) -> None:
    """Place and hold the request, and now and then let a pod go."""
    found = placer.find(request)
    if found is not None:
        ledger.hold(found, request.host)
    if rng.random() < 0.4 and ledger.grants():
        ledger.release(rng.choice(sorted(ledger.grants())))
    placer.table.refresh()
