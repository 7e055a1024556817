"""Forecasts of starts: when the jobs that are next in their queues will have room, by the ends that are known."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from device_plugin.core.jobs.job import JobKey, JobState
from device_plugin.core.jobs.queue import Unit, next_units
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import Rules

# Jobs to end that are looked at for each queue, and queues: each is a trial on the room.
MOST_ENDS, MOST_QUEUES = 64, 8
# Seconds from now up to which an end counts as known: a program's reports may put it beyond any calendar.
MOST_SECONDS = 366 * 86_400.0


def starts(now: float, jobs: Collection[JobState], room: Room, rules: Rules) -> Mapping[JobKey, float]:
    """The times when the jobs next in their queues will have room for their least widths; the room stays as it is.

    Jobs end when their progress, or else their declared duration, says. Nothing is said of a job that fits already, and
    where too little is known: jobs without a known end are taken to run on, and only the next MOST_ENDS ends are looked
    at. Others that are admitted before it may take what becomes free.
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
    """The jobs that hold cards and whose end is known, with the time of that."""
    for job in jobs:
        if width(job) and job.spec.cards and not job.spec.parts:
            left = job.seconds_left(width(job))
            if left is not None and left <= MOST_SECONDS:
                yield now + left, job


def _start(unit: Unit, ending: Sequence[tuple[float, JobState]], room: Room) -> float | None:
    """The first of these ends after which the unit has room; None if it has some now, or after none of them."""
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
