"""Rule Q2: a job that does not fit as a whole runs by its sub-tasks, as many at a time as there is room for."""

import random
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from device_plugin.core.jobs.job import JobPhase, JobSpec, JobState
from device_plugin.core.jobs.plan import Admit, Scale
from device_plugin.core.jobs.rank import turn_end
from device_plugin.core.jobs.rules import HOUR, Rules
from device_plugin.core.jobs.split import first_parts, split_problem
from tests.builders.cards import FAMILY
from tests.builders.jobs import running, waiting
from tests.builders.written_jobs import spec, template
from tests.core.jobs.rounds import NOW, RULES, carried_out, planned, widths


def part(number: int, cards: int = 1, queue: str = "default", **written: str) -> JobSpec:
    """A sub-task of the split `n` that is a Job of its own."""
    labels = {"queue": queue, "split-of": "n", "part": str(number)}
    fields: dict[str, Any] = {"parallelism": 1, "completions": 1, "template": template({FAMILY: str(cards)})}
    return spec(labels, written, name=f"n-{number}", **fields)


def parts(*cards: int, **written: str) -> list[JobState]:
    """The waiting sub-tasks of a split, each with so many cards, in a random order."""
    jobs = [JobState(spec=part(number, each, **written), since=NOW - 60) for number, each in enumerate(cards)]
    random.Random(len(cards)).shuffle(jobs)
    return jobs


def started(slots: int, jobs: Sequence[JobState], rules: Rules = RULES) -> list[int]:
    """The numbers of the sub-tasks that a round starts."""
    before = {job.spec.key for job in jobs if job.width}
    after = carried_out(jobs, planned(slots, *jobs, rules=rules), NOW)
    return sorted(job.spec.part or 0 for job in after if job.width and job.spec.key not in before)


def split_job(count: int, **spec: Any) -> JobState:
    """A Job of so many equal sub-tasks."""
    made = waiting("frames", most=min(count, 1024), **spec)
    return replace(made, since=NOW - 60, spec=replace(made.spec, parts=count, asked=1))


def test_q2_as_many_sub_tasks_of_a_job_run_as_there_is_room_for() -> None:
    assert widths([split_job(16)], planned(5, split_job(16))) == {"frames": 5}
    assert widths([split_job(3)], planned(5, split_job(3))) == {"frames": 3}


def test_q2_the_window_of_a_job_slides() -> None:
    half = split_job(16)
    half = replace(half, phase=JobPhase.RUNNING, width=3, since=NOW - 60, resized=NOW - 1)
    assert widths([half], planned(5, half)) == {"frames": 5}


def begun(parts: int, width: int, **spec: Any) -> JobState:
    """A Job of sub-tasks, of which `width` run at a time; it began so long ago that its equals give way to it."""
    return running("frames", width, least=1, most=parts, parts=parts, since=NOW - RULES.cooldown_s, **spec)


def test_q2_the_next_sub_task_goes_before_the_growth_of_others() -> None:
    wide = running("wide", 2, least=2, most=16)
    assert widths([begun(16, 4), wide], planned(8, begun(16, 4), wide)) == {"frames": 6, "wide": 2}


def test_q2_others_shrink_for_the_next_sub_tasks_to_their_least_width() -> None:
    jobs = [begun(16, 2), running("wide", 6, most=6)]
    plan = planned(8, *jobs)
    assert widths(jobs, plan) == {"frames": 7, "wide": 1}
    assert list(plan.given(jobs[0].spec.key)) == [jobs[1].spec.key]
    jobs[0] = begun(5, 2)
    assert widths(jobs, planned(8, *jobs)) == {"frames": 5, "wide": 3}, "no more than is used"


def test_q2_others_give_way_to_a_split_a_cooldown_after_its_last_change() -> None:
    split = begun(16, 2)
    for priority in (0, -1):
        wide = running("wide", 6, most=6, priority=priority)
        assert planned(8, wide, split).steps
        assert planned(8, wide, replace(split, since=split.since + 1)).steps == ()
        assert planned(8, wide, replace(split, resized=split.since + 1)).steps == ()


def test_q2_nobody_is_suspended_for_a_sub_task_of_a_split_that_had_as_much_service() -> None:
    rigid = running("rigid", 4, attained=8 * RULES.unit_s, since=NOW - 2 * RULES.quantum_s)
    for attained, expected in (
        (8 * RULES.unit_s, {"frames": 4, "rigid": 4}),
        (0.0, {"frames": 8, "rigid": 0}),
    ):
        jobs = [replace(begun(16, 4), attained=attained), rigid]
        assert widths(jobs, planned(8, *jobs, rules=Rules(resumable=True))) == expected


def test_q2_a_turn_does_not_end_for_a_sub_task_of_a_split_that_ran_before() -> None:
    rigid = running("rigid", 4, attained=4 * 10 * RULES.unit_s, since=NOW - 2 * RULES.quantum_s)
    assert turn_end(rigid, RULES) > NOW
    willing = Rules(resumable=True)
    jobs = [begun(16, 4), rigid]
    assert widths(jobs, planned(8, *jobs, rules=willing)) == {"frames": 4, "rigid": 4}
    jobs = [begun(4, 4), rigid, replace(waiting("new", least=2, most=2), since=NOW - 60)]
    assert widths(jobs, planned(8, *jobs, rules=willing))["new"] == 2


def test_q2_a_new_job_goes_before_the_next_sub_task_of_a_split_that_ran_for_long() -> None:
    jobs = [replace(begun(16, 4), attained=1e6), waiting("new", least=2, most=2)]
    assert widths(jobs, planned(8, *jobs)) == {"frames": 6, "new": 2}


def test_q2_sub_tasks_and_jobs_of_another_queue_take_turns() -> None:
    others = [waiting(f"other-{number}", queue="other") for number in range(8)]
    after = widths([begun(16, 1), *others], planned(9, begun(16, 1), *others))
    assert after["frames"] == 4


def test_q2_what_is_kept_for_a_job_that_waited_too_long_is_not_for_a_sub_task() -> None:
    late = replace(waiting("late", least=4, most=4), since=NOW - 2 * RULES.age_s)
    jobs = [begun(16, 4), late]
    assert widths(jobs, planned(7, *jobs)) == {"frames": 4, "late": 0}


def test_q2_where_nothing_is_free_or_no_parts_are_declared_it_waits() -> None:
    other = running("other", 4, since=NOW - 60)
    for job in (split_job(16), waiting("whole", least=2, most=2)):
        assert widths([other, job], planned(4, other, job))[job.spec.key[1]] == 0


def test_q2_above_a_ratio_of_need_to_what_is_free_it_waits() -> None:
    job = split_job(16, split_ratio=4.0)
    assert widths([job], planned(4, job)) == {"frames": 0}
    assert widths([job], planned(5, job)) == {"frames": 5}
    begun = replace(job, phase=JobPhase.RUNNING, width=1, since=NOW - 60)
    assert widths([begun], planned(2, begun)) == {"frames": 2}
    due = replace(job, since=NOW - RULES.age_s)
    assert widths([due], planned(2, due)) == {"frames": 2}


@pytest.mark.parametrize(
    ("count", "ratio", "first"), [(16, 4, 5), (3, 4, 1), (4, 4, 2), (5, 1, 5), (9, inf, 1)]
)
def test_a_split_begins_once_more_than_its_number_divided_by_the_ratio_fit(
    count: int, ratio: float, first: int
) -> None:
    job = split_job(count, split_ratio=ratio)
    assert (job.spec.first_parts, first_parts(job, NOW, RULES)) == (first, first)
    assert first_parts(replace(job, phase=JobPhase.STOPPED), NOW, RULES) == 1
    assert widths([job], planned(first, job)) == {"frames": first}
    assert first == 1 or widths([job], planned(first - 1, job)) == {"frames": 0}


def test_q2_several_start_whose_needs_sum_to_what_is_free_in_order() -> None:
    jobs = parts(2, 2, 4, 1)
    assert started(5, jobs) == [0, 1]
    assert started(9, jobs) == [0, 1, 2, 3]
    assert started(8, jobs) == [0, 1, 2]


def test_q2_in_order_nothing_passes_a_sub_task_that_does_not_fit() -> None:
    other = running("other", 4, since=NOW - 60)
    assert started(7, [other, *parts(2, 4, 1)]) == [0]
    assert started(7, [other, *parts(4, 1, 1)]) == []


def test_q2_in_any_order_what_fits_passes_what_does_not() -> None:
    other = running("other", 4, since=NOW - 60)
    assert started(8, [other, *parts(2, 4, 1, 1, split="any")]) == [0, 2, 3]


def test_q2_a_sub_task_that_can_never_run_keeps_nothing_back() -> None:
    jobs = parts(9, 1, 1)
    assert started(4, jobs) == [1, 2]


def test_q2_two_splits_do_not_wait_for_each_other() -> None:
    other = [
        replace(job, spec=replace(job.spec, key=("ns", f"m-{job.spec.part}"), split_of="m"))
        for job in parts(1, 1)
    ]
    busy = running("busy", 4, since=NOW - 60)
    assert started(6, [busy, *parts(3, 1), *other]) == [0, 1]


def test_q2_only_with_a_barrier_all_that_run_end_first() -> None:
    for written, expected in (({}, [1, 2]), ({"barrier": "true"}, [])):
        first, *rest = sorted(parts(1, 1, 1, **written), key=lambda job: job.spec.part or 0)
        busy = replace(first, phase=JobPhase.RUNNING, width=1)
        assert started(4, [busy, *rest]) == expected
    assert started(4, parts(1, 1, barrier="true")) == [0, 1]


@pytest.mark.parametrize("seed", range(20))
def test_q2_no_sub_task_is_lost_or_runs_twice_and_a_barrier_is_never_faster(seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    shapes = [(draw.randint(1, 4), draw.randint(1, 9)) for _ in range(24)]
    spans = {}
    for barrier in ("false", "true"):
        jobs = parts(*(cards for cards, _ in shapes), barrier=barrier)
        ends: dict[int, int] = {}
        begun: list[int] = []
        now = 0
        while jobs:
            new = started(8, jobs)
            begun += new
            ends |= {number: now + shapes[number][1] for number in new}
            now = min(end for end in ends.values() if end > now)
            jobs = [
                replace(job, phase=JobPhase.RUNNING, width=1) if (job.spec.part or 0) in ends else job
                for job in jobs if ends.get(job.spec.part or 0, now + 1) > now
            ]  # fmt: skip
        assert begun == sorted(begun) == list(range(24))
        spans[barrier] = now
    assert spans["false"] <= spans["true"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (part(2), ""),
        (part(1), "Jobs n-1 and n-1 of split n are both sub-task 1: write another vgpu.io/part on one"),
        (
            part(2, split="any"),
            "Jobs n-1 and n-2 of split n have different vgpu.io/split: write one on all Jobs",
        ),
        (part(2, barrier="true"), "have different vgpu.io/barrier: write one on all Jobs of the split"),
        (part(2, queue="other"), "have different vgpu.io/queue: write one on all Jobs of the split"),
    ],
)
def test_what_the_jobs_of_a_split_agree_on(other: JobSpec, words: str) -> None:
    found = split_problem([other, part(1)])
    assert words in found if words else found == ""


def begun_lately(young: int, **more: Any) -> JobState:
    """A split that has all four cards for days, of whose sub-tasks some have just begun."""
    made = running("split", 4, since=NOW - 120 * HOUR, attained=480 * HOUR, most=64, parts=1000, **more)
    return replace(made, young=young)


def test_a_split_does_not_keep_its_cards_from_a_job_that_has_waited_for_too_long() -> None:
    late = replace(waiting("late", queue="other"), since=NOW - RULES.age_s)
    assert not planned(4, begun_lately(0), late).steps, "what runs would begin anew"
    plan = planned(4, begun_lately(1), late)
    assert plan.steps == (
        Scale(("default", "split"), 4, 3, ("default", "late")),
        Admit(("default", "late"), 1),
    )
    two = replace(waiting("late", least=2, most=2, queue="other"), since=NOW - RULES.age_s)
    assert not planned(4, begun_lately(1), two).steps
    assert widths([begun_lately(3), two], planned(4, begun_lately(3), two)) == {"split": 2, "late": 2}


def test_to_other_jobs_a_split_gives_its_cards_if_they_have_a_higher_priority() -> None:
    new = replace(waiting("new", queue="other"), since=NOW)
    assert not planned(4, begun_lately(4), new).steps
    high = replace(waiting("new", queue="other", priority=1), since=NOW)
    assert widths([begun_lately(2), high], planned(4, begun_lately(2), high)) == {"split": 3, "new": 1}
    late = replace(new, since=NOW - RULES.age_s)
    assert not planned(4, begun_lately(4, priority=1), late).steps
