"""Splits in the simulation: their sub-tasks are the indexes of one Job, or each is a Job of its own."""

import heapq
from collections.abc import Sequence
from dataclasses import replace
from math import inf

from device_plugin.core.jobs.job import JobPhase, JobSpec, JobState
from device_plugin.core.jobs.spec import Split
from hack.bench.jobs.simulation import Knows, Run, spec_of
from hack.bench.jobs.trace import EXPONENT, TraceJob


class SplitRun(Run):
    """A Job whose indexes are sub-tasks, in the simulation: whenever a sub-task ends, the next one starts.

    `seconds` has the length of each sub-task on one card. `begun` and `done` are the numbers of the sub-tasks in the
    order in which they began and ended.
    """

    __slots__ = ("_next", "_running", "_seconds", "_start_s", "begun", "done")

    def __init__(self, trace: TraceJob, spec: JobSpec, seconds: Sequence[float]) -> None:
        super().__init__(trace, replace(spec, parts=len(seconds), split=Split.ORDERED), Knows.NOTHING)
        self._seconds = seconds
        self._next, self._start_s = 0, 0.0
        # The time at which each running sub-task ends, and its number.
        self._running: list[tuple[float, int]] = []
        self.begun: list[int] = []
        self.done: list[int] = []

    def advance(self, now: float) -> None:
        """Count the card-seconds used until `now`."""
        self.attained += self.width * (now - self.seen)
        self.seen = now

    def state(self, now: float) -> JobState:
        """The job as a policy sees it now; its most width is at most the number of sub-tasks that have not ended."""
        found = super().state(now)
        most = min(self.spec.most, len(self._seconds) - len(self.done))
        return replace(found, spec=replace(self.spec, most=most))

    def resize(self, now: float, width: int, wait_s: float, start_s: float) -> None:
        """Let `width` sub-tasks run at a time. Running sub-tasks go on, so `width` is at least their number."""
        if width < self.width:
            raise ValueError(f"{self.spec.key}: {self.width} sub-tasks run, not {width}")
        self.advance(now)
        if self.first == inf:
            self.first = self.since = now + wait_s
        self.phase, self.resized, self._start_s = JobPhase.RUNNING, now, start_s
        for _ in range(width - self.width):
            self._begin(now + wait_s)
        self.width = width
        self._wait()

    def end(self) -> int:
        """End the sub-task that ends first; the next one takes its card. Returns the number of released cards."""
        self.advance(self.ends)
        ended, number = heapq.heappop(self._running)
        self.done.append(number)
        if self._next < len(self._seconds):
            self._begin(ended)
        released, self.width = self.width - len(self._running), len(self._running)
        if not self.width:
            self.finished = ended
        self._wait()
        return released

    def _begin(self, at: float) -> None:
        heapq.heappush(self._running, (at + self._start_s + self._seconds[self._next], self._next))
        self.begun.append(self._next)
        self._next += 1

    def _wait(self) -> None:
        """Set the time of the next end. The job is ready now, because its sub-tasks do not wait for each other."""
        self.version += 1
        self.ready = self.seen
        self.ends = self._running[0][0] if self._running else inf


def split_run(name: str, arrival: float, seconds: Sequence[float], cards: int) -> SplitRun:
    """A split whose sub-tasks are the indexes of one Job."""
    trace = _trace(name, arrival, sum(seconds))
    return SplitRun(trace, replace(spec_of(trace, 1, cards), most=min(len(seconds), cards)), seconds)


def part_runs(name: str, arrival: float, seconds: Sequence[float], *, barrier: bool) -> Sequence[Run]:
    """A split whose sub-tasks are Jobs of their own."""
    runs = []
    for number, work in enumerate(seconds):
        trace = _trace(f"{name}-{number:02}", arrival, work)
        spec = replace(spec_of(trace, 1, 1), split=Split.ORDERED, split_of=name, part=number, barrier=barrier)
        runs.append(Run(trace, spec, Knows.NOTHING))
    return runs


def _trace(name: str, arrival: float, work: float) -> TraceJob:
    return TraceJob(name, arrival, 1, work, EXPONENT, work)
