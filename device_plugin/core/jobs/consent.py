"""Consent: which running jobs may give cards to which waiting ones.

A higher priority never gives to a lower one, and a lower one always may. An equal gives by consent: within its bounds a
job may be made narrower, and a resumable one may be stopped, after its minimum runtime and the turn that it waited for.
Among equals of several queues a job gives only while its queue has more than its share. The Jobs of a group start
together, and so they are stopped together or not at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from device_plugin.core.jobs.groups import undeclared
from device_plugin.core.jobs.job import JobPhase, JobSpec, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, due, lately_changed, need, priority, share
from device_plugin.core.jobs.rank import attained_work, expected_work, kept_until, level, turn_end
from device_plugin.core.jobs.rules import Rules

# A job that a plan has just started is no giver for the next plan, which follows within milliseconds.
JUST_STARTED_S = 1.0

GroupKey = tuple[str, str]
"""Namespace and name of a group of Jobs."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The part of a waiting unit that decides which running jobs may give to it; it is compared with thousands of jobs.

    `level` and `attained` are the unit's levels of expected work and of service, as in `Stoppable`. `share` is the
    cards that its queue has with the unit, for each unit of the queue's weight. All jobs of a `willing` unit consent to
    be stopped for an equal. All jobs of a unit that `ran` have run before, as a split that could run more sub-tasks
    has. An `early` unit stopped or began so lately that its equals do not give way to it.
    """

    priority: int
    queue: str
    group: GroupKey | None
    due: bool
    willing: bool
    early: bool
    ran: bool
    level: int
    attained: int
    share: float

    @classmethod
    def of(cls, unit: Unit, draft: Draft, rules: Rules) -> "Claim":
        """The claim of a unit in this draft."""
        first = unit[0].spec
        return cls(
            priority(unit), first.queue, group_key(first),
            due=any(due(job, draft.now, rules) for job in unit),
            willing=all(rules.may_stop(job.spec) for job in unit),
            early=any(lately_changed(job, draft.now, rules) for job in unit),
            ran=all(job.phase is JobPhase.STOPPED or job.extendable for job in unit),
            level=max(level(expected_work(job), rules) for job in unit),
            attained=max(level(attained_work(job), rules) for job in unit),
            share=share(draft, first.queue, rules) + need(unit) / rules.weight(first.queue),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stoppable:
    """Running jobs that may be stopped, together or not at all: a single job, or all of `group` that run.

    `waiting` are the jobs of the group that wait. The jobs' priority and levels are the highest, the times the latest.
    `level` is that of the work that they are expected to have left, and `attained` that of the service they have had.
    They are `willing` if all of them consent to be stopped for an equal. `unanswered` and `checkpoint_seconds` are of
    their programs.
    """

    jobs: Unit
    group: GroupKey | None
    waiting: Sequence[JobState]
    priority: int
    level: int
    attained: int
    since: float
    turn_end: float
    kept_until: float
    kept_until_due: float
    kept_until_unwilling: float
    split: bool
    willing: bool
    unanswered: bool
    checkpoint_seconds: float

    @classmethod
    def of(cls, jobs: Unit, rules: Rules, waiting: Sequence[JobState] = ()) -> "Stoppable":
        """The jobs, and what decides when they may be stopped."""
        return cls(
            jobs, group_key(jobs[0].spec), waiting,
            priority=max(job.spec.priority for job in jobs),
            level=max(level(expected_work(job), rules) for job in jobs),
            attained=max(level(attained_work(job), rules) for job in jobs),
            since=max(job.since for job in jobs),
            turn_end=max(turn_end(job, rules) for job in jobs),
            kept_until=max(kept_until(job, rules) for job in jobs),
            kept_until_due=max(kept_until(job, rules, due=True) for job in jobs),
            kept_until_unwilling=max(kept_until(job, rules, willing=False) for job in jobs),
            split=any(job.spec.parts for job in jobs),
            willing=all(rules.may_stop(job.spec) for job in jobs),
            unanswered=any(job.unanswered for job in jobs),
            checkpoint_seconds=max(job.spec.checkpoint_seconds for job in jobs),
        )  # fmt: skip

    def level_seen_by(self, queue: str) -> int:
        """The level of the jobs as those of a queue count it; what remains counts in the jobs' own queue only."""
        return self.level if queue == self.jobs[0].spec.queue else self.attained


def may_shrink(job: JobState, claim: Claim, draft: Draft, rules: Rules) -> bool:
    """True if a running job may be made narrower for the claim."""
    if draft.width(job) <= job.floor:
        return False
    if job.spec.priority != claim.priority:
        return job.spec.priority < claim.priority
    if (
        claim.early
        or draft.now < kept_until(job, rules, due=claim.due)
        or draft.now < job.started + max(rules.young_s, JUST_STARTED_S)
    ):
        return False
    # An ended sub-task begins again. A split accepts that only for a due job, which would else wait until all sub-tasks
    # are done.
    return (claim.due or not job.spec.parts) and _shares(job, claim, draft, rules)


def may_stop(running: Stoppable, claim: Claim, draft: Draft, rules: Rules) -> bool:
    """True if running jobs may be stopped for the claim: an equal's turn is over, and its rank is worse."""
    if not draft.width(running.jobs[0]) or (running.group and running.group == claim.group):
        return False
    # Then only a part of the group would be stopped.
    if any(draft.width(job) for job in running.waiting):
        return False
    if running.priority != claim.priority:
        return running.priority < claim.priority
    # Sub-tasks that are stopped begin again.
    if not running.willing or claim.early or running.split:
        return False
    if claim.due:
        kept = running.kept_until_due if claim.willing else running.kept_until_unwilling
        enough = draft.now >= max(running.since + rules.due_quantum_s, kept)
        return enough and _shares(running.jobs[0], claim, draft, rules)
    if draft.now < max(running.since + rules.quantum_s, running.kept_until):
        return False
    if not _shares(running.jobs[0], claim, draft, rules):
        return False
    if claim.ran and draft.now < running.turn_end:
        return False
    most = claim.level if running.jobs[0].spec.queue == claim.queue else claim.attained
    return running.level_seen_by(claim.queue) > most


def _shares(job: JobState, claim: Claim, draft: Draft, rules: Rules) -> bool:
    """True if the job's queue is that of the claim, or has more cards for its weight than the claim's will have."""
    queue = job.spec.queue
    return queue == claim.queue or share(draft, queue, rules) > claim.share


def stoppable(jobs: Iterable[JobState], rules: Rules) -> Iterator[Stoppable]:
    """The running jobs that may be stopped. A group may be stopped if all of its jobs that hold replicas may be.

    A group of which a Job is missing is left running: it could not start again.
    """
    groups: dict[GroupKey, list[JobState]] = {}
    for job in jobs:
        if group := group_key(job.spec):
            groups.setdefault(group, []).append(job)
        elif job.width and job.spec.cards and _suspendable(job):
            yield Stoppable.of((job,), rules)
    for members in groups.values():
        members.sort(key=lambda job: job.spec.key)
        held = tuple(job for job in members if job.width)
        if not any(job.spec.cards for job in held) or undeclared([job.spec for job in members]):
            continue
        if all(map(_suspendable, held)):
            yield Stoppable.of(held, rules, [job for job in members if not job.width])


def narrows(job: JobState) -> bool:
    """True if the width of the running job may be made smaller."""
    return job.adjustable or (job.running and job.spec.parts > 0 and not job.held)


def _suspendable(job: JobState) -> bool:
    """True if the job may be suspended: it is the engine's to do so, and nothing of it is under way."""
    return job.running and not job.held and not job.spec.kueue


def group_key(job: JobSpec) -> GroupKey | None:
    """The group that the Job names; None if its pods alone do, or none."""
    return (job.key[0], job.group) if job.joint else None
