"""Rates that are learnt from running Jobs: in which unit, on which cards, and for whom."""

import pytest

from device_plugin.core.jobs.progress import Progress, ProgressReport
from device_plugin.core.jobs.rates import read_rates
from tests.jobs.world import World

GOAL = {"vgpu.io/samples": "10000", "vgpu.io/epochs": "10", "vgpu.io/duration": "1000s", "vgpu.io/model": "m"}
KNOWN = "m Z100 1:100 2:200"


def train(world: World, name: str, rate: float, total: int = 1000, seconds: int = 600) -> None:
    """The program of a Job tells every ten seconds how far it is: `rate` units a second of `total`."""
    for at in range(0, seconds, 10):
        world.tell(name, ProgressReport(Progress(int(at * rate), total)))
        world.turn(10.0)


def learnt(world: World, namespace: str = "default") -> dict[tuple[str, str], tuple[tuple[int, float], ...]]:
    rates = world.engine.rounds.rates(namespace)
    return {names: curve.points for names, curve in rates.curves.items()}


def running(rates: str = "", **goal: str) -> World:
    """A Job with a goal runs on two cards, for which it was started by hand."""
    world = World(rates=rates)
    world.queue("a", 2, annotations={**GOAL, **goal}, suspend=False)
    world.settle(2)
    return world


def test_s2_the_rate_of_a_running_job_is_learnt_in_samples() -> None:
    world = running()
    # A tenth of a thousandth of 100,000 samples a second.
    train(world, "a", 0.1)
    assert dict(learnt(world)["m", "Z100"]) == pytest.approx({2: 10.0})


def test_s2_what_was_learnt_outlives_the_job_and_sizes_the_next_one() -> None:
    world = running()
    train(world, "a", 0.5)
    world.finish("a")
    world.engine.known.gone(world.job("a").uid)
    world.queue("next", 1, annotations={**GOAL, "vgpu.io/duration": "2000s"})
    world.settle(2)
    # 100,000 samples in 2,000 s are 50 a second, which two cards had.
    assert (world.job("next").suspend, world.job("next").parallelism) == (False, 2)


def unsized(width: int, seconds: int, **more: str) -> World:
    """A Job with a goal of which no rate is known has started with the width that is written on it."""
    world = World(cards=8)
    world.queue("a", width, annotations={**GOAL, "vgpu.io/duration": f"{seconds}s", **more})
    world.settle(2)
    assert (world.job("a").suspend, world.job("a").parallelism) == (False, width)
    return world


def test_a_job_of_which_no_rate_was_known_is_sized_within_minutes_once_and_by_its_own_progress() -> None:
    world = unsized(1, 2000)
    # With one card it takes 4,000 s.
    train(world, "a", 0.25, seconds=280)
    assert world.job("a").parallelism == 1
    train(world, "a", 0.25, seconds=600)
    assert world.job("a").parallelism == 3, "3 ** 0.9 cards do in 1,600 s what one does in 3,600 s"
    train(world, "a", 0.1, seconds=1200)
    assert world.job("a").parallelism == 3, "what was found stays"


def test_it_begins_with_the_listed_width_that_is_nearest_and_gets_another_one() -> None:
    world = World(cards=8)
    world.queue("a", 1, annotations={**GOAL, "vgpu.io/duration": "2000s", "vgpu.io/widths": "2,6,7"})
    world.settle(2)
    assert (world.job("a").suspend, world.job("a").parallelism) == (False, 2)
    # With two cards it takes 4,000 s.
    train(world, "a", 0.25, seconds=600)
    assert world.job("a").parallelism == 6, "5 would be enough, and are not listed"


def test_one_that_needs_fewer_replicas_gives_the_others_back() -> None:
    world = unsized(8, 5000)
    train(world, "a", 0.5, seconds=600)
    assert (world.job("a").parallelism, world.job("a").completions) == (3, 3)


def test_an_engine_that_takes_over_sizes_it_too() -> None:
    world = unsized(1, 2000)
    train(world, "a", 0.25, seconds=200)
    world.restart()
    train(world, "a", 0.25, seconds=600)
    assert world.job("a").parallelism > 1


def test_nothing_is_learnt_before_it_was_measured_for_long_enough() -> None:
    world = running()
    train(world, "a", 0.5, seconds=250)
    assert not learnt(world)


def test_a_learnt_rate_counts_in_its_namespace_only_and_after_the_operators_table() -> None:
    world = running()
    train(world, "a", 1.0)
    assert not learnt(world, "other")
    world = running(KNOWN)
    train(world, "a", 1.0)
    assert learnt(world) == {("m", "Z100"): ((1, 100.0), (2, 200.0))}
    assert world.engine.rounds.rates("default") == read_rates(KNOWN)[0]


def test_no_rate_is_learnt_from_impossible_progress() -> None:
    world = running(**{"vgpu.io/samples": str(10**12), "vgpu.io/epochs": "100000"})
    train(world, "a", 1.0, total=1000)
    assert not learnt(world)
    world = running()
    train(world, "a", 0.0)
    assert not learnt(world)


def test_no_rate_is_learnt_from_jobs_without_a_goal() -> None:
    world = World()
    world.queue("a", 2)
    world.settle(2)
    train(world, "a", 1.0)
    assert not learnt(world)
