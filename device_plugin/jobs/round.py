"""Rounds: make a plan, and send the writes that the plan and the changes under way (`vgpu.io/resize` records) need.

A round follows each change of a Job, a change of pods or nodes (at most every TICK_SECONDS), and a deadline. It ends
when no write is due or allowed, when a write fails, or when the Jobs were read MOST_LOOKS times. A step without a
reason for a round costs one comparison.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import inf

from device_plugin.core.jobs.closed import waiting_for_closed
from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.forecast import starts
from device_plugin.core.jobs.groups import waiting_for_others
from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.plan import Admit, Plan
from device_plugin.core.jobs.rates import Rates
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.sizing import Short, with_widths
from device_plugin.jobs.execute.executor import Executor
from device_plugin.jobs.execute.new_records import ASK_SECONDS
from device_plugin.jobs.execute.sender import FRESH_SECONDS, Sender
from device_plugin.jobs.execute.writes import Write, answer_by
from device_plugin.jobs.plan.fork import Fork, Free
from device_plugin.jobs.plan.rate_learning import RateLearning
from device_plugin.jobs.plan.states import eased, round_input
from device_plugin.jobs.ports import Holdings
from device_plugin.jobs.stages import UNDER_WAY, held_groups, stages, wanted
from device_plugin.state.creations import FailedCreations
from device_plugin.state.managed import Managed, ManagedJobs

# Seconds between two rounds of which the later one follows only a change of pods and nodes.
TICK_SECONDS = 5.0
# Times that one round reads the Jobs. A change takes three; more mean that something else writes all the time.
MOST_LOOKS = 6
# Plans of one round that try jobs on free cards, though other Jobs were asked to give way to them.
MOST_TRIED = 2


@dataclass(frozen=True, slots=True)
class Round:
    """The latest round: its time, the states of the Jobs, the plan, and the `seconds` that the plan took.

    The mappings below are by job:

    - `short`: smaller alternatives for a job with a goal that does not fit.
    - `refused`: why no width can be found for a job with a goal.
    - `uncreated`: why the API server refuses a job's pods.
    - `starts`: when a job at the head of its queue is expected to have room.
    - `closed`: the closed cards that a job waits for.
    - `missing`: the Jobs that a group lacks.
    - `unsized` and `silent` are for a job with a goal that starts with the width written by its author. `unsized`: when
      it will get the width that its goal needs. `silent`: why it will not get it.
    """

    at: float = -inf
    states: Mapping[JobKey, JobState] = field(default_factory=dict)
    plan: Plan = field(default_factory=Plan)
    seconds: float = 0.0
    short: Mapping[JobKey, Short] = field(default_factory=dict)
    refused: Mapping[JobKey, str] = field(default_factory=dict)
    uncreated: Mapping[JobKey, str] = field(default_factory=dict)
    starts: Mapping[JobKey, float] = field(default_factory=dict)
    closed: Mapping[JobKey, str] = field(default_factory=dict)
    missing: Mapping[JobKey, str] = field(default_factory=dict)
    unsized: Mapping[JobKey, str] = field(default_factory=dict)
    silent: Mapping[JobKey, str] = field(default_factory=dict)


class Rounds:
    """Plans and executes rounds of Jobs. One thread calls `step`.

    `clock` is a monotonic clock, in seconds; `wall` returns the seconds since 1970, as the times in records are.
    """

    def __init__(
        self, known: ManagedJobs, holdings: Holdings, sender: Sender, creations: FailedCreations,
        leads: Callable[[], bool], clock: Callable[[], float], wall: Callable[[], float], rules: Rules,
        rates: Rates | None = None,
    ) -> None:  # fmt: skip
        self._known = known
        self._holdings = holdings
        self._sender = sender
        self._creations = creations
        self._leads = leads
        self._clock = clock
        self._wall = wall
        self._rules = rules
        self._learning = RateLearning(known, holdings, rates or Rates())
        self._fork = Fork(holdings)
        self._seen: tuple[int, object] = (-1, None)
        self._next = -inf
        self.last = Round()

    def why_not(self) -> str:
        """The reason why this replica does not plan these Jobs, as text; empty if it plans them."""
        missing = [why for why in (self._known.why_not_synced(), self._holdings.why_not_synced()) if why]
        return "; ".join(missing) or ("" if self._leads() else "another replica holds the Lease")

    @property
    def rules(self) -> Rules:
        """The parameters of this engine's plans."""
        return self._rules

    def rates(self, namespace: str) -> Rates:
        """The rates by which Jobs of the namespace are sized: the operator's, and those learnt from its Jobs."""
        return self._learning.rates(namespace)

    def limits(self, job: JobSpec) -> str:
        """A sentence that names the constraints which keep pods of the job from some nodes; empty without any."""
        return self._holdings.nodes().limits(job.nodes)

    def step(self) -> None:
        """Plan and execute a round, if this replica leads and a round is due.

        Before, the Jobs whose last write has an unclear result are read again; until that succeeds there is no round.
        """
        if self.why_not() or not self._sender.certain():
            self._seen = (-1, None)
            return
        if self._learning.look(self._wall()) and self.last.unsized:
            self._next = -inf
        changes, ledger = self._known.changes, (self._holdings.snapshot(), self._holdings.nodes())
        now = self._wall()
        changed = changes != self._seen[0] or (ledger != self._seen[1] and now >= self.last.at + TICK_SECONDS)
        if not changed and now < self._next and self._clock() < self._creations.next:
            return
        self._seen = changes, ledger
        jobs = self._known.managed()
        uncreated = self._creations.look(jobs.values())
        self._fork.begin(jobs.values())
        plan = self._planned(now, _with_refusals(jobs, uncreated), uncreated)
        cut = self._fork.search.cut
        # The trials of changes have a budget of their own, so that a plan that used up its budget does not delay them.
        self._fork.begin(jobs.values())
        done = self._carried_out(plan)
        jobs = self._known.managed()
        cut |= self._fork.search.cut
        again = now if cut else min(plan.again, self._deadline(jobs))
        self._next = again if done else now + 1.0

    def _planned(self, now: float, jobs: Mapping[JobKey, Managed], uncreated: Mapping[JobKey, str]) -> Plan:
        began = self._clock()
        last = self._tried(now, jobs, uncreated, eased(now, jobs, self._fork))
        self.last = replace(last, seconds=self._clock() - began)
        return self.last.plan

    def _tried(
        self, now: float, jobs: Mapping[JobKey, Managed], uncreated: Mapping[JobKey, str],
        without: Collection[JobKey],
    ) -> Round:  # fmt: skip
        """A round that starts the jobs `without` on free cards, so that no other Job must make room for them.

        One of these jobs may be unable to start, because its cards are kept for another job, or another job comes
        first. Then the round is planned again, and this job waits for the Jobs that were asked to make room for it.
        """
        for _ in range(MOST_TRIED):
            last = self._round(now, jobs, uncreated, without)
            starting = {key for key in without if _starts(last.plan, key)}
            if len(starting) == len(without):
                return last
            without = starting
        return self._round(now, jobs, uncreated, ())

    def _round(
        self, now: float, jobs: Mapping[JobKey, Managed], uncreated: Mapping[JobKey, str],
        without: Collection[JobKey],
    ) -> Round:  # fmt: skip
        seen = round_input(now, jobs, self._fork, without)
        sizing = with_widths(
            seen.states, seen.room, cache(self._learning.rates), self._card_models(seen.states)
        )
        expected = starts(now, sizing.jobs, seen.room, self._rules)
        closed = waiting_for_closed(sizing.jobs, seen.room)
        plan = plan_round(now, sizing.jobs, seen.room, self._rules)
        plan = replace(plan, again=min(plan.again, now + sizing.again))
        refused = (each for each in seen.states if each.spec.key in sizing.refused)
        unsized = [replace(state, phase=JobPhase.REFUSED) for state in refused]
        states = {state.spec.key: state for state in (*sizing.jobs, *unsized)}
        return Round(
            now, states, plan, 0.0, sizing.short, sizing.refused, uncreated, expected, closed,
            waiting_for_others(seen.states), sizing.unsized, sizing.silent,
        )  # fmt: skip

    def _card_models(self, states: Sequence[JobState]) -> Collection[str]:
        """The models of all cards, if a job with a goal needs them to find its number of pods; else empty."""
        if all(state.spec.goal is None for state in states):
            return ()
        inventories = self._holdings.snapshot().inventories().values()
        return {card.model for inventory in inventories for card in inventory.cards}

    def _carried_out(self, plan: Plan) -> bool:
        """Send the writes that are due, and read the Jobs again, until no write is due; true if that was reached.

        False if a write failed or may not be sent yet, or after the Jobs were read MOST_LOOKS times.
        """
        later = _LaterLook(self._known, self._fork, self._clock, self._wall)
        for _ in range(MOST_LOOKS):
            decided, now, uncreated = self._clock(), self._wall(), self.last.uncreated
            jobs = _with_refusals(self._known.managed(), uncreated)
            urgent = any(
                each.unkept or each.misheld or each.stranded(now) or each.unreplaced(now)
                for each in jobs.values()
            )
            if not (plan.steps or uncreated or urgent or self._under_way(jobs)):
                return True
            due = Executor(now, jobs, Free(self._fork, jobs, now)).due(plan)
            writes = [write for write in due if self._sender.may(write)]
            if not writes:
                return not due
            if not self._sender.send(writes, decided, later.holds):
                return False
            plan = Plan()
        return False

    def _under_way(self, jobs: Mapping[JobKey, Managed]) -> bool:
        return any(reached in UNDER_WAY for reached in stages(jobs, self._wall()).values())

    def _deadline(self, jobs: Mapping[JobKey, Managed]) -> float:
        """The next time at which something ends by itself, so that a round is due then.

        This may be the end of a Job's record, of a pause after refused pods, or of a request for a checkpoint. It may
        also be the time by which a pod must have a node, or must have ended.
        """
        now = self._wall()
        records = [managed.record for managed in jobs.values() if managed.record is not None]
        ends = [time for record in records for time in (record.until, record.spared_until)]
        asked = [record for record in records if not record.applied]
        ends += [time for record in asked for time in (record.asked + ASK_SECONDS, answer_by(record))]
        ends += [managed.paused_until for managed in jobs.values()]
        ends += [time for managed in jobs.values() for time in managed.deadlines(now)]
        ends += [
            float(managed.checkpoint.until) for managed in jobs.values() if managed.checkpoint is not None
        ]
        return min((end for end in ends if end > now), default=inf)


class _LaterLook:
    """Decides whether writes that are sent late are still right.

    It reads the Jobs and the free cards again, at most every FRESH_SECONDS. A write is right if it still helps the job
    that gets the cards, and if the replicas that it adds still have room.
    """

    def __init__(
        self, known: ManagedJobs, fork: Fork, clock: Callable[[], float], wall: Callable[[], float]
    ) -> None:
        self._known = known
        self._fork = fork
        self._clock = clock
        self._wall = wall
        self._looked = -inf
        self._jobs: Mapping[JobKey, Managed] = {}
        self._free: Free | None = None

    def holds(self, write: Write) -> bool:
        """True if the write still helps the job that gets the cards, and there is room for the added replicas."""
        free = self._renewed()
        if write.key not in self._jobs or (
            write.frees is not None and not wanted(write.frees, self._jobs, held_groups(self._jobs.values()))
        ):
            return False
        return not write.added or free.take({write.key: write.added})

    def _renewed(self) -> Free:
        """The free cards, read again if they were read more than FRESH_SECONDS ago."""
        if self._free is None or self._clock() > self._looked + FRESH_SECONDS:
            self._looked, self._jobs = self._clock(), self._known.managed()
            self._fork.begin(self._jobs.values())
            self._free = Free(self._fork, self._jobs, self._wall())
        return self._free


def _starts(plan: Plan, job: JobKey) -> bool:
    """True if the plan starts the job, and no other Job must make room for it."""
    return any(isinstance(step, Admit) and step.job == job for step in plan.steps) and not any(
        plan.given(job)
    )


def _with_refusals(
    jobs: Mapping[JobKey, Managed], uncreated: Mapping[JobKey, str]
) -> Mapping[JobKey, Managed]:
    """The Jobs; each Job in `uncreated` has the reason from there as its `refusal`."""
    refused = {key: replace(jobs[key], refusal=why) for key, why in uncreated.items() if key in jobs}
    return {**jobs, **refused} if refused else jobs
