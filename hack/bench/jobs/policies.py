"""The policies that are compared: the job engine, and the rules that it replaces."""

import heapq
from collections.abc import Sequence
from functools import partial

from device_plugin.core.jobs.elastic import score
from device_plugin.core.jobs.engine import plan_round
from device_plugin.core.jobs.job import JobSpec, JobState
from device_plugin.core.jobs.plan import Draft, Plan
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.rules import Rules
from hack.bench.jobs.simulation import Knows, Policy


def fifo_skip(now: float, jobs: Sequence[JobState], room: Room) -> Plan:
    """Start each job at the width it asks for, in order of arrival; a job that does not fit is skipped."""
    draft = Draft(now, jobs, room)
    for job in sorted(_waiting(jobs), key=lambda job: (job.spec.created, job.spec.key)):
        draft.widen(job, job.spec.asked)
    return draft.plan()


def smallest_first(now: float, jobs: Sequence[JobState], room: Room) -> Plan:
    """Start each job at the width it asks for, the narrowest job first: the bare rules Q1, Q3 and Q4."""
    draft = Draft(now, jobs, room)
    for job in sorted(_waiting(jobs), key=lambda job: (job.spec.asked, job.spec.created, job.spec.key)):
        draft.widen(job, job.spec.asked)
    return draft.plan()


def elastic_score(now: float, jobs: Sequence[JobState], room: Room) -> Plan:
    """Shrink jobs by score while jobs wait, otherwise grow jobs by score: the bare rules E2 and E4 to E7.

    It suspends no job, has no cooldown, and changes a width even by one replica.
    """
    draft = Draft(now, jobs, room)
    waiting = sorted(_waiting(jobs), key=lambda job: (job.spec.created, job.spec.key))
    adjustable = [job for job in draft.jobs.values() if job.adjustable]
    if waiting:
        lacking = sum(job.spec.least_cards for job in waiting) - room.idle()
        _shrink(draft, adjustable, lacking, waiting[0].spec)
    admitted = [draft.widen(job, job.spec.least) for job in waiting]
    if all(admitted) and not any(draft.narrowed(job) for job in adjustable):
        _grow(draft, adjustable)
    return draft.plan()


def _shrink(draft: Draft, jobs: Sequence[JobState], lacking: float, beneficiary: JobSpec) -> None:
    giving = [(-score(job, job.width), job.spec.key) for job in jobs if job.width > job.spec.least]
    heapq.heapify(giving)
    while giving and lacking > 0:
        job = draft.jobs[heapq.heappop(giving)[1]]
        width = draft.width(job) - 1
        draft.narrow(job, width, beneficiary)
        lacking -= job.spec.cards
        if width > job.spec.least:
            heapq.heappush(giving, (-score(job, width), job.spec.key))


def _grow(draft: Draft, jobs: Sequence[JobState]) -> None:
    growing = [(score(job, job.width), job.spec.key) for job in jobs if job.width < job.spec.most]
    heapq.heapify(growing)
    while growing:
        job = draft.jobs[heapq.heappop(growing)[1]]
        if not draft.widen(job, draft.width(job) + 1):
            return
        if draft.width(job) < job.spec.most:
            heapq.heappush(growing, (score(job, draft.width(job)), job.spec.key))


def _waiting(jobs: Sequence[JobState]) -> list[JobState]:
    return [job for job in jobs if job.queued]


BASE = "fifo-skip"
ENGINE: Policy = partial(plan_round, rules=Rules())
POLICIES: dict[str, tuple[Policy, Knows]] = {
    BASE: (fifo_skip, Knows.NOTHING),
    "elastic-score": (elastic_score, Knows.NOTHING),
    "smallest-first": (smallest_first, Knows.NOTHING),
    "engine": (ENGINE, Knows.NOTHING),
    "engine-declared": (ENGINE, Knows.DECLARED),
    "engine-progress": (ENGINE, Knows.PROGRESS),
    "engine-all": (ENGINE, Knows.ALL),
}
"""Each policy, and its knowledge of the jobs' lengths."""


def policy(name: str, rules: Rules) -> tuple[Policy, Knows]:
    """The policy of this name, with these rules if it is the engine, and its knowledge of the jobs' lengths."""
    decide, knows = POLICIES[name]
    return (partial(plan_round, rules=rules) if decide is ENGINE else decide), knows
