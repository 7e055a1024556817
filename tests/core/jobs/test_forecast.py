"""Forecasts of starts: by known ends only, and without a trace in the room."""

from dataclasses import replace
from typing import Any

from device_plugin.core.jobs.forecast import MOST_ENDS, starts
from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.jobs.rules import HOUR
from device_plugin.core.ledger import Ledger
from device_plugin.core.node_constraints import NodeConstraints, NodeIndex, NodeTraits, Operator, Requirement
from device_plugin.core.placement import Placer
from hack.bench.jobs.slots import SlotRoom
from tests.builders.cards import inventory
from tests.builders.jobs import running, waiting
from tests.core.jobs.rounds import NOW, RULES


def ending(name: str, width: int, seconds: float, **more: Any) -> JobState:
    """A running job that ends in so many seconds."""
    return replace(running(name, width, since=NOW, **more), remaining=seconds * width**0.9)


def new(name: str, least: int, age: float = 0.0, **more: Any) -> JobState:
    return replace(waiting(name, least=least, most=least, **more), since=NOW - age)


def expected(slots: int, *jobs: JobState) -> dict[str, float]:
    room = SlotRoom(slots, sum(job.width for job in jobs))
    held = room.held
    found = starts(NOW, jobs, room, RULES)
    assert room.held == held
    return {key[1]: round(at - NOW) for key, at in found.items()}


def test_a_job_starts_when_enough_of_the_others_have_ended() -> None:
    others = ending("a", 2, HOUR), ending("b", 4, 600), ending("c", 1, 60)
    assert expected(8, *others, new("x", 4)) == {"x": 600}
    assert expected(8, *others, new("x", 6)) == {"x": 600}
    assert expected(8, *others, new("x", 7)) == {"x": 3600}


def test_nothing_is_said_where_ends_are_not_known_or_nothing_is_waited_for() -> None:
    assert expected(8, running("a", 8), new("x", 1)) == {}
    assert expected(8, running("a", 6), ending("b", 2, 60), new("x", 4)) == {}
    assert expected(8, ending("b", 2, 60), new("x", 4)) == {}
    assert expected(8, ending("b", 8, 60), new("x", 9)) == {}
    assert expected(8, ending("b", 8, 60)) == {}
    assert expected(8, ending("b", 8, 1e15), new("x", 4)) == {}, "beyond any calendar"


def test_only_the_next_job_of_each_queue_has_a_forecast_and_a_group_starts_together() -> None:
    busy = ending("b", 8, 60)
    both = new("x", 2), new("y", 4)
    assert expected(8, busy, *both) == {"x": 60}
    assert expected(8, busy, both[0], new("z", 4, queue="other")) == {"x": 60, "z": 60}
    group = [new(name, 3, group="g", joint=True) for name in "xy"]
    assert expected(8, ending("a", 4, 30), ending("b", 4, 60), *group) == {"x": 60, "y": 60}


def test_no_more_ends_are_looked_at_than_the_next() -> None:
    many = [ending(f"b{number}", 1, 10 + number) for number in range(MOST_ENDS + 1)]
    assert expected(len(many), *many, new("x", MOST_ENDS)) == {"x": 9 + MOST_ENDS}
    assert expected(len(many), *many, new("x", MOST_ENDS + 1)) == {}


def test_only_jobs_that_hold_cards_where_it_may_go_count() -> None:
    ledger = Ledger()
    for name in ("n0", "n1"):
        ledger.set_node(name, inventory(name, 2))
    index = NodeIndex([NodeTraits("n0", {"zone": "a"}), NodeTraits("n1", {"zone": "b"})])
    places = {zone: NodeConstraints((Requirement("zone", Operator.IN, (zone,)),)) for zone in "ab"}
    jobs = [ending("soon", 2, 60, nodes=places["b"]), ending("late", 2, HOUR, nodes=places["a"])]
    room = LedgerRoom(ledger, Placer(ledger), {}, index)
    assert all(room.take(job.spec, job.width) for job in jobs)
    found = starts(NOW, [*jobs, new("x", 1, nodes=places["a"])], room, RULES)
    assert [round(at - NOW) for at in found.values()] == [3600]
    assert len(ledger.holdings()) == 4
