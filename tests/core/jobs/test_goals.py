"""Goals of jobs that began with the width that is written on them: what they need, and when they get it."""

from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.goals import SILENT_S, goal_width, silent, unsized
from device_plugin.core.jobs.job import JobState, Telling
from device_plugin.core.jobs.plan import Scale
from device_plugin.core.jobs.rates import Curve, Rates
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.sizing import Sizing, with_widths
from hack.bench.jobs.slots import SlotRoom
from tests.builders.bad_jobs import QUEUED
from tests.builders.jobs import running, waiting
from tests.builders.written_jobs import spec

NOW, HAD = 1e6, 400.0
LINEAR = Curve(((1, 1.0), (1024, 1024.0)), learnt=True)
RULES = Rules(cooldown_s=300.0)


def begun(width: int, left: float, *, seconds: int = 1000, at_most: str = "", **fields: Any) -> JobState:
    """A job with a goal in `seconds` that has run for HAD seconds, and takes `left` more with its `width`."""
    goal = {"samples": "1000", "duration": f"{seconds}s", "model": "m"}
    goal |= {"duration-at-most": at_most} if at_most else {}
    made: dict[str, Any] = {"telling": Telling.ENOUGH, "as_written": True, "exponent": 1.0}
    wanted = spec(QUEUED, goal, parallelism=width, completions=width)
    job = running("train", width, since=NOW - HAD, attained=width * HAD)
    return replace(job, spec=wanted, remaining=left * width, **{**made, **fields})


@pytest.mark.parametrize(
    ("width", "left", "needed"),
    [
        (2, 600.0, 2), (2, 620.0, 2), (2, 900.0, 3), (2, 1800.0, 6), (4, 450.0, 3), (4, 480.0, 4), (8, 75.0, 1),
    ],
)  # fmt: skip
def test_it_needs_the_fewest_replicas_that_do_the_rest_in_the_time_that_is_left(
    width: int, left: float, needed: int
) -> None:
    assert goal_width(begun(width, left), LINEAR, 64) == needed


@pytest.mark.parametrize(
    ("width", "left", "most", "needed"),
    [(2, 900.0, 64, 4), (2, 1800.0, 64, 8), (2, 1800.0, 7, 2), (8, 75.0, 64, 1)],
)
def test_it_needs_the_fewest_of_the_listed_widths(width: int, left: float, most: int, needed: int) -> None:
    job = begun(width, left)
    job = replace(job, spec=replace(job.spec, widths=(1, 2, 4, 8)))
    assert goal_width(job, LINEAR, most) == needed


def test_where_the_duration_cannot_be_kept_the_longest_one_counts_and_else_nothing_changes() -> None:
    assert goal_width(begun(2, 6000.0), LINEAR, 8) == 2
    assert goal_width(begun(2, 6000.0, at_most="2400s"), LINEAR, 8) == 6
    assert goal_width(begun(2, 900.0, seconds=300), LINEAR, 8) == 2, "its time is over"


def sized(job: JobState, rates: Rates, cards: int = 16) -> Sizing:
    return with_widths([job], SlotRoom(cards, job.width), lambda _: rates, ["Z100"])


LEARNT = Rates({("m", "Z100"): LINEAR})


def test_a_job_that_needs_more_grows_when_cards_are_free_and_it_has_rested() -> None:
    sizing = sized(begun(2, 1800.0), LEARNT)
    (job,) = sizing.jobs
    assert (job.goal_width, sizing.unsized) == (6, {job.spec.key: "needs 6 pods to be done in time"})
    grows = (Scale(job.spec.key, 2, 6),)
    assert plan_round(NOW, [job], SlotRoom(6, 2), RULES).steps == grows
    assert plan_round(NOW, [job], SlotRoom(5, 2), RULES).steps == ()
    assert plan_round(NOW, [replace(job, resized=NOW - 10)], SlotRoom(6, 2), RULES).steps == ()
    other = replace(waiting("other", least=4, most=4), since=NOW)
    steps = plan_round(NOW, [job, other], SlotRoom(6, 2), RULES).steps
    assert [step.job for step in steps] == [other.spec.key], "who waits comes first"


def test_a_job_that_needs_less_gives_the_others_back() -> None:
    (job,) = sized(begun(8, 75.0), LEARNT).jobs
    assert plan_round(NOW, [job], SlotRoom(8, 8), RULES).steps == (Scale(job.spec.key, 8, 1),)


def test_the_width_is_bounded_by_the_cards_that_there_are() -> None:
    (job,) = sized(begun(2, 1800.0), LEARNT, cards=5).jobs
    assert job.goal_width == 2


@pytest.mark.parametrize(
    "job",
    [
        begun(2, 1800.0, as_written=False), begun(2, 1800.0, held=True),
        replace(begun(2, 1800.0), spec=spec(QUEUED, {"min-replicas": "1"})),
    ],
)  # fmt: skip
def test_a_job_that_was_sized_or_has_to_stay_keeps_its_width(job: JobState) -> None:
    assert not unsized(job)
    sizing = sized(job, LEARNT)
    assert ([each.goal_width for each in sizing.jobs], sizing.unsized) == ([0], {})


def test_by_the_operators_table_it_was_sized_when_it_began() -> None:
    sizing = sized(begun(2, 1800.0), Rates({("m", "Z100"): replace(LINEAR, learnt=False)}))
    assert ([each.goal_width for each in sizing.jobs], sizing.unsized) == ([0], {})


@pytest.mark.parametrize("telling", [Telling.NOTHING, Telling.LITTLE])
def test_until_enough_is_told_it_says_so_and_keeps_its_width(telling: Telling) -> None:
    job = begun(2, 1800.0, telling=telling)
    sizing = sized(job, Rates())
    assert [(each.spec.least, each.spec.most, each.goal_width) for each in sizing.jobs] == [(2, 2, 0)]
    assert sizing.unsized[job.spec.key] == (
        "no rate is known of the model m: it is sized once its program has reported its progress for some minutes"
    )
    assert not sizing.silent


def test_a_program_that_tells_nothing_is_not_sized_and_says_what_to_do() -> None:
    job = begun(2, 1800.0, telling=Telling.NOTHING)
    assert (silent(job), sized(job, Rates()).again) == (False, SILENT_S - HAD)
    quiet = replace(job, attained=2 * SILENT_S)
    sizing = sized(quiet, Rates())
    assert sizing.silent == sizing.unsized
    assert sizing.silent[job.spec.key] == (
        "is not sized, because its program has reported no progress in 15 min: let it write its progress into"
        " $VGPU_PROGRESS, let an operator add a line for m to the table of rates, or write parallelism"
        " in place of vgpu.io/samples"
    )
    assert not silent(replace(quiet, telling=Telling.LITTLE))
