"""Replays the jobs of a trace under one policy, on a virtual clock."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import ceil, inf

from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.plan import Admit, Plan, Refuse, Suspend, Window
from device_plugin.core.jobs.rank import declared_work
from device_plugin.core.jobs.room import Room
from device_plugin.core.requests import PodRequest, Request
from hack.bench.jobs.trace import TraceJob
from hack.bench.report import BenchError
from hack.bench.workload import FAMILY

TICK_S, START_S, DRAIN_S = 60.0, 30.0, 10.0
# A job's progress is known after it has done the work of TOLD_AFTER_S seconds at its smallest width.
TOLD_AFTER_S = 300.0


class Knows(IntEnum):
    """The knowledge that a policy has about the jobs' lengths."""

    NOTHING = 0
    DECLARED = 1
    PROGRESS = 2
    ALL = 3


Policy = Callable[[float, Sequence[JobState], Room], Plan]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds between two rounds, and seconds that a drain (with its checkpoint) and a start take without progress."""

    drain_s: float = DRAIN_S
    start_s: float = START_S
    tick_s: float = TICK_S


DEFAULT_COSTS = Costs()


class Run:
    """One job in the simulation: its past and its present state."""

    __slots__ = (
        "attained", "ends", "finished", "first", "knows", "left", "phase", "ready", "resized", "restarts", "seen",
        "since", "spec", "stopped_s", "stops", "trace", "version", "width",
    )  # fmt: skip

    def __init__(self, trace: TraceJob, spec: JobSpec, knows: Knows) -> None:
        self.trace, self.spec, self.knows = trace, spec, knows
        self.left = trace.work
        self.phase, self.width = JobPhase.WAITING, 0
        self.since, self.resized, self.ready, self.seen = trace.arrival, -inf, inf, trace.arrival
        self.attained, self.restarts, self.version = 0.0, 0, 0
        self.first, self.finished, self.ends, self.stopped_s = inf, inf, inf, 0.0
        # For each stop: the times at which the job stopped and went on.
        self.stops: list[tuple[float, float]] = []

    @property
    def stop_longest(self) -> float:
        """The longest time for which the job was stopped."""
        return max((end - begin for begin, end in self.stops), default=0.0)

    def advance(self, now: float) -> None:
        """Count the work done and the card-seconds used until `now`."""
        if self.width:
            self.left -= self.trace.speed(self.width) * max(0.0, now - max(self.seen, self.ready))
            self.attained += self.width * self.trace.cards * (now - self.seen)
        self.seen = now

    def state(self, now: float) -> JobState:
        """The job as a policy sees it now."""
        self.advance(now)
        phase = self.phase
        if self.width and now < self.ready:
            phase = JobPhase.STARTING
        return JobState(
            spec=self.spec, phase=phase, width=self.width, since=self.since, resized=self.resized,
            attained=self.attained, remaining=self._remaining(), exponent=self.trace.exponent,
            started=self.since if self.width else -inf, stopped_s=self.stopped_s,
            displaced=phase is JobPhase.STOPPED,
        )  # fmt: skip

    def _remaining(self) -> float | None:
        if self.knows is Knows.ALL:
            return self.left
        done = self.trace.work - self.left
        if self.knows is Knows.PROGRESS and done >= TOLD_AFTER_S * self.trace.speed(self.spec.least):
            return self.left
        if self.knows is Knows.DECLARED:
            return declared_work(self.spec, self.trace.asked, self.attained)
        return None

    def resize(self, now: float, width: int, wait_s: float, start_s: float) -> None:
        """Change the width at `now`: the new replicas start after `wait_s` and make progress `start_s` later."""
        self.advance(now)
        if width == 0:
            self.phase, self.since, self.ready = JobPhase.STOPPED, now, inf
        else:
            if self.phase is JobPhase.STOPPED:
                self.stopped_s = now - self.since
                self.stops.append((self.since, now + wait_s))
            if self.first == inf:
                self.first = now + wait_s
            else:
                self.restarts += 1
            if self.width == 0:
                self.since = now
            self.phase, self.ready = JobPhase.RUNNING, now + wait_s + start_s
            self.resized = now
        self.width = width
        self.version += 1
        self.ends = self.ready + self.left / self.trace.speed(width) if width else inf

    def end(self) -> int:
        """End the job at `ends`; returns the number of replicas that release their cards."""
        self.advance(self.ends)
        self.finished = self.ends
        released, self.width = self.width, 0
        return released


@dataclass(slots=True)
class SimulationOutcome:
    """The result of a replay under one policy.

    One of `tells` jobs declares its length. `rounds_to_rest` is the longest series of rounds with changes after one
    event. `useless_shrinks` counts jobs that gave way though the plan admitted no job for it. `outside` counts widths
    outside of a job's bounds, `overcommitted` rounds with more cards in use than exist.
    """

    runs: Sequence[Run]
    cards: int
    tells: int = 1
    rounds: int = 0
    rounds_to_rest: int = 0
    useless_shrinks: int = 0
    outside: int = 0
    overcommitted: int = 0


class Simulation:
    """A replay of a trace's jobs under one policy in one room, with widths up to `widest` times the width asked for.

    The policy knows `knows` about the length of one of every `tells` jobs, and nothing about the others. `more` are
    further jobs, which are not from a trace.
    """

    def __init__(
        self, jobs: Iterable[TraceJob], room: Room, policy: Policy, cards: int, *, knows: Knows = Knows.NOTHING,
        widest: int = 1, costs: Costs = DEFAULT_COSTS, tells: int = 1, more: Iterable[Run] = (),
    ) -> None:  # fmt: skip
        self._room, self._policy, self._costs = room, policy, costs
        runs = [
            Run(job, spec_of(job, widest, cards), Knows.NOTHING if number % tells else knows)
            for number, job in enumerate(jobs)
        ]
        self.outcome = SimulationOutcome([*runs, *more], cards, tells)
        self._active: dict[JobKey, Run] = {}
        # Time, job and version of a start's end or of a job's end. Void if the job's version has changed by then.
        self._events: list[tuple[float, JobKey, int]] = []

    def run(self) -> SimulationOutcome:
        """Replay until the last job has ended; returns the result. Raises BenchError if jobs wait for ever."""
        outcome, tick = self.outcome, self._costs.tick_s
        coming = deque(sorted(outcome.runs, key=lambda run: run.trace.arrival))
        now, plan, unrest = 0.0, Plan(), 0
        while coming or self._active:
            after = min(self._next(coming), now + tick if plan.steps else plan.again)
            if after == inf:
                raise BenchError("jobs wait though nothing runs")
            now = max(now + tick, ceil(after / tick) * tick)
            happened = self._end(now) or now >= plan.again
            while coming and coming[0].trace.arrival <= now:
                run = coming.popleft()
                self._active[run.spec.key] = run
                happened = True
            plan = self._policy(now, [run.state(now) for run in self._active.values()], self._room)
            self._apply(now, plan)
            unrest = (0 if happened else unrest) + bool(plan.steps)
            outcome.rounds += 1
            outcome.rounds_to_rest = max(outcome.rounds_to_rest, unrest)
            held = sum(run.width * run.trace.cards for run in self._active.values())
            outcome.overcommitted += held > outcome.cards
        return outcome

    def _next(self, coming: Sequence[Run]) -> float:
        """The time of the next event: an arrival, or the end of a start or of a job."""
        return min(self._events[0][0] if self._events else inf, coming[0].trace.arrival if coming else inf)

    def _end(self, now: float) -> bool:
        """End the jobs that have done their work by `now`; true if a job ended or became ready."""
        happened = False
        while self._events and self._events[0][0] <= now:
            at, key, version = heapq.heappop(self._events)
            run = self._active.get(key)
            if run is None or version != run.version:
                continue
            happened = True
            if at >= run.ends:
                self._room.give(run.spec, run.end())
                if run.width:
                    self._await(run)
                else:
                    del self._active[key]
        return happened

    def _apply(self, now: float, plan: Plan) -> None:
        """Carry out a plan; a job that takes cards of other jobs starts after these jobs have drained."""
        admitted = {step.job for step in plan.steps if isinstance(step, (Admit, Window))}
        drain, start = self._costs.drain_s, self._costs.start_s
        for step in plan.steps:
            if isinstance(step, Refuse):
                raise BenchError(f"{step}: not in a trace")
            run = self._active[step.job]
            if isinstance(step, (Admit, Window)):
                width = step.width if isinstance(step, Admit) else step.parallelism
                run.resize(now, width, drain if any(plan.given(step.job)) else 0.0, start)
            else:
                after = 0 if isinstance(step, Suspend) else step.after
                shrinks = after < run.width
                self.outcome.useless_shrinks += shrinks and step.beneficiary not in admitted
                run.resize(now, after, drain if shrinks else 0.0, start)
            if run.width:
                self.outcome.outside += not run.spec.least <= run.width <= run.spec.most
                self._await(run)

    def _await(self, run: Run) -> None:
        """Add two events: the job is ready; the job, or one of its sub-tasks, ends."""
        heapq.heappush(self._events, (run.ready, run.spec.key, run.version))
        heapq.heappush(self._events, (run.ends, run.spec.key, run.version))


def spec_of(job: TraceJob, widest: int, cards: int) -> JobSpec:
    """The specification of a trace's job: widths up to `widest` times `asked`, or only `asked` for a rigid job."""
    return JobSpec(
        key=("bench", job.name), uid=job.name, asked=job.asked, least=job.asked if job.rigid else 1,
        most=job.asked if job.rigid else min(widest * job.asked, cards // job.cards), cards=float(job.cards),
        request=PodRequest("", (("main", Request(FAMILY, whole=job.cards)),)),
        expected_seconds=job.declared, created=job.arrival,
    )  # fmt: skip
