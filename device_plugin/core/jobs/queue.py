"""The queue: which jobs are admitted next.

Priorities come first. Queues of one priority share by weight: the next job is that of the queue that holds the fewest
cards for its weight. Within a queue, jobs that have waited or been stopped for too long come first. Among these, as
among the others, users that have had less service go first: thousands of waiting jobs do not let their user pass all
others by age. A user's own jobs come by age if they are too late, and otherwise by rank.
"""

import heapq
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from device_plugin.core.jobs.groups import undeclared
from device_plugin.core.jobs.job import JobKey, JobPhase, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.rank import expected_work, level
from device_plugin.core.jobs.rules import Rules

Unit = tuple[JobState, ...]
"""The jobs that are admitted together or not at all: those of one group, or a single job; of a split one sub-task."""


def due(job: JobState, now: float, rules: Rules) -> bool:
    """True if a job has waited, or been stopped, for so long that it goes before others of its priority."""
    return job.queued and now >= due_at(job, rules)


def waits(draft: Draft, job: JobState) -> bool:
    """True if the job still waits for cards in this draft: to start, or for one more sub-task."""
    if draft.width(job) and job.spec.parts:
        return (job.queued or job.extendable) and draft.width(job) < job.spec.most
    return job.queued and not draft.width(job)


def due_at(job: JobState, rules: Rules) -> float:
    """The time from which a waiting or stopped job is due."""
    return job.since + (rules.stop_s if job.phase is JobPhase.STOPPED else rules.age_s)


def lately_changed(job: JobState, now: float, rules: Rules) -> bool:
    """True if a job stopped, or the width of a split that could run more sub-tasks changed, less than a cooldown ago.

    Others do not give way to it yet: they would take from others in turn, and rest after more than two rounds.
    """
    return (job.phase is JobPhase.STOPPED or job.extendable) and now < yielded_to_at(job, rules)


def yielded_to_at(job: JobState, rules: Rules) -> float:
    """The time from which others give way to a job that ran before; it may take free cards earlier."""
    return (max(job.since, job.resized) if job.extendable else job.since) + rules.cooldown_s


def need(unit: Unit) -> float:
    """The cards that the jobs need at least."""
    return sum(job.spec.least * job.spec.cards for job in unit)


def in_turn(draft: Draft, units: Iterable[Unit], rules: Rules) -> Iterator[Unit]:
    """Waiting jobs in the order in which they are admitted; that of queues follows what the draft admits.

    `units` are in the order of their queues. A split comes again after each sub-task that was admitted.
    """
    for _, equals in groupby(units, key=lambda unit: priority(unit)):
        yield from _by_share(draft, equals, rules)


def places(jobs: Collection[JobState], now: float, rules: Rules) -> Mapping[JobKey, int]:
    """By waiting job: its place among those that wait in its queue, 1 for the next; the jobs of a group share one.

    A job of a group of which Jobs are still missing has none.
    """
    counts, found = Counter[str](), dict[JobKey, int]()
    for unit in ordered([job for job in jobs if not job.extendable], now, rules):
        queue = unit[0].spec.queue
        counts[queue] += 1
        found |= dict.fromkeys((job.spec.key for job in unit), counts[queue])
    return found


def next_units(jobs: Collection[JobState], now: float, rules: Rules) -> Iterator[Unit]:
    """Of each queue the waiting jobs that are admitted next."""
    seen = set[str]()
    for unit in ordered([job for job in jobs if not job.extendable], now, rules):
        queue = unit[0].spec.queue
        if queue not in seen:
            seen.add(queue)
            yield unit


def ordered(jobs: Collection[JobState], now: float, rules: Rules) -> Sequence[Unit]:
    """The waiting jobs, and the splits that could run more sub-tasks, in the order in which each queue has them."""
    served = _service(jobs)
    return sorted(_units(jobs), key=lambda unit: _key(unit, now, served, rules))


def _by_share(draft: Draft, units: Iterable[Unit], rules: Rules) -> Iterator[Unit]:
    """The units, each time the first one of the queue that holds the fewest cards for its weight."""
    lines: dict[str, deque[Unit]] = {}
    for unit in units:
        lines.setdefault(unit[0].spec.queue, deque()).append(unit)
    order = [(share(draft, queue, rules), queue) for queue in lines]
    heapq.heapify(order)
    while order:
        _, queue = heapq.heappop(order)
        unit = lines[queue].popleft()
        first = unit[0]
        before = draft.width(first)
        yield unit
        if first.spec.parts and before < draft.width(first) < first.spec.most:
            lines[queue].appendleft(unit)
        if lines[queue]:
            heapq.heappush(order, (share(draft, queue, rules), queue))


def share(draft: Draft, queue: str, rules: Rules) -> float:
    """The cards that the jobs of a queue have in the draft, for each unit of its weight."""
    return draft.cards_of.get(queue, 0.0) / rules.weight(queue)


def _units(jobs: Iterable[JobState]) -> Iterator[Unit]:
    """The waiting jobs, those of a group together.

    A group is left out while Jobs of it are missing, and while one of them is being stopped: it starts again whole.
    """
    groups: dict[tuple[str, str], list[JobState]] = {}
    for job in jobs:
        if job.spec.joint:
            groups.setdefault((job.spec.key[0], job.spec.group), []).append(job)
        elif job.queued or job.extendable:
            yield (job,)
    for members in groups.values():
        waiting = sorted((job for job in members if job.queued), key=lambda job: job.spec.key)
        stopping = any(job.phase is JobPhase.STOPPING for job in members)
        if waiting and not stopping and not undeclared([job.spec for job in members]):
            yield tuple(waiting)


def _service(jobs: Iterable[JobState]) -> dict[tuple[str, str], float]:
    """The service in card-seconds that the users of each queue have had for the jobs that have not ended."""
    served: dict[tuple[str, str], float] = {}
    for job in jobs:
        user = job.spec.queue, job.spec.user
        served[user] = served.get(user, 0.0) + job.attained
    return served


def priority(unit: Unit) -> int:
    """The priority of the jobs together: the lowest of theirs."""
    return min(job.spec.priority for job in unit)


def _key(unit: Unit, now: float, served: Mapping[tuple[str, str], float], rules: Rules) -> tuple[object, ...]:
    first = unit[0]
    overdue = max(now - due_at(job, rules) for job in unit)
    service = level(served[first.spec.queue, first.spec.user], rules)
    if overdue >= 0 and first.queued:
        return -priority(unit), 0, service, -overdue, 0.0, 0.0, first.spec.key
    return (
        -priority(unit),
        1,
        service,
        max(level(expected_work(job), rules) for job in unit),
        need(unit),
        min(job.since for job in unit),
        first.spec.key,
    )
