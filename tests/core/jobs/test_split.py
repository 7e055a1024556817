"""Rule Q2: a job that does not fit as a whole runs by its sub-tasks, as many at a time as there is room for."""

import random
from collections.abc import Callable
from math import ceil, inf, log2
from typing import Any

import pytest

from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.split import MOST_MISSES, Entry, entry, scarcity, split_problem, starting, taken
from tests.builders.cards import FAMILY
from tests.builders.written_jobs import spec, template


def part(number: int, cards: int = 1, queue: str = "default", **written: str) -> JobSpec:
    """A sub-task of the split `n` that is a Job of its own."""
    labels = {"queue": queue, "split-of": "n", "part": str(number)}
    fields: dict[str, Any] = {"parallelism": 1, "completions": 1, "template": template({FAMILY: str(cards)})}
    return spec(labels, written, name=f"n-{number}", **fields)


def room(cards: float) -> Callable[[JobSpec], bool]:
    """Takes Jobs until the cards are used up."""

    def take(job: JobSpec) -> bool:
        nonlocal cards
        if job.cards > cards:
            return False
        cards -= job.cards
        return True

    return take


def numbers(jobs: Any) -> list[int]:
    return [job.part for job in jobs]


@pytest.mark.parametrize(
    ("need", "free", "expected"),
    [
        ({"cards": 4.0}, {"cards": 8.0}, 0.5),
        ({"cards": 4.0, "cpu": 30.0}, {"cards": 8.0, "cpu": 10.0}, 3.0),
        ({"cards": 4.0, "cpu": 0.0}, {"cards": 8.0}, 0.5),
        ({"cards": 4.0}, {}, inf),
        ({}, {}, 0.0),
    ],
)
def test_q2_the_ratio_is_that_of_the_scarcest_resource(need: Any, free: Any, expected: float) -> None:
    assert scarcity(need, free) == expected


@pytest.mark.parametrize(
    ("ratio", "whole", "parts"),
    [
        (0.5, Entry.WHOLE, Entry.WHOLE), (1.0, Entry.WHOLE, Entry.WHOLE), (1.5, Entry.QUEUE, Entry.PARTS),
        (4.0, Entry.QUEUE, Entry.QUEUE), (inf, Entry.QUEUE, Entry.QUEUE),
    ],
)  # fmt: skip
def test_q2_below_a_ratio_it_is_split_by_the_parts_that_are_declared(
    ratio: float, whole: Entry, parts: Entry
) -> None:
    assert entry(ratio, divided=False, most_ratio=4.0) is whole
    assert entry(ratio, divided=True, most_ratio=4.0) is parts


@pytest.mark.parametrize("count", range(1, 40))
def test_q2_as_many_equal_sub_tasks_start_as_fit_together(count: int) -> None:
    for free in range(count + 3):
        left, trials = free, 0

        def take(more: int) -> bool:
            nonlocal left, trials
            trials += 1
            if more > left:
                return False
            left -= more
            return True

        assert taken(count, take) == min(count, free)
        assert trials <= ceil(log2(count)) + 2


def test_q2_several_start_whose_needs_sum_to_what_is_free_in_order() -> None:
    waiting = [part(3, 1), part(1, 2), part(2, 4), part(0, 2)]
    assert numbers(starting(waiting, 0, room(5))) == [0, 1]
    assert numbers(starting(waiting, 0, room(9))) == [0, 1, 2, 3]
    assert numbers(starting(waiting, 0, room(1))) == []
    assert numbers(starting([], 0, room(9))) == []


def test_q2_in_any_order_what_fits_passes_what_does_not() -> None:
    waiting = [
        part(0, 2, split="any"),
        part(1, 8, split="any"),
        part(2, 1, split="any"),
        part(3, 2, split="any"),
    ]
    assert numbers(starting(waiting, 3, room(5))) == [0, 2, 3]


def test_q2_trials_are_bounded_whatever_a_tenant_creates() -> None:
    trials = 0

    def take(_: JobSpec) -> bool:
        nonlocal trials
        trials += 1
        return False

    assert starting([part(number, split="any") for number in range(200)], 0, take) == []
    assert trials == MOST_MISSES + 1


def test_q2_the_window_slides_and_only_a_barrier_waits_for_all() -> None:
    assert numbers(starting([part(1), part(2)], 3, room(1))) == [1]
    waiting = [part(1, barrier="true"), part(2, barrier="true")]
    assert numbers(starting(waiting, 3, room(9))) == []
    assert numbers(starting(waiting, 0, room(9))) == [1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_q2_no_sub_task_is_lost_or_runs_twice_and_a_barrier_is_never_faster(seed: int) -> None:
    print("seed", seed)
    draw = random.Random(seed)
    parts = [(number, draw.randint(1, 4), draw.randint(1, 9)) for number in range(24)]
    spans = {}
    for barrier in ("false", "true"):
        waiting = {number: part(number, cards, barrier=barrier) for number, cards, _ in parts}
        length = {number: length for number, _, length in parts}
        running: dict[int, float] = {}
        begun: list[int] = []
        now = 0.0
        while waiting or running:
            held = sum(parts[number][1] for number in running)
            for job in starting(list(waiting.values()), len(running), room(8 - held)):
                number = job.part or 0
                del waiting[number]
                begun.append(number)
                running[number] = now + length[number]
            assert sum(parts[number][1] for number in running) <= 8
            now = min(running.values())
            running = {number: end for number, end in running.items() if end > now}
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
