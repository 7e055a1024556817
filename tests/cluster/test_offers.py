"""Lists of offered nodes are remembered once, however often and in whatever order they come."""

import random

from pytest_mock import MockerFixture

from device_plugin.cluster import gangs
from device_plugin.cluster.offers import MOST, Offers
from tests.cluster.gangs import gang, more_nodes
from tests.cluster.world import Replica, World


def test_the_same_nodes_in_another_order_are_one_list() -> None:
    offers = Offers()
    first = offers.shared([f"n{i}" for i in range(100)])
    again = random.Random(1).sample(first, 100)
    assert offers.shared([f"{name}" for name in again]) is first
    assert set(offers.shared(first[:99])) == set(first) - {"n99"}


def test_only_so_many_lists_are_remembered_the_last_ones_used() -> None:
    offers = Offers()
    lists = [offers.shared(["n", f"n{i}"]) for i in range(MOST)]
    assert offers.shared(["n0", "n"]) is lists[0]
    offers.shared(["another"])
    assert offers.shared(["n", "n0"]) is lists[0]
    assert offers.shared(["n1", "n"]) == ("n1", "n"), "forgotten, so a list of its own"


def test_a_gang_that_was_refused_is_not_tried_again_because_nodes_come_in_another_order(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    more_nodes(world, "n2", count=1)
    pods = gang(world, 7)
    assert one.ask(pods[0], "n1", "n2") == ""
    tried = mocker.spy(gangs, "place_all")
    assert [one.ask(made, *names) for made in pods for names in (["n2", "n1"], ["n1", "n2"])] == [""] * 14
    assert tried.call_count == 0
