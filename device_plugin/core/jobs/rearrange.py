"""Make room for a job that does not fit: shrink the fewest jobs that suffice, else suspend jobs whose turn is over.

Whatever is planned was tried in the room and undone first. Nobody gives cards to a job of lower priority; among equal
priorities a job of another queue gives only while its queue has more than its share. The Jobs of a group start
together, and so they are suspended together or not at all.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import ceil

from device_plugin.core.jobs.groups import undeclared
from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, due, lately_changed, need, priority, share
from device_plugin.core.jobs.rank import attained_work, expected_work, level, turn_end
from device_plugin.core.jobs.rules import Rules

# Single jobs that are tried before several together, and jobs that are tried to be spared again: each try is a trial.
TRIES = 16
# Jobs of a round for which idle cards may be kept: for each the room is emptied of all others once.
LOOKS = 8
# Shares of cards are added up: less than this is nothing.
EXACT = 1e-9

Offer = tuple[JobState, int]
"""A running job, and a width that it may be left with; 0 if it is suspended."""
JointOffer = tuple[Offer, ...]
"""The offers that are taken together or not at all: that of one job, or those of a group that is suspended."""


class Rearrangement:
    """The running jobs of one round that may give cards, in the order in which they do."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        wide = (job for job in draft.jobs.values() if _narrows(job) and job.width > job.floor)
        self._wide = sorted(
            (job for job in wide if job.spec.cards),
            key=lambda job: (job.spec.priority, -(job.width - job.spec.least) * job.spec.cards, job.spec.key),
        )
        self._ending = list(_endings(draft.jobs.values(), rules))
        # By queue of the jobs that room is made for.
        self._ordered: dict[str, Sequence[_Ending]] = {}
        self._groups = {ending.group: ending for ending in self._ending if ending.group}
        users = {job.spec.user for job in draft.jobs.values() if job.queued or job.extendable}
        self._searches, self._looks = _Budget(rules.searches, users), _Budget(LOOKS, users)
        # What others gave way to in this plan: it does not give in turn, as they would have given for nothing.
        self._helped = set[JobKey]()

    @property
    def made(self) -> bool:
        """True once a job was admitted because others gave way."""
        return bool(self._helped)

    def admit(self, unit: Unit) -> bool:
        """Admit the jobs at their least widths where others give way; false, and nothing changes, if that fails."""
        first = unit[0]
        if first.extendable and lately_changed(first, self._draft.now, self._rules):
            return False
        if not all(job.spec.preempts for job in unit):
            return False
        if not self._searches.take(first.spec.user):
            return False
        largest = _largest(unit)
        lacking = max(0.0, need(unit) - self._draft.room.free(largest) * largest.cards)
        before: list[JointOffer] = []
        for givers in self._givers(unit):
            if givers and self._make(unit, givers, before, lacking):
                self._helped |= {job.spec.key for job in unit}
                return True
            before += givers
        return False

    def could_admit(self, unit: Unit) -> bool:
        """True if the jobs would fit once others have ended or given way; what pods hold that are no jobs stays held.

        Jobs that have run for long and cannot be stopped for the unit are taken to run on, and where their author is
        the unit's after a quantum: idle cards must not be kept for what may never start.
        """
        if not self._looks.take(unit[0].spec.user):
            return False
        draft, left = self._draft, self._left_by_lasting(unit)
        with draft.trial():
            for key, job in draft.jobs.items():
                if draft.width(job) > (least := left.get(key, 0)):
                    draft.narrow(job, least)
            return fits(draft, unit)

    def _left_by_lasting(self, unit: Unit) -> Mapping[JobKey, int]:
        """The widths of the jobs whose end is not in sight; a split keeps its least while it has sub-tasks."""
        draft, rules, claim, user = self._draft, self._rules, self._claim(unit), unit[0].spec.user
        left = {
            job.spec.key: min(draft.width(job), job.spec.least) if job.spec.parts else draft.width(job)
            for job in draft.jobs.values()
            if job.width
            and draft.now >= job.since + (rules.quantum_s if job.spec.user == user else rules.turn_s)
        }
        for ending in self._ending if left else ():
            if self._may_stop(ending, claim):
                for job in ending.jobs:
                    left.pop(job.spec.key, None)
        return left

    def stopped(self, unit: Unit) -> bool:
        """True if running jobs of the unit's group are suspended in this plan: the group starts again whole.

        So is a split that could run more sub-tasks, and gives way.
        """
        if self._draft.narrowed(unit[0]):
            return True
        ending = self._groups.get(_group(unit[0].spec) or ("", ""))
        return ending is not None and not self._draft.width(ending.jobs[0])

    def _givers(self, unit: Unit) -> Iterator[Sequence[JointOffer]]:
        """The jobs that may give, each with the least width that it may be left with: lower priorities come first.

        Jobs shrink before one is suspended, and of each priority before the next: a job that is suspended then finds
        none of a lower priority that could give way to it in turn.
        """
        claim, near = self._claim(unit), self._draft.room.givers([job.spec for job in unit])
        shrinking = [
            job
            for job in self._wide
            if (near is None or job.spec.key in near) and self._may_shrink(job, claim)
        ]
        for lower in (True, False):
            yield [((job, job.floor),) for job in shrinking if (job.spec.priority < claim.priority) is lower]
            # Looked for only where shrinking was not enough: of thousands of jobs this takes milliseconds.
            stopping = [
                ending
                for ending in self._order(claim.queue)
                if (ending.priority < claim.priority) is lower
                and (near is None or any(job.spec.key in near for job in ending.jobs))
                and self._may_stop(ending, claim)
            ]
            for _, each in groupby(stopping, key=lambda ending: ending.priority):
                yield [tuple((job, 0) for job in ending.jobs) for ending in each]

    def _order(self, queue: str) -> "Sequence[_Ending]":
        """The jobs that may be suspended for one of the queue, in the order in which they are."""
        if queue not in self._ordered:
            self._ordered[queue] = sorted(
                self._ending,
                key=lambda each: (
                    each.priority, -each.level_seen_by(queue), each.since, each.jobs[0].spec.key,
                ),
            )  # fmt: skip
        return self._ordered[queue]

    def _make(
        self, unit: Unit, givers: Sequence[JointOffer], before: Sequence[JointOffer], lacking: float
    ) -> bool:
        """Admit the unit where one of `givers` suffices, or several together; those of `before` give first."""
        alone = (giver for giver in givers if self._may_suffice(unit, self._gives(giver), lacking))
        for giver in islice(alone, TRIES):
            if self._apply(unit, [self._kept(giver, lacking)]):
                return True
        chosen = self._together(unit, [*before, *givers], lacking)
        return bool(chosen) and self._apply(unit, self._spared(unit, chosen))

    def _may_suffice(self, unit: Unit, given: float, lacking: float) -> bool:
        """False if this number of cards is too few.

        Free cards are counted in whole replicas, so those of up to one more may be free.
        """
        return given > lacking - _largest(unit).cards + EXACT

    def _gives(self, giver: JointOffer) -> float:
        """The number of cards that the offers release."""
        return sum((self._draft.width(job) - width) * job.spec.cards for job, width in giver)

    def _kept(self, giver: JointOffer, lacking: float) -> JointOffer:
        """The width that a giver keeps: it gives what is needed, and at least a share of its width."""
        (job, floor), *_ = giver
        if not floor:
            return giver
        given = max(ceil(lacking / job.spec.cards - EXACT), ceil(job.width * self._rules.giving), 1)
        return ((job, max(floor, self._draft.width(job) - given)),)

    def _together(self, unit: Unit, givers: Sequence[JointOffer], lacking: float) -> Sequence[JointOffer]:
        """The first givers that suffice together, with what they keep; none if all of them do not."""
        draft, chosen = self._draft, dict[JobKey, JointOffer]()
        most = {job.spec.key: self._gives(((job, width),)) for giver in givers for job, width in giver}
        if not self._may_suffice(unit, sum(most.values()), lacking):
            return ()
        with draft.trial():
            for giver in givers:
                kept = self._kept(giver, lacking)
                lacking -= self._gives(kept)
                for job, width in kept:
                    draft.narrow(job, width, unit[0].spec)
                # What a job gave by shrinking is part of what it gives with its group.
                for job, _ in kept[1:]:
                    chosen.pop(job.spec.key, None)
                chosen[kept[0][0].spec.key] = kept
                if lacking <= EXACT and fits(draft, unit):
                    return list(chosen.values())
            return list(chosen.values()) if fits(draft, unit) else ()

    def _spared(self, unit: Unit, givers: Sequence[JointOffer]) -> Sequence[JointOffer]:
        """The givers without those that turn out not to be needed."""
        for giver in givers[:TRIES]:
            fewer = [other for other in givers if other is not giver]
            with self._draft.trial():
                if fewer and self._give(unit, fewer):
                    givers = fewer
        return givers

    def _apply(self, unit: Unit, givers: Sequence[JointOffer]) -> bool:
        with self._draft.trial() as trial:
            if self._give(unit, givers):
                trial.keep()
        return trial.kept

    def _give(self, unit: Unit, givers: Sequence[JointOffer]) -> bool:
        for giver in givers:
            for job, width in giver:
                self._draft.narrow(job, width, unit[0].spec)
        return _widen(self._draft, unit)

    def _may_shrink(self, job: JobState, claim: "_Claim") -> bool:
        if self._draft.width(job) <= job.floor or job.spec.key in self._helped:
            return False
        if job.spec.priority != claim.priority:
            return job.spec.priority < claim.priority
        if claim.early:
            return False
        # A sub-task begins anew for a job that would wait as long as the split has sub-tasks.
        return (claim.due or not job.spec.parts) and self._shares(job, claim)

    def _may_stop(self, ending: "_Ending", claim: "_Claim") -> bool:
        """True if the running jobs may be suspended for a unit: their turn is over, and their rank is worse."""
        draft = self._draft
        if not draft.width(ending.jobs[0]) or (ending.group and ending.group == claim.group):
            return False
        if any(job.spec.key in self._helped for job in ending.jobs):
            return False
        # Then only a part of the group would be suspended.
        if ending.waiting and any(draft.width(job) for job in ending.waiting):
            return False
        if ending.priority != claim.priority:
            return ending.priority < claim.priority
        # Sub-tasks that are suspended begin anew.
        if (
            claim.early
            or ending.split
            or draft.now < ending.since + self._rules.quantum_s
            or not self._shares(ending.jobs[0], claim)
        ):
            return False
        if claim.due:
            return True
        if claim.ran and draft.now < ending.turn_end:
            return False
        most = claim.level if ending.jobs[0].spec.queue == claim.queue else claim.attained
        return ending.level_seen_by(claim.queue) > most

    def _shares(self, job: JobState, claim: "_Claim") -> bool:
        """True if the job's queue is that of the unit, or has more cards for its weight than the unit's will have."""
        queue = job.spec.queue
        return queue == claim.queue or share(self._draft, queue, self._rules) > claim.share

    def _claim(self, unit: Unit) -> "_Claim":
        draft, rules, first = self._draft, self._rules, unit[0].spec
        return _Claim(
            priority(unit), first.queue, _group(first),
            due=any(due(job, draft.now, rules) for job in unit),
            early=any(lately_changed(job, draft.now, rules) for job in unit),
            ran=all(job.phase is JobPhase.STOPPED or job.extendable for job in unit),
            level=max(level(expected_work(job), rules) for job in unit),
            attained=max(level(attained_work(job), rules) for job in unit),
            share=share(draft, first.queue, rules) + need(unit) / rules.weight(first.queue),
        )  # fmt: skip


class _Budget:
    """How often something may be tried in a round, shared out equally over the users whose jobs wait."""

    def __init__(self, total: int, users: Collection[str]) -> None:
        self._left = total
        self._each = max(1, total // max(1, len(users)))
        self._used = Counter[str]()

    def take(self, user: str) -> bool:
        """True if the user may try once more, which is counted."""
        if self._left <= 0 or self._used[user] >= self._each:
            return False
        self._left -= 1
        self._used[user] += 1
        return True


@dataclass(frozen=True, slots=True)
class _Claim:
    """What decides which running jobs may give way to a unit; it is found once, and compared with thousands of jobs.

    `level` and `attained` are as those of `_Ending`, and `share` the cards that the unit's queue has with it, for each
    unit of its weight. All jobs of a unit that `ran` have run before, as a split that could run more sub-tasks has.
    One that is `early` stopped or began so lately that its equals do not give way to it.
    """

    priority: int
    queue: str
    group: "_Group | None"
    due: bool
    early: bool
    ran: bool
    level: int
    attained: int
    share: float


@dataclass(frozen=True, slots=True)
class _Ending:
    """Running jobs that may be suspended, together or not at all: a single job, or all of `group` that run.

    `waiting` are the jobs of the group that wait. The jobs' priority and levels are the highest, the times the latest.
    `level` is that of the work that they are expected to have left, and `attained` that of the service they have had.
    """

    jobs: Unit
    group: "_Group | None"
    waiting: Sequence[JobState]
    priority: int
    level: int
    attained: int
    since: float
    turn_end: float
    split: bool

    @classmethod
    def of(cls, jobs: Unit, rules: Rules, waiting: Sequence[JobState] = ()) -> "_Ending":
        """The jobs, and what decides when they may be suspended."""
        return cls(
            jobs, _group(jobs[0].spec), waiting,
            priority=max(job.spec.priority for job in jobs),
            level=max(level(expected_work(job), rules) for job in jobs),
            attained=max(level(attained_work(job), rules) for job in jobs),
            since=max(job.since for job in jobs),
            turn_end=max(turn_end(job, rules) for job in jobs),
            split=any(job.spec.parts for job in jobs),
        )  # fmt: skip

    def level_seen_by(self, queue: str) -> int:
        """The level of the jobs as those of a queue count it: what remains is only told to the jobs' own queue."""
        return self.level if queue == self.jobs[0].spec.queue else self.attained


_Group = tuple[str, str]
"""Namespace and name of a group of Jobs."""


def _group(job: JobSpec) -> _Group | None:
    return (job.key[0], job.group) if job.joint else None


def _endings(jobs: Iterable[JobState], rules: Rules) -> Iterator[_Ending]:
    """The jobs that may be suspended. Those of a group may be if all of them may that hold replicas.

    A group of which a Job is missing is left running: it could not start again.
    """
    groups: dict[_Group, list[JobState]] = {}
    for job in jobs:
        if group := _group(job.spec):
            groups.setdefault(group, []).append(job)
        elif job.width and job.spec.cards and _suspendable(job):
            yield _Ending.of((job,), rules)
    for members in groups.values():
        members.sort(key=lambda job: job.spec.key)
        held = tuple(job for job in members if job.width)
        if not any(job.spec.cards for job in held) or undeclared([job.spec for job in members]):
            continue
        if all(map(_suspendable, held)):
            yield _Ending.of(held, rules, [job for job in members if not job.width])


def _narrows(job: JobState) -> bool:
    """True if the width of the running job may be made smaller."""
    return job.adjustable or (job.running and job.spec.parts > 0 and not job.held)


def _suspendable(job: JobState) -> bool:
    """True if the job may be suspended: it is the engine's to do so, and nothing of it is under way."""
    return job.running and not job.held and not job.spec.kueue


def _largest(unit: Unit) -> JobSpec:
    """The job of which one replica takes the most cards."""
    return max((job.spec for job in unit), key=lambda spec: spec.cards)


def fits(draft: Draft, unit: Unit) -> bool:
    """Admit the jobs at their least widths on free cards, or one more sub-task of a split that has some.

    False, and nothing changes, if they do not all fit.
    """
    if len(unit) == 1:
        return _widen(draft, unit)
    with draft.trial() as trial:
        if _widen(draft, unit):
            trial.keep()
    return trial.kept


def _widen(draft: Draft, unit: Unit) -> bool:
    return all(draft.widen(job, max(job.spec.least, draft.width(job) + 1)) for job in unit)
