"""Cards that a pod could have together are worth more than the same cards apart."""

import numpy as np
import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.placement.fill import FEW, KEEPING, MultiCardWorth
from device_plugin.core.placement.table import NodeView
from device_plugin.core.placement.workload import Demand
from device_plugin.core.requests import NO_CARD, PodRequest, Shape
from tests.builders.cards import inventory
from tests.builders.requests import shape, target, whole_request

# A quarter of all cards is wanted four at a time, with 8 CPUs and 8 GiB, by a hundred pods.
FOURS = Shape(whole_request("p", 4).containers[0][1], host=HostAmounts(8000, 8192))
TARGET = target((FOURS, 100), (shape(whole=1, cpu=1000), 1200))
WORTH = 1000 * KEEPING * 4 / 4 * (0.9 / 4 - FEW)


def seen(*rooms: HostAmounts) -> tuple[Placer, MultiCardWorth, NodeView]:
    """Nodes of four cards, and what they are worth together."""
    ledger = Ledger()
    for number, room in enumerate(rooms):
        ledger.set_node(f"n{number}", inventory(f"n{number}", 4), room)
    placer = Placer(ledger)
    placer.learn(TARGET)
    together = MultiCardWorth(Demand(tuple(placer.table.kinds), TARGET), 1000)
    return placer, together, NodeView(placer.table, np.arange(len(rooms)))


@pytest.mark.parametrize("cards", [1, 4])
def test_the_first_card_costs_what_a_node_could_have_held_if_its_host_can(cards: int) -> None:
    _, together, view = seen(HostAmounts(9000, 9000), HostAmounts(7999, 9000), HostAmounts(9000, 8191))
    found = together.lost_by_whole(view, shape(whole=cards))
    assert found == pytest.approx([-WORTH, 0, 0])


def test_a_slice_of_a_free_card_costs_as_much_on_every_card() -> None:
    _, together, view = seen(HostAmounts(9000, 9000), HostAmounts(0, 9000))
    assert together.lost_by_slice(view, shape(4)) == pytest.approx(np.array([[-WORTH] * 4, [0] * 4]))


def test_cpu_that_such_a_pod_would_need_costs_as_much_without_any_card() -> None:
    _, together, view = seen(HostAmounts(9000, 9000), HostAmounts(10000, 9000))
    taken = Shape(NO_CARD, host=HostAmounts(1500))
    assert together.lost_by_whole(view, taken) == pytest.approx([-WORTH, 0])


def test_models_that_such_a_pod_does_not_accept_are_worth_nothing_to_it() -> None:
    placer, _, view = seen(HostAmounts(9000, 9000))
    elsewhere = target((Shape(FOURS.request, shape(models="K100").models, host=FOURS.host), 100))
    together = MultiCardWorth(Demand(tuple(placer.table.kinds), elsewhere), 1000)
    assert together.lost_by_slice(view, shape(4)) == pytest.approx(np.zeros((1, 4)))


@pytest.mark.parametrize(("fours", "others"), [(100, 5000), (1, 12)])
def test_for_few_such_pods_and_when_few_pods_are_known_at_all_nothing_is_kept(
    fours: int, others: int
) -> None:
    placer, _, view = seen(HostAmounts(9000, 9000))
    few = target((FOURS, fours), (shape(whole=1), others))
    together = MultiCardWorth(Demand(tuple(placer.table.kinds), few), 1000)
    assert together.lost_by_slice(view, shape(4)) == pytest.approx(np.zeros((1, 4)))


def test_whoever_needs_little_leaves_a_node_alone_that_could_take_more() -> None:
    placer, _, _ = seen(HostAmounts(8000, 8192), HostAmounts(8000, 8191))
    grant = placer.place(PodRequest("q", (("main", shape(whole=1).request),), host=HostAmounts(1, 1)))
    assert isinstance(grant, Grant)
    assert grant.node == "n1"
