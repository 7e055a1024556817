"""The promises on traces made by hand: what counts as late, and as idle."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Plan, Reserved
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import HOUR, Rules
from hack.bench.jobs.policies import fifo_skip
from hack.bench.jobs.promises import Kept, Watched, promises
from hack.bench.jobs.simulation import Costs, Simulation
from hack.bench.jobs.slots import SlotRoom
from hack.bench.report import BenchError
from tests.hack.bench.jobs.test_simulation import job


def lazy(now: float, states: Sequence[JobState], room: Room) -> Plan:
    """FIFO that starts nothing in the first half hour."""
    return fifo_skip(now, states, room) if now >= HOUR / 2 else Plan(again=HOUR / 2)


def keeping(now: float, states: Sequence[JobState], room: Room) -> Plan:
    """FIFO that starts nothing in the first half hour, and keeps the cards for the job of four cards."""
    plan = lazy(now, states, room)
    reserved = {state.spec.key: Reserved(()) for state in states if state.spec.asked == 4 and state.queued}
    return Plan(plan.steps, plan.again, reserved)


@pytest.mark.parametrize(
    ("decide", "idled"), [(fifo_skip, 0.0), (lazy, 4 * (HOUR / 2 - 120)), (keeping, 0.0)]
)
def test_cards_are_idled_where_a_waiting_job_fits_beyond_a_tick_and_none_are_reserved(
    decide: object, idled: float
) -> None:
    watched = Watched(decide, 60.0)  # type: ignore[arg-type]
    jobs = [replace(job(name, 0.0, asked, HOUR), rigid=True) for name, asked in (("wide", 4), ("small", 1))]
    Simulation(jobs, SlotRoom(4), watched, 4, costs=Costs(0.0, 0.0)).run()
    assert watched.idled == idled


@pytest.mark.parametrize(
    ("figures", "broken"),
    [
        ((1.0, 3.0, 12 * HOUR, 0.0), ""),
        ((1.01, 0.9, 0.0, 0.0), "mean JCT"),
        ((0.9, 0.9, 12 * HOUR + 1, 1.0), "late, idle"),
    ],
)
def test_broken_promises_are_named(figures: tuple[float, float, float, float], broken: str) -> None:
    mean, p99, late, idled = figures
    assert Kept(mean, p99, late, "a", 0.0, idled).broken() == broken


def test_a_burst_of_small_jobs_costs_an_elastic_one_nothing_that_was_promised() -> None:
    with ThreadPoolExecutor(1) as pool:
        report = promises(["burst-elastic"], ["engine"], Rules(), pool)
    found = report.figures["cases"]["burst-elastic"]["engine"]  # type: ignore[index]
    assert found["broken"] == ""
    assert found["jct_mean"] < 0.1
    assert "burst-elastic  engine" in report.text


def test_an_unknown_case_is_refused_with_all_names() -> None:
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(BenchError, match=r"no case 'x': write livelock-19\.5h, "),
    ):
        promises(["x"], ["engine"], Rules(), pool)
