"""Grows elastic jobs onto idle cards, and shrinks elastic jobs while more cards are in use than allowed."""

import heapq
from collections.abc import Iterator
from math import ceil

from device_plugin.core.jobs.job import EXACT, JobKey, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import share
from device_plugin.core.jobs.rules import Rules


def score(job: JobState, width: int) -> float:
    """The position of `width` between the job's smallest width (0) and its largest width (1), which must differ."""
    return (width - job.spec.least) / (job.spec.most - job.spec.least)


def grow(draft: Draft, rules: Rules) -> None:
    """Widen jobs while cards are free: jobs that this plan starts, and running jobs not changed lately.

    The width of a job is the number of its pods.

    Each step takes the queue with the fewest cards in proportion to its weight, and in this queue the job to which a
    further card adds most speed. Queues are compared by cards only, because speeds are reported by the jobs themselves
    and must not affect other queues. A running job grows by a large share of its width, or to its largest width, or not
    at all, because each change costs a restart.
    """
    candidates: dict[str, list[tuple[float, float, JobKey]]] = {}
    for job in _growing(draft, rules):
        candidates.setdefault(job.spec.queue, []).append(_growth_order(job, draft.width(job), rules))
    for line in candidates.values():
        heapq.heapify(line)
    order = [(share(draft, queue, rules), queue) for queue in candidates]
    heapq.heapify(order)
    full = set[object]()
    while order:
        _, queue = heapq.heappop(order)
        _, _, key = heapq.heappop(candidates[queue])
        job = draft.jobs[key]
        width = draft.width(job)
        running = width == job.width
        wider = _next_width(job, draft.room.cards(), rules) if running else job.spec.next_width(width)
        step = job.spec.request, job.spec.nodes, job.spec.user, wider - width
        if wider <= job.spec.most and step not in full:
            if not draft.widen(job, wider):
                full.add(step)
            elif wider < job.spec.most:
                heapq.heappush(candidates[queue], _growth_order(job, wider, rules))
        if candidates[queue]:
            heapq.heappush(order, (share(draft, queue, rules), queue))


def _next_width(job: JobState, cards: float, rules: Rules) -> int:
    """The width (number of replicas) to which a running job may grow; its pool has `cards` cards in all.

    The result is above the job's largest width (`most`) if growing is not worth a restart.
    """
    added = rules.growth
    if job.spec.cards:
        added = min(added, max(rules.wide_growth, rules.idle * cards / (job.spec.cards * job.width)))
    wider = min(job.spec.most, max(job.width + 1, ceil(job.width * (1 + added) - EXACT)))
    return job.spec.next_width(max(wider, _saving_width(job, rules)) - 1)


def _saving_width(job: JobState, rules: Rules) -> int:
    """The least width (number of pods) that ends the job at least `saving_s` seconds earlier than its present width.

    The result is above the job's largest width (`most`) if no width does, and the present width if the work left is
    unknown.
    """
    if job.remaining is None:
        return job.width
    now, fastest = (float(width) ** -job.exponent for width in (job.width, job.spec.most))
    if job.remaining * (now - fastest) < rules.saving_s:
        return job.spec.most + 1
    wanted: float = (now - rules.saving_s / job.remaining) ** (-1 / job.exponent)
    return min(job.spec.most, ceil(wanted - EXACT))


def may_grow(job: JobState, now: float, rules: Rules) -> bool:
    """True if a running job may get more replicas now: their number can change, and has not for `cooldown_s`."""
    return job.adjustable and now >= job.resized + rules.cooldown_s


def shrink_to_use(draft: Draft) -> None:
    """Shrink jobs until no more cards are in use than allowed, or no job can shrink.

    Each step narrows the job whose width is nearest to its largest width.
    """
    giving = [
        (-score(job, job.width), job.spec.key)
        for job in draft.jobs.values() if job.adjustable and job.width > job.spec.least
    ]  # fmt: skip
    heapq.heapify(giving)
    while giving and draft.budget < 0:
        _, key = heapq.heappop(giving)
        job = draft.jobs[key]
        width = job.spec.width_at_most(draft.width(job) - 1)
        draft.narrow(job, width)
        if width > job.spec.least:
            heapq.heappush(giving, (-score(job, width), key))


def _growing(draft: Draft, rules: Rules) -> Iterator[JobState]:
    for job in draft.jobs.values():
        width = draft.width(job)
        if 0 < width < job.spec.most and not job.held:
            new = job.queued and job.spec.elastic
            if new or (width == job.width and may_grow(job, draft.now, rules)):
                yield job


def _growth_order(job: JobState, width: int, rules: Rules) -> tuple[float, float, JobKey]:
    """A sort key for jobs that may grow: the job to which a further card adds most speed comes first.

    A job with little work left counts as somewhat faster. If jobs are equal, the job nearer to its least width comes
    first.
    """
    wider = job.spec.next_width(width)
    added = (wider**job.exponent - width**job.exponent) / (wider - width) / (job.spec.cards or 1.0)
    added /= max(job.remaining or 0.0, rules.unit_s) ** rules.shortness
    return -added, score(job, width), job.spec.key
