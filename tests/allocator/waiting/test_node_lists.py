"""Lists of offered nodes are remembered in a bit for each node, whatever their order, and equal ones once."""

import random

import pytest
from pytest_mock import MockerFixture

from device_plugin.allocator.gangs import gangs
from device_plugin.allocator.waiting import node_lists
from device_plugin.allocator.waiting.node_lists import MOST, NodeLists
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement.table import NodeTable
from tests.builders.cards import inventory
from tests.cluster.gang_pods import gang, more_nodes
from tests.cluster.world import Replica, World


@pytest.fixture
def ledger() -> Ledger:
    made = Ledger()
    for number in range(40):
        made.set_node(f"n{number}", inventory(f"n{number}", 1))
    return made


@pytest.mark.parametrize("seed", range(10))
def test_a_list_has_the_names_that_it_was_made_of(ledger: Ledger, seed: int) -> None:
    rng, index = random.Random(seed), NodeTable(ledger)
    lists, made = NodeLists(index), []
    for turn in range(60):
        known = [f"n{number}" for number in range(45)] + [f"later-{turn}"]
        names = rng.sample(known, rng.randint(0, len(known)))
        made.append((names, lists.of(rng.choice([names, names + names[:1]]))))
        if rng.random() < 0.2:
            ledger.set_node(f"later-{turn}", inventory(f"later-{turn}", 1))
            index.refresh()
    for names, kept in made:
        assert (sorted(kept), len(kept)) == (sorted(names), len(names)), f"seed {seed}"
        assert all(name in kept for name in names)
        assert not any(name in kept for name in {"other", "n0", "n44"} - set(names))


def test_the_same_nodes_in_another_order_are_one_list(ledger: Ledger) -> None:
    lists = NodeLists(NodeTable(ledger))
    first = lists.of([f"n{i}" for i in range(40)])
    again = random.Random(1).sample(first, 40)
    assert lists.of([f"{name}" for name in again]) is first is lists.of(first)
    assert set(lists.of(list(first)[:39])) == set(first) - {first[39]}


def test_a_list_that_was_forgotten_is_equal_to_the_one_that_is_made_again(ledger: Ledger) -> None:
    lists = NodeLists(NodeTable(ledger))
    first = lists.of(["n0", "n1"])
    for number in range(2, MOST + 3):
        lists.of([f"n{number}"])
    again = lists.of(["n1", "n0"])
    assert again is not first
    assert (again, hash(again)) == (first, hash(first)) != (lists.of(["n0"]), hash(lists.of(["n0"])))


def test_names_of_nodes_that_come_and_go_are_forgotten(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_lists, "SPARE", 10)
    lists = NodeLists(NodeTable(ledger))
    first = lists.of(["n0", "gone-0"])
    for number in range(500):
        lists.of([f"gone-{number}"])
        assert len(lists._names.names) <= 2 * 12 + 40
    assert list(first) == ["n0", "gone-0"]
    assert list(lists.of(["gone-0", "n0"])) == ["n0", "gone-0"]


def test_a_gang_that_was_refused_is_not_tried_again_because_nodes_come_in_another_order(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    more_nodes(world, "n2", count=1)
    pods = gang(world, 7)
    assert one.ask(pods[0], "n1", "n2") == ""
    tried = mocker.spy(gangs, "place_all")
    assert [one.ask(made, *names) for made in pods for names in (["n2", "n1"], ["n1", "n2"])] == [""] * 14
    assert tried.call_count == 0
