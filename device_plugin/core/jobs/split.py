"""Splits: which sub-tasks of a job start now, where the job as a whole does not fit.

A split is one Job, whose sub-tasks are its indexes and ask for the same, or several Jobs, whose needs may differ. Both
are a window that slides: whenever there is room, as many further sub-tasks start as fit together, in their order. Room
is what a trial gives, not a sum: the functions here ask for it by `take`, which holds it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from math import inf

from device_plugin.core import annotations
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.spec import Split

# A split that needs more than as many times of what is free waits: in so small parts it would run for a very long time,
# and hold what it takes from jobs that fit. Once it has begun it goes on with whatever is free.
MOST_RATIO = 64.0
# Trials that may fail in one look at a split of Jobs in any order.
MOST_MISSES = 16


class Entry(Enum):
    """What becomes of a job that wants to start."""

    WHOLE = "whole"
    PARTS = "parts"
    QUEUE = "queue"


def scarcity(need: Mapping[str, float], free: Mapping[str, float]) -> float:
    """Need as a multiple of what is free, of the resource where it is largest; infinite if nothing of one is free."""
    return max(
        (_ratio(amount, free.get(name, 0.0)) for name, amount in need.items() if amount > 0), default=0.0
    )


def _ratio(need: float, free: float) -> float:
    return need / free if free > 0 else inf


def entry(ratio: float, *, divided: bool, most_ratio: float = MOST_RATIO) -> Entry:
    """How a job starts that needs `ratio` times what is free: whole, by its sub-tasks if it has any, or not yet."""
    if ratio <= 1:
        return Entry.WHOLE
    return Entry.PARTS if divided and ratio < most_ratio else Entry.QUEUE


def taken(count: int, take: Callable[[int], bool]) -> int:
    """How many of `count` equal sub-tasks fit beside what runs; `take` holds so many more, or answers false.

    As many as fit, as far as one more is refused wherever it does not fit; in 2 + log2(count) trials.
    """
    held, step = 0, count
    while step:
        if step <= count - held and take(step):
            held += step
        step = (step + 1) // 2 if step > 1 else 0
    return held


def starting(waiting: Iterable[JobSpec], running: int, take: Callable[[JobSpec], bool]) -> Sequence[JobSpec]:
    """The Jobs of a split that start now, in their order, beside `running` others; `take` holds room for a Job.

    In order, a Job that does not fit keeps back all behind it; in any order, others pass it. With a barrier nothing
    starts while one runs.
    """
    ordered = sorted(waiting, key=_place)
    if not ordered or (running and ordered[0].barrier):
        return ()
    found, misses = [], 0
    for job in ordered:
        if take(job):
            found.append(job)
        elif job.split is Split.ORDERED or misses == MOST_MISSES:
            break
        else:
            misses += 1
    return found


def split_problem(jobs: Sequence[JobSpec]) -> str:
    """What the Jobs of one split do not agree on, and what to write; empty if they agree."""
    ordered = sorted(jobs, key=_place)
    for first, second in pairwise(ordered):
        names = f"Jobs {first.key[1]} and {second.key[1]} of split {first.split_of}"
        if first.part == second.part:
            return f"{names} are both sub-task {first.part}: write another {annotations.PART} on one"
        for key, one, other in (
            (annotations.SPLIT, first.split, second.split),
            (annotations.BARRIER, first.barrier, second.barrier),
            (annotations.QUEUE, first.queue, second.queue),
        ):
            if one != other:
                return f"{names} have different {key}: write one on all Jobs of the split"
    return ""


def _place(job: JobSpec) -> tuple[int, str]:
    return job.part or 0, job.key[1]
