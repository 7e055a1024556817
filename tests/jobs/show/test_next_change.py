"""What may change next about a Job, and when."""

from dataclasses import replace

import pytest

from device_plugin.core.jobs.job import JobPhase, JobState
from device_plugin.core.jobs.plan import Admit, Plan, Reserved, Scale, Step, Suspend, Window
from device_plugin.core.jobs.rules import Rules
from device_plugin.jobs.show.next_change import NextChange, next_change
from tests.builders.batch_jobs import job, managed, resize
from tests.builders.jobs import running, stopped, waiting

NOW, A, B = 2000.0, ("default", "a"), ("default", "b")
RULES = Rules(age_s=1000.0, stop_s=2000.0, cooldown_s=300.0, quantum_s=400.0, young_s=600.0)
SHRINKING = replace(running("a", 4, most=8), phase=JobPhase.RESIZING)


def told(
    state: JobState,
    step: Step | None = None,
    *,
    contended: bool = False,
    plan: Plan = Plan(),  # noqa: B008 - it is immutable
    start: float | None = None,
) -> NextChange | None:
    of = managed(job("a", 4), record=resize(4, 2, beneficiary=B))
    return next_change(of, state, step, RULES, plan=plan, now=NOW, contended=contended, start=start)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (replace(waiting("a"), since=1500.0), NextChange("goes before others of its priority", 2500.0)),
        (
            stopped("a", since=1500.0, attained=8000.0),
            NextChange("goes before others of its priority", 3500.0),
        ),
        (waiting("a"), None),
        (SHRINKING, NextChange("has 2 pods", 1100.0, bounded=True)),
        (replace(SHRINKING, phase=JobPhase.STOPPING), NextChange("has 2 pods", 1100.0, bounded=True)),
        (running("a", 4, most=8, since=1500.0), NextChange("may grow", 1800.0)),
        (
            JobState(spec=running("a", 4, most=8).spec, phase=JobPhase.RUNNING, width=4, since=1500.0),
            NextChange("may grow", 1500.0),
        ),
        (running("a", 4, since=1500.0), None),
        (replace(running("a", 4, most=8), held=True), None),
        (replace(running("a", 4), phase=JobPhase.STARTING), None),
    ],
)
def test_without_a_plan_the_phase_tells(state: JobState, expected: NextChange | None) -> None:
    assert told(state) == expected


def test_while_a_job_waits_one_that_runs_may_give_way_and_does_not_grow() -> None:
    elastic = replace(running("a", 4, most=8, since=1500.0), started=1500.0)
    narrower, stops = ("may be made narrower for a job that waits", "may be stopped for a job that waits")
    assert told(elastic, contended=True) == NextChange(narrower, 2100.0), "it is young"
    kept = replace(elastic, spec=replace(elastic.spec, min_runtime=900.0))
    assert told(kept, contended=True) == NextChange(narrower, 2400.0)
    resumable = replace(elastic, spec=replace(elastic.spec, resumable=True))
    assert told(resumable, contended=True) == NextChange(stops, 1900.0), "after its quantum"
    assert told(resumable, contended=True, plan=Plan(unreserved={B: "too dear"})) == NextChange(stops, 1700.0)
    assert told(replace(elastic, held=True), contended=True) is None


def test_a_job_that_gives_nothing_to_its_equals_has_no_time_at_which_it_may() -> None:
    assert told(running("a", 4, since=1500.0), contended=True) is None
    least = running("a", 4, least=4, most=8, since=1500.0)
    assert told(least, contended=True) is None


def test_a_job_for_which_cards_are_kept_is_expected_to_start_where_they_are() -> None:
    expected = NextChange("is expected to start with 1 pod", 2700.0)
    assert told(waiting("a"), plan=Plan(reserved={A: Reserved(("n1",), 2700.0)}), start=2600.0) == expected
    assert told(waiting("a"), plan=Plan(reserved={A: Reserved(("n1",))}), start=2700.0) == expected
    assert told(waiting("a"), plan=Plan(reserved={A: Reserved(("n1",))})) is None, "no end is known"


@pytest.mark.parametrize(
    ("step", "what"),
    [
        (Admit(A, 3), "starts with 3 pods"),
        (Scale(A, 4, 2, B), "goes to 2 pods"),
        (Window(A, 7), "goes to 7 sub-tasks at a time"),
        (Suspend(A, B), "stops for job default/b"),
    ],
)
def test_what_was_planned_is_told_first(step: Step, what: str) -> None:
    assert told(running("a", 4), step) == NextChange(what, NOW)


def test_it_says_whether_the_time_is_the_earliest_or_the_latest() -> None:
    assert NextChange("may grow", 0.0).as_text() == "may grow from 1970-01-01T00:00:00Z on"
    assert NextChange("has 2 pods", 0.0, bounded=True).as_text() == "has 2 pods by 1970-01-01T00:00:00Z"
    assert NextChange("has 2 pods", 7.0, bounded=True).as_object() == {"what": "has 2 pods", "until": 7}
