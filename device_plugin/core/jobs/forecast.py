"""Forecasts of starts: when the next jobs of the queues will have room, from the known ends of running jobs."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from device_plugin.core.jobs.job import JobKey, JobState
from device_plugin.core.jobs.queue import Unit, next_units
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import Rules

# Most ends that are tried for each queue, and most queues: each end is a trial on the room.
MOST_ENDS, MOST_QUEUES = 64, 8
# An end later than this many seconds counts as unknown: a program's reports may put it beyond any calendar.
MOST_SECONDS = 366 * 86_400.0


def starts(now: float, jobs: Collection[JobState], room: Room, rules: Rules) -> Mapping[JobKey, float]:
    """The times when the next job of each queue will have room for its least width; `room` is not changed.

    A running job is expected to end by its progress, or else by its declared duration; without either it counts as
    running on. A job has no time if it fits already, or if the next MOST_ENDS ends do not make room for it. Only the
    first MOST_QUEUES queues with waiting jobs are looked at. Jobs that are admitted earlier may take the cards, so a
    start may be later.
    """
    found: dict[JobKey, float] = {}
    ends = known_ends(now, jobs, lambda job: job.width)
    ending = sorted(ends, key=lambda each: (each[0], each[1].spec.key))[:MOST_ENDS]
    for unit in islice(next_units(jobs, now, rules), MOST_QUEUES) if ending else ():
        start = _start(unit, ending, room)
        if start is not None:
            found |= dict.fromkeys((job.spec.key for job in unit), start)
    return found


def known_ends(
    now: float, jobs: Iterable[JobState], width: Callable[[JobState], int]
) -> Iterator[tuple[float, JobState]]:
    """Yields the expected end of each job that holds cards, with the job, if the end is known.

    `width` returns a job's number of replicas. Jobs of sub-tasks, and ends more than MOST_SECONDS away, are left out.
    """
    for job in jobs:
        if width(job) and job.spec.cards and not job.spec.parts:
            left = job.seconds_left(width(job))
            if left is not None and left <= MOST_SECONDS:
                yield now + left, job


def _start(unit: Unit, ending: Sequence[tuple[float, JobState]], room: Room) -> float | None:
    """The time of the first end after which the unit (jobs that start together) has room; None if now, or never."""
    if any(room.capacity(job.spec) < job.spec.least for job in unit) or _fits(unit, room):
        return None
    near = room.givers([job.spec for job in unit])
    with room.trial():
        for end, job in ending:
            if near is None or job.spec.key in near:
                room.give(job.spec, job.width)
                if _fits(unit, room):
                    return end
    return None


def _fits(unit: Unit, room: Room) -> bool:
    with room.trial():
        return all(room.take(job.spec, job.spec.least) for job in unit)
