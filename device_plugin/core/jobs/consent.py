"""Consent: decides which running jobs may give cards to which waiting jobs.

- A running job of higher priority never gives cards; one of lower priority always may.
- A running job of equal priority may be made narrower within its bounds. It may be stopped if it is resumable, its
  minimum runtime is over, and its turn is over.
- A running job gives to a job of equal priority in another queue only while its own queue has more cards, in proportion
  to its weight, than the other queue.
- The Jobs of a group start together, so they are stopped together or not at all.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from device_plugin.core.jobs.groups import undeclared
from device_plugin.core.jobs.job import GroupKey, JobPhase, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, due, lately_changed, need, priority, share
from device_plugin.core.jobs.rank import attained_work, expected_work, kept_until, level, turn_end
from device_plugin.core.jobs.rules import Rules


@dataclass(frozen=True, slots=True)
class Claim:
    """The facts about a waiting unit (jobs that start together) that decide which running jobs may give cards to it.

    They are computed once, and compared with thousands of jobs.

    - `level` and `attained` are the levels (powers of two) of the unit's expected work and of its past service.
    - `share` is the number of cards that the unit's queue would have with the unit, divided by the queue's weight.
    - `willing`: all jobs of the unit consent to be stopped for a job of equal priority.
    - `ran`: each job of the unit has run before, or is a split (a job of sub-tasks) that could run more sub-tasks.
    - `early`: a job of the unit was stopped, or is a split that was started or resized, less than `cooldown_s` seconds
      ago. Jobs of equal priority do not give way to the unit yet.
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
        """The facts about `unit`, jobs that start together, that decide which running jobs may give cards to it.

        `draft` is the plan of the round as it is now.
        """
        first = unit[0].spec
        return cls(
            priority(unit), first.queue, first.group_key,
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
    """Running jobs that may be stopped together: a single job, or all running jobs of `group`.

    `waiting` are the waiting jobs of the group. If there are several jobs, `priority`, `level` and `attained` are the
    highest values of them, and each time is the latest.

    - `since` is the start of their run. At `turn_end` their turn ends, the time in which they give no cards to jobs
      that ran before.
    - Until `kept_until` they give nothing to a waiting job of their priority. If the waiting job is due (has waited too
      long), `kept_until_due` holds instead. If it is due and does not consent to be stopped itself,
      `kept_until_unwilling` holds.
    - `level` is the work that they are expected to have left, as a power of two; `attained` is their past service,
      likewise.
    - `split`: one of them is a split, a job of many sub-tasks. `willing`: all of them consent to be stopped for a job
      of equal priority.
    - `unanswered`: one of their programs has not answered a request for a checkpoint. `checkpoint_seconds` is the
      longest time that one of them needs for a checkpoint.
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
        """The facts about the running `jobs` that decide when these may be stopped together.

        `waiting` are the waiting jobs of the same group.
        """
        return cls(
            jobs, jobs[0].spec.group_key, waiting,
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
        """The level (a power of two) of these jobs that counts in a comparison with jobs of `queue`.

        If `queue` is their own queue, it is the level of their remaining work, else the level of their past service.
        """
        return self.level if queue == self.jobs[0].spec.queue else self.attained


def may_shrink(job: JobState, claim: Claim, draft: Draft, rules: Rules) -> bool:
    """True if a running job may be made narrower for the waiting jobs that `claim` (facts about them) describes.

    True if the waiting jobs have a higher priority, false if they have a lower one. At equal priority all of these must
    hold:

    - The claim is not `early`: the waiting jobs were not stopped or resized a short time ago.
    - The running job is past `kept_until`, the time until which it keeps its cards, and has run for `narrow_s` seconds.
    - Both are of one queue, or the job's queue has more cards in proportion to its weight.
    - The running job is no split (a job of sub-tasks), or the claim is due (has waited too long).

    Always false for a job that has its least width (`floor`) already.
    """
    if draft.width(job) <= job.floor:
        return False
    if job.spec.priority != claim.priority:
        return job.spec.priority < claim.priority
    if (
        claim.early
        or draft.now < kept_until(job, rules, due=claim.due)
        or draft.now < job.started + rules.narrow_s
    ):
        return False
    # A stopped sub-task loses its work. A split accepts that only for a due job, which would otherwise wait until all
    # sub-tasks are done.
    return (claim.due or not job.spec.parts) and _shares(job, claim, draft, rules)


def may_stop(running: Stoppable, claim: Claim, draft: Draft, rules: Rules) -> bool:
    """True if these running jobs may be stopped for the waiting jobs that `claim` (facts about them) describes.

    True if the waiting jobs have a higher priority, false if they have a lower one. At equal priority all of these must
    hold:

    - The running jobs are `willing`, and none is a split (a job of sub-tasks). The claim is not `early`.
    - Both are of one queue, or the running jobs' queue has more cards in proportion to its weight.
    - The running jobs are past the time until which they keep their cards (`kept_until`), and have run for `quantum_s`
      seconds. For a due claim, half of `quantum_s` is enough.
    - If the claim is not due, the running jobs have a higher level than the claim. If it also `ran` before, their turn
      is over.

    Always false for jobs that this draft stops already, for jobs of the claim's own group, and for a group of which
    this draft starts a job.
    """
    if not draft.width(running.jobs[0]) or (running.group and running.group == claim.group):
        return False
    # A waiting job of the group has just been admitted in this draft: only a part of the group would be stopped.
    if any(draft.width(job) for job in running.waiting):
        return False
    if running.priority != claim.priority:
        return running.priority < claim.priority
    # Stopped sub-tasks of a split lose their work.
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
    """True if the queues of the running job and of `claim` (waiting jobs) let the job give cards to the claim.

    They are of one queue, or the job's queue has more cards, divided by its weight, than the claim's queue would have
    with the claim.
    """
    queue = job.spec.queue
    return queue == claim.queue or share(draft, queue, rules) > claim.share


def stoppable(jobs: Iterable[JobState], rules: Rules) -> Iterator[Stoppable]:
    """The running jobs that may be stopped: single jobs, and groups whose running jobs may all be stopped.

    A group with a missing Job is not stopped, because it could not start again.
    """
    groups: dict[GroupKey, list[JobState]] = {}
    for job in jobs:
        if group := job.spec.group_key:
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
    """True if the width of the running job may be made smaller now.

    The job must be elastic or a split (a job of sub-tasks), and its width must not be fixed.
    """
    return job.adjustable or (job.running and job.spec.parts > 0 and not job.held)


def _suspendable(job: JobState) -> bool:
    """True if the job may be stopped: it runs, no change of it is under way, and the engine decides when it runs."""
    return job.running and not job.held and not job.spec.kueue
