"""One round of the job engine: makes a plan from the time, the jobs and the room of one pool.

1. Refuse jobs that can never run.
2. Shrink jobs while more cards are in use than allowed, and jobs that have more replicas than their goal needs.
3. Admit waiting jobs: on free cards, by making room, or later behind a reservation.
4. Widen running jobs that need more replicas for their goal.
5. Grow jobs onto cards that are still idle.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import inf

from device_plugin.core.jobs import elastic
from device_plugin.core.jobs.delay import Delays
from device_plugin.core.jobs.goals import narrow_to_goals, widen_to_goals
from device_plugin.core.jobs.groups import group_problem
from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.plan import Draft, Plan
from device_plugin.core.jobs.queue import (
    Unit,
    due,
    due_at,
    in_turn,
    lately_changed,
    ordered,
    priority,
    waits,
    with_widest,
    yielded_to_at,
)
from device_plugin.core.jobs.rank import (
    attained_work,
    expected_work,
    kept_until,
    level,
    next_level_at,
    turn_end,
)
from device_plugin.core.jobs.rearrange import Rearrangement, fits
from device_plugin.core.jobs.reservation import Reservations
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.shares import Shares
from device_plugin.core.jobs.split import SplitTurns, first_parts, split_problem

BEHIND_HIGHER = "its work begins again when it starts, and a job of higher priority waits"
BEYOND_SHARE = (
    "its queue has its share of cards by jobs that may not be stopped, and jobs of other queues wait"
)
BEHIND_ITS_OWN = "it waits for other jobs of its group or split"
# Known remaining work may change the order of jobs at any time, so rounds compare the jobs again after this many
# seconds.
COMPARED_S = 600.0


def plan_round(now: float, jobs: Iterable[JobState], room: Room, rules: Rules) -> Plan:
    """The plan (changes of jobs) of one round; `room` must hold all replicas that hold cards now.

    Afterwards `room` holds the replicas of the plan.
    """
    draft = Draft(now, with_widest(jobs), room, rules.use)
    _refuse(draft)
    elastic.shrink_to_use(draft)
    narrow_to_goals(draft, rules)
    admission = _Admission(draft, rules)
    admission.run()
    widen_to_goals(draft, rules)
    elastic.grow(draft, rules)
    admission.end()
    return draft.plan(_again(draft, rules))


def _refuse(draft: Draft) -> None:
    """Refuse jobs that contradict others of their group or split (sub-tasks), or that would not fit if nothing ran.

    A job that has run before is not refused. Closed cards count as open cards here.
    """
    problems = _problems(draft.jobs.values(), draft.room)
    for job in draft.jobs.values():
        if job.queued and job.phase is not JobPhase.STOPPED:
            problem = problems.get(job.spec.key) or _too_small(draft.room, job.spec)
            if problem:
                draft.refuse(job, problem)


def _too_small(room: Room, job: JobSpec) -> str:
    """The reason why a job would not fit even if all cards were open and nothing else ran; empty if it would fit."""
    # The open cards are compared first, because they are nearly always enough.
    if room.capacity(job) >= job.least or (most := room.capacity(job, closed=True)) >= job.least:
        return ""
    if most:
        text = f"needs {job.least} replicas, and {most} fit even if nothing else runs: ask for fewer"
    else:
        text = "no node could hold one replica even if nothing else ran: ask for less"
    limits = room.limits(job)
    return f"{text}, or for other nodes: {limits}" if limits else text


def _problems(jobs: Iterable[JobState], room: Room) -> Mapping[JobKey, str]:
    """An error text for each job whose group or split (job of sub-tasks) has Jobs that contradict each other.

    The Jobs of a group also get a text if even an empty pool could not hold all of them together.
    """
    groups: dict[tuple[str, str], list[JobSpec]] = {}
    splits: dict[tuple[str, str], list[JobSpec]] = {}
    for job in jobs:
        namespace, spec = job.spec.key[0], job.spec
        if spec.group:
            groups.setdefault((namespace, spec.group), []).append(spec)
        if spec.split_of:
            splits.setdefault((namespace, spec.split_of), []).append(spec)
    found = [(members, group_problem(members) or _too_large(members, room)) for members in groups.values()]
    found += [(members, split_problem(members)) for members in splits.values()]
    return {spec.key: problem for members, problem in found if problem for spec in members}


def _too_large(group: Sequence[JobSpec], room: Room) -> str:
    """The reason, as text, why all cards together could not hold a group's Jobs; empty if they might.

    It is assumed that nothing else runs, and that closed cards are open. The text is also empty if one Job alone is too
    large, because that Job gets a text of its own.
    """
    if len(group) < 2 or room.may_hold(group) or room.may_hold(group, closed=True):
        return ""
    if any(room.capacity(job, closed=True) < job.least for job in group):
        return ""
    return (
        f"the Jobs of group {group[0].group} need more cards together than all nodes have: write smaller minima, or ask"
        " for less"
    )


class _Admission:
    """Admits the waiting jobs of one round, on free cards or on cards that other jobs give, or keeps cards for them."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        self._rearrangement = Rearrangement(draft, rules)
        self._reservations = Reservations(draft, rules, Delays(draft, rules), self._rearrangement.may_stop)
        self._shares = Shares(draft, rules)
        # The queues with a due job that does not fit. No room is made for sub-tasks of such a queue, because the due
        # job would get their cards in the next round.
        self._late = set[str]()

    def run(self) -> None:
        """Admit all jobs that may start, and reserve cards for due jobs that do not fit, or record why not."""
        left = self._some(ordered(self._draft.jobs.values(), self._draft.now, self._rules))
        if self._rearrangement.made:
            # Jobs that gave way may have freed more cards than needed.
            started = self._reservations.start(self._may_start)
            for unit in started:
                self._shares.admitted(unit)
            splits = [unit for unit in started if waits(self._draft, unit[0])]
            self._some(sorted((*splits, *left), key=lambda unit: -priority(unit)))
        for key, job in self._draft.jobs.items():
            if self._draft.width(job):
                self._draft.unreserved.pop(key, None)
            answered = key in self._draft.refused or key in self._draft.reserved
            if not answered and _due((job,), self._draft, self._rules):
                self._draft.unreserved.setdefault(key, BEHIND_ITS_OWN)

    def end(self) -> None:
        """Release the reserved cards in the room, because the plan is made; the next round reserves them again."""
        self._reservations.end()

    def _some(self, units: Sequence[Unit]) -> Sequence[Unit]:
        """Admit the units (jobs that start together) that fit, on free cards or by making room; returns the others.

        Cards are reserved for a due unit that does not fit.
        """
        draft, rules = self._draft, self._rules
        left, hopeless, given = list[Unit](), set[object](), False
        splits = SplitTurns(draft.jobs.values(), _startable(draft))
        for unit in splits.in_order(in_turn(draft, units, rules)):
            if not self._may_start(unit):
                continue
            if given and left and priority(left[0]) > priority(unit):
                # If more cards were freed than needed, units of higher priority are tried again before this one.
                left, given = list(self._some(left)), False
            if not splits.may_start(unit) or _too_scarce(draft, unit, rules) or self._must_wait(unit, left):
                left.append(unit)
                continue
            kind = _kind(unit, draft, rules)
            if kind not in hopeless and (fits(draft, unit) or self._reservations.backfill(unit)):
                self._shares.admitted(unit)
                continue
            hopeful = kind not in hopeless and not (unit[0].spec.parts and unit[0].spec.queue in self._late)
            if hopeful and self._rearrangement.admit(unit, partial(self._beside, units, unit)):
                self._shares = Shares(draft, rules)
                self._reservations.end_answered(self._rearrangement.stopped)
                given = True
                continue
            splits.not_started(unit)
            if _due(unit, draft, rules):
                self._late.add(unit[0].spec.queue)
                self._reservations.reserve(unit)
            else:
                hopeless.add(kind)
                left.append(unit)
        return left

    def _may_start(self, unit: Unit) -> bool:
        """False for a unit (jobs that start together) that cannot be admitted in this round.

        One of its jobs is refused, all of them are admitted already, or its group or split (a job of sub-tasks) gives
        cards to other jobs.
        """
        if any(job.spec.key in self._draft.refused for job in unit) or self._rearrangement.stopped(unit):
            return False
        return any(not self._draft.width(job) or job.spec.parts for job in unit)

    def _must_wait(self, unit: Unit, left: Sequence[Unit]) -> bool:
        """True if a unit (jobs that start together) must wait although there may be room for it.

        A unit that lost its work when it was stopped waits behind units of higher priority (`left`: not admitted yet),
        because it could be stopped again. A unit also waits while its queue's share of the cards is held by jobs that
        nobody may stop. The reason is recorded for each job of the unit that is due (has waited too long).
        """
        why = ""
        if left and priority(left[0]) > priority(unit) and self._begins_anew(unit):
            why = BEHIND_HIGHER
        elif self._shares.exceeded(unit):
            why = BEYOND_SHARE
        for job in unit if why else ():
            if _due((job,), self._draft, self._rules):
                self._draft.unreserved[job.spec.key] = why
        return why != ""

    def _begins_anew(self, unit: Unit) -> bool:
        """True for a unit of jobs, one of which was stopped for another job and lost its work (it is not resumable)."""
        return any(job.displaced and not self._rules.may_stop(job.spec) for job in unit)

    def _beside(self, units: Sequence[Unit], unit: Unit) -> Iterator[Unit]:
        """Yields the other units (jobs that start together) that may be admitted together with `unit`, in their order.

        If the caller admits a yielded unit, the share of its queue includes it before the next unit is yielded.
        """
        shares = self._shares.after(unit)
        for other in units:
            spec = other[0].spec
            if other is unit or spec.parts or spec.split_of or not self._may_start(other):
                continue
            if not shares.exceeded(other) and not self._begins_anew(other):
                yield other
                if self._draft.width(other[0]):
                    shares.admitted(other)


def _startable(draft: Draft) -> Iterator[JobState]:
    """The waiting jobs that are neither admitted nor refused in this draft of a plan."""
    for key, job in draft.jobs.items():
        if job.queued and not draft.widths[key] and key not in draft.refused:
            yield job


def _too_scarce(draft: Draft, unit: Unit, rules: Rules) -> bool:
    """True for a job of sub-tasks that has not begun, and has room for fewer sub-tasks than it needs to begin."""
    job = unit[0]
    if not job.spec.parts or draft.width(job):
        return False
    needed = first_parts(job, draft.now, rules)
    return needed > 1 and draft.room.free(job.spec) < needed


def _kind(unit: Unit, draft: Draft, rules: Rules) -> object:
    """A key of a unit (jobs that start together): if it cannot be admitted, no unit with the same key can.

    So only the first of these units is tried. The user is part of the key, because each user has a search budget of his
    own.
    """
    # Attained work is compared only between queues.
    others = len(draft.cards_of) > 1
    return tuple(
        (job.spec.asks, job.spec.user, job.spec.least, job.spec.priority, job.spec.preempts,
         job.spec.queue,
         job.phase, due(job, draft.now, rules), lately_changed(job, draft.now, rules), level(expected_work(job), rules),
         level(attained_work(job), rules) if others else 0)
        for job in unit
    )  # fmt: skip


def _due(unit: Unit, draft: Draft, rules: Rules) -> bool:
    """True if a job of the unit is due (has waited too long) and has no cards in this draft of a plan."""
    return any(due(job, draft.now, rules) and not draft.width(job) for job in unit)


def _again(draft: Draft, rules: Rules) -> float:
    """The earliest time at which another round may make another plan, although no job and no card has changed."""
    waiting = any(waits(draft, job) and key not in draft.refused for key, job in draft.jobs.items())
    changes = _turns if waiting else _growths
    times = (time for job in draft.jobs.values() for time in changes(draft, job, rules))
    again = min((time for time in times if time > draft.now), default=inf)
    # The longer a due job waits, the more idle cards its reservation may cost.
    return min(again, draft.now + COMPARED_S) if draft.unreserved else again


def _growths(draft: Draft, job: JobState, rules: Rules) -> Iterator[float]:
    """Yields the time from which a running job may grow, unless it has its most replicas; used while no job waits."""
    if 0 < draft.width(job) < job.spec.most:
        yield job.resized + rules.cooldown_s


def _turns(draft: Draft, job: JobState, rules: Rules) -> Iterator[float]:
    """The times at which a job becomes due (has waited too long), or may be shrunk or stopped; used while jobs wait."""
    if lately_changed(job, draft.now, rules):
        yield yielded_to_at(job, rules)
    if not draft.width(job):
        yield due_at(job, rules)
    elif job.running:
        yield job.since + rules.due_quantum_s
        yield job.since + rules.quantum_s
        yield turn_end(job, rules)
        yield kept_until(job, rules)
        yield kept_until(job, rules, due=True)
        yield kept_until(job, rules, willing=False)
        yield job.started + rules.narrow_s
        yield next_level_at(job, draft.now, rules) if job.remaining is None else draft.now + COMPARED_S
