"""Consent to give cards to others: priorities, consent, minimum runtimes, turns, gain against loss."""

from dataclasses import replace
from typing import Any

import pytest

from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Admit, Scale, Suspend
from device_plugin.core.jobs.rules import HOUR, Rules
from tests.builders.jobs import running, waiting
from tests.core.jobs.rounds import NOW, RULES, planned, widths

WILLING = Rules(resumable=True)


def new(name: str, **spec: Any) -> JobState:
    return replace(waiting(name, **spec), since=NOW - 60)


def ran(name: str, width: int, hours: float = 2.0, **spec: Any) -> JobState:
    """A job that has run for some hours since its only start."""
    job = running(name, width, since=NOW - hours * HOUR, attained=hours * HOUR * width, **spec)
    return replace(job, started=job.since)


@pytest.mark.parametrize(
    ("rules", "resumable", "stops"),
    [
        (RULES, None, False),
        (RULES, True, True),
        (RULES, False, False),
        (WILLING, None, True),
        (WILLING, False, False),
        (Rules(resumable_queues=frozenset({"default"})), None, True),
        (Rules(resumable_queues=frozenset({"other"})), None, False),
    ],
)
def test_a_job_is_stopped_for_an_equal_by_consent_only(
    rules: Rules, resumable: bool | None, stops: bool
) -> None:
    long = ran("long", 2, resumable=resumable)
    job = new("new")
    assert (widths([long, job], planned(2, long, job, rules=rules))["long"] == 0) is stops


@pytest.mark.parametrize("waited", [60.0, 100 * HOUR])
def test_no_wait_of_an_equal_stops_a_job_without_consent(waited: float) -> None:
    long = ran("long", 8, hours=200.0)
    job = replace(new("new", least=8, most=8), since=NOW - waited)
    assert planned(8, long, job).steps == ()


@pytest.mark.parametrize("resumable", [None, True, False])
def test_a_higher_priority_never_gives_and_a_lower_one_always_may(resumable: bool | None) -> None:
    long = ran("long", 2, hours=0.001, resumable=resumable, min_runtime=24 * HOUR)
    higher, lower = new("higher", priority=1), new("lower", priority=-1)
    assert widths([long, higher], planned(2, long, higher)) == {"long": 0, "higher": 1}
    old = ran("long", 2, hours=100.0, resumable=True)
    late = replace(lower, since=NOW - 100 * HOUR)
    assert planned(2, old, late, rules=WILLING).steps == ()


def test_a_minimum_runtime_protects_from_stops_and_shrinks_for_equals() -> None:
    job = new("new")
    for spec in ({"resumable": True}, {"least": 1, "most": 4}):
        kept = ran("kept", 4, hours=3.0, min_runtime=3 * HOUR + 1, **spec)
        big = replace(job, spec=replace(job.spec, least=2, most=2, asked=2))
        assert planned(4, kept, big).steps == ()
        assert planned(4, replace(kept, spec=replace(kept.spec, min_runtime=3 * HOUR)), big).steps
        assert planned(4, kept, replace(big, spec=replace(big.spec, priority=1))).steps
    silent = ran("silent", 4, hours=1.0, least=1, most=4)
    assert planned(4, silent, job, rules=Rules(min_runtime_s=HOUR + 1)).steps == ()
    assert planned(4, silent, job, rules=Rules(min_runtime_s=HOUR)).steps


def test_bounds_are_consent_to_shrink_but_not_in_the_first_ten_minutes() -> None:
    job = new("new")
    young = ran("wide", 4, hours=(RULES.young_s - 1) / HOUR, least=1, most=4)
    assert planned(4, young, job).steps == ()
    old = replace(young, started=NOW - RULES.young_s)
    assert planned(4, old, job).steps == (Scale(old.spec.key, 4, 3, job.spec.key), Admit(job.spec.key, 1))
    higher = replace(job, spec=replace(job.spec, priority=1))
    assert planned(4, young, higher).steps


def test_who_was_due_keeps_its_turn_as_long_as_it_was_stopped_but_not_against_one_that_is_due() -> None:
    back = replace(ran("back", 2, hours=2.0), stopped_s=RULES.stop_s, attained=900 * HOUR)
    job = new("new", least=2, most=2)
    assert planned(2, back, job, rules=WILLING).steps == ()
    assert planned(2, replace(back, stopped_s=RULES.stop_s - 1), job, rules=WILLING).steps
    late = replace(job, since=NOW - RULES.age_s)
    assert planned(2, back, late, rules=WILLING).steps == (
        Suspend(back.spec.key, late.spec.key),
        Admit(late.spec.key, 2),
    )
    ended = replace(back, started=NOW - RULES.stop_s, since=NOW - RULES.stop_s)
    assert planned(2, ended, job, rules=WILLING).steps


def test_who_was_stopped_keeps_its_turn_against_a_due_job_that_refuses_to_be_stopped() -> None:
    back = replace(ran("back", 2, hours=2.0, resumable=True), stopped_s=3 * HOUR, attained=900 * HOUR)
    late = replace(new("late", least=2, most=2), since=NOW - RULES.age_s)
    assert planned(2, back, late).steps == ()
    assert planned(2, replace(back, stopped_s=2 * HOUR), late).steps
    willing = replace(late, spec=replace(late.spec, resumable=True))
    assert planned(2, back, willing).steps


@pytest.mark.parametrize(("count", "stops"), [(1, False), (3, False), (4, True), (8, True)])
def test_no_more_cards_are_idled_than_are_used_anew(count: int, stops: bool) -> None:
    long = ran("long", 8)
    jobs = [new(f"n{number}") for number in range(count)]
    plan = planned(8, long, *jobs, rules=WILLING)
    assert any(isinstance(step, Suspend) for step in plan.steps) is stops
    assert sum(isinstance(step, Admit) for step in plan.steps) == (count if stops else 0)


def test_for_a_job_that_is_due_more_cards_may_be_idled() -> None:
    long = ran("long", 8)
    late = replace(new("late"), since=NOW - RULES.age_s)
    assert widths([long, late], planned(8, long, late, rules=WILLING)) == {"long": 0, "late": 1}
    assert planned(8, long, late).steps == ()


def test_a_job_shrinks_before_it_is_stopped() -> None:
    """With minimum 100 of 128 cards it gives 28 to the first 28 of 29 new jobs."""
    large = ran("large", 128, least=100, most=128, resumable=True)
    jobs = [new(f"n{number:02}") for number in range(29)]
    plan = planned(128, large, *jobs)
    assert widths([large], replace(plan, steps=plan.steps[:1])) == {"large": 100}
    assert sum(isinstance(step, Admit) for step in plan.steps) == 28
