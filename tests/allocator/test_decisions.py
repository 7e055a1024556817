"""What the leader tells of its memory makes others decide as it does."""

import json

import pytest

from device_plugin.allocator.decisions import Decisions, DecisionsError
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import Weighted
from tests.allocator.test_dry_run import forecast, of_lists
from tests.builders.requests import shape
from tests.cluster.world import Replica, World


def test_reservations_are_held_and_the_workload_is_used(world: World, one: Replica) -> None:
    shapes = (Weighted(shape(4, 15, cpu=500), 3.0), Weighted(shape(None, 7, models="Z100,!K100"), 1.5))
    placer = one.allocator.placer
    placer.use(WorkloadTables(*placer.supply(), shapes))
    for number in range(2):
        waiting = world.pod(f"reserved-{number}", 16, 60, host=HostAmounts(250))
        assert one.ask(waiting) == "n1"
    late = world.pod("late", 1, 1)
    told = json.loads(json.dumps(Decisions(one.shared).as_object()))
    local = of_lists(world.api, world.clock)
    assert Decisions(local.shared).take_over(told) == 2
    assert local.view.ledger.grants() == one.view.ledger.grants()
    assert local.allocator.placer.tables.shapes == shapes
    assert not one.ask(late)
    assert type(forecast(local, late)).__name__ == "Refusal"


def test_a_reservation_of_a_pod_that_is_bound_by_now_is_left_out(world: World, one: Replica) -> None:
    made = world.pod("p")
    node = one.ask(made)
    told = Decisions(one.shared).as_object()
    assert one.bind(made, node) == ""
    local = of_lists(world.api, world.clock)
    assert Decisions(local.shared).take_over(told) == 0
    assert local.view.ledger.grants() == one.view.ledger.grants()


@pytest.mark.parametrize(
    "told", [{}, {"reserved": [], "workload": [{"shape": {"request": {"later": 1}}}]}, {"reserved": [1]}]
)
def test_an_answer_of_another_version_is_refused(one: Replica, told: dict[str, object]) -> None:
    with pytest.raises(DecisionsError, match="use the vgpu command of its version"):
        Decisions(one.shared).take_over(told)
