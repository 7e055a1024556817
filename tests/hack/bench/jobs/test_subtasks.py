"""Sub-tasks in the simulation: when each begins and ends, and what the window releases."""

import random

import pytest

from hack.bench.jobs.policies import ENGINE
from hack.bench.jobs.simulation import DRAIN_S, START_S, TICK_S, Costs, Simulation
from hack.bench.jobs.slots import SlotRoom
from hack.bench.jobs.subtasks import part_runs, split_run
from tests.hack.bench.jobs.test_simulation import FREE, job


def test_the_next_sub_task_begins_when_one_ends_and_the_last_ones_release_their_cards() -> None:
    split, room = split_run("s", 0.0, [100.0, 300.0, 100.0, 50.0], 2), SlotRoom(2)
    later = job("later", 400.0, 1, 50.0)
    outcome = Simulation([later], room, ENGINE, 2, costs=Costs(), more=[split]).run()
    first = TICK_S
    ends = [first + 130.0, first + 260.0, first + 330.0, first + 340.0]
    assert (split.first, split.finished) == (first, ends[-1])
    assert (split.begun, split.done) == ([0, 1, 2, 3], [0, 2, 1, 3])
    assert split.attained == 550.0 + 4 * START_S
    assert outcome.runs[0].first == 420.0
    assert (room.held, outcome.outside, outcome.overcommitted) == (0, 0, 0)


def test_a_window_takes_cards_that_become_idle() -> None:
    split, busy = split_run("s", 0.0, [1000.0] * 3, 3), [job(name, 0.0, 1, 600.0) for name in "ab"]
    outcome = Simulation(busy, SlotRoom(3), ENGINE, 3, costs=FREE, more=[split]).run()
    assert [run.finished for run in outcome.runs] == [660.0, 660.0, 1660.0]
    assert split.attained == 3000.0


def test_sub_tasks_that_run_are_not_ended_by_a_smaller_window() -> None:
    split = split_run("s", 0.0, [1.0] * 4, 4)
    split.resize(0.0, 3, 0.0, 0.0)
    with pytest.raises(ValueError, match="3 sub-tasks run, not 2"):
        split.resize(0.0, 2, 0.0, 0.0)


@pytest.mark.parametrize("seed", range(4))
def test_no_sub_task_is_lost_or_runs_twice_among_other_jobs(seed: int) -> None:
    rng = random.Random(seed)
    others = [
        job(f"{n:02}", rng.uniform(0, 9000), rng.choice((1, 2, 4)), rng.uniform(60, 4000)) for n in range(20)
    ]
    seconds = [rng.uniform(60, 4000) for _ in range(16)]
    one, parts = (
        split_run("one", 600.0, seconds, 6),
        part_runs("parts", 900.0, seconds, barrier=seed % 2 == 1),
    )
    outcome = Simulation(others, SlotRoom(6), ENGINE, 6, costs=Costs(), more=[one, *parts]).run()
    assert one.begun == sorted(one.done) == list(range(16))
    # Where others give way to it, it has their cards while they drain.
    assert 0 <= one.attained - sum(seconds) - 16 * START_S + 1e-6 < 16 * DRAIN_S
    assert all(run.width == 0 and run.left == pytest.approx(0.0, abs=1e-6) for run in parts)
    assert (outcome.outside, outcome.overcommitted, outcome.useless_shrinks) == (0, 0, 0)
