"""Splits: works that are cut into sub-tasks. This module decides the order in which sub-tasks that are Jobs start.

The sub-tasks of a split are several Jobs, or the indexes of one Job. Kubernetes starts indexes in order, and the engine
only limits the number that run at a time. In both cases sub-tasks fill the free room, and each end starts the next
sub-task. With a barrier all running sub-tasks must end before further ones start.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise

from device_plugin.core.contract import annotations
from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.queue import Unit, due
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.spec import Split

SplitKey = tuple[str, str]
"""Namespace and name of a split."""


class SplitTurns:
    """Decides which sub-task of a split comes next, in one pass over the jobs of a round.

    A split here is several Jobs that divide one task. Each of them gives the split one turn in the queue; the turn goes
    to the split's next sub-task in order. `waiting` are the jobs that are neither refused nor admitted yet.
    """

    def __init__(self, jobs: Collection[JobState], waiting: Iterable[JobState]) -> None:
        self._next: dict[SplitKey, deque[JobState]] = {}
        for job in sorted((job for job in waiting if _split(job)), key=lambda job: _place(job.spec)):
            self._next.setdefault(_split(job) or job.spec.key, deque()).append(job)
        self._running = {_split(job) for job in jobs if job.width} if self._next else set()
        self._kept_back: set[SplitKey | None] = set()

    def in_order(self, units: Iterable[Unit]) -> Iterator[Unit]:
        """Yields the units (jobs that start together) in their order, but sub-tasks of one split in the split's order.

        A split is several Jobs that divide one task.
        """
        for unit in units:
            waiting = self._next.get(_split(unit[0]) or ("", ""))
            yield (waiting.popleft(),) if waiting else unit

    def may_start(self, unit: Unit) -> bool:
        """False for a sub-task that must wait for another sub-task of its split (Jobs that divide one task)."""
        split = _split(unit[0])
        return split is None or not (
            split in self._kept_back or (unit[0].spec.barrier and split in self._running)
        )

    def not_started(self, unit: Unit) -> None:
        """Note that a unit of jobs has no room: in an ordered split, later sub-tasks do not start before this one."""
        if unit[0].spec.split is Split.ORDERED:
            self._kept_back.add(_split(unit[0]))


def first_parts(job: JobState, now: float, rules: Rules) -> int:
    """The number of sub-tasks that must have room before a split starts; 1 if it began before or waited too long."""
    if job.phase is not JobPhase.WAITING or due(job, now, rules):
        return 1
    return job.spec.first_parts


def split_problem(jobs: Sequence[JobSpec]) -> str:
    """An error text, with the correction to write, if the Jobs of a split contradict each other; else empty.

    A split here is several Jobs that divide one task.
    """
    for first, second in pairwise(sorted(jobs, key=_place)):
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


def _split(job: JobState) -> SplitKey | None:
    """The split (a task in parts) of a Job that alone is a sub-task; None for other Jobs, also those of a group."""
    spec = job.spec
    return (spec.key[0], spec.split_of) if spec.split_of and not spec.joint else None


def _place(job: JobSpec) -> tuple[int, JobKey]:
    return job.part or 0, job.key
