"""The queue: decides in which order waiting jobs are admitted.

The next job is found in these steps:
1. Take the jobs of the highest priority.
2. Take the queue that holds the fewest cards for its weight.
3. In this queue take the due jobs (which have waited or been stopped for too long); if there is none, the others.
4. Take the user with the least service, so that a user with thousands of old jobs does not come before all others.
   Cards that a user has now, or gets in this round, count as an hour of service, so that equal users take turns.
5. Take the user's oldest job if its jobs are due, else the job with the best rank.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, islice

from device_plugin.core.jobs.groups import undeclared
from device_plugin.core.jobs.job import GroupKey, JobKey, JobPhase, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.rank import attained_work, expected_work, level
from device_plugin.core.jobs.rules import Rules

Unit = tuple[JobState, ...]
"""The jobs that are admitted together or not at all: all jobs of a group, or one job, or one sub-task of a split."""
User = tuple[str, str]
"""The name of a queue, and a user of this queue."""


def due(job: JobState, now: float, rules: Rules) -> bool:
    """True if a job has waited, or been stopped, long enough to go before others of its priority."""
    return job.queued and now >= due_at(job, rules)


def waits(draft: Draft, job: JobState) -> bool:
    """True if the job still waits for cards in this draft of a plan: to start, or for one more sub-task."""
    if draft.width(job) and job.spec.parts:
        return (job.queued or job.extendable) and draft.width(job) < job.spec.most
    return job.queued and not draft.width(job)


def due_at(job: JobState, rules: Rules) -> float:
    """The time from which a waiting or stopped job is due: it then goes before others of its priority."""
    if job.phase is JobPhase.STOPPED:
        return job.since + _longest_stop(job, rules)
    return job.since + rules.age_s


def _longest_stop(job: JobState, rules: Rules) -> float:
    """The seconds after which a stopped job is due: it then goes before others of its priority.

    They are the limit of the rules (`stop_limit`). A job that needs more cards than every other waiting job may be due
    earlier: after the time that it ran before, but at least `age_s` seconds. It must be rigid, have no sub-tasks, and
    meet one of these conditions:

    - It needs more than one card: several cards seldom become free together.
    - It ran for less than a quantum (`quantum_s`), and so lost its turn.
    """
    limit = rules.stop_limit(job.spec)
    if not job.widest or job.spec.elastic or job.spec.parts:
        return limit
    ran = attained_work(job) / job.spec.least
    if need((job,)) <= 1 and ran >= rules.quantum_s:
        return limit
    return min(limit, max(rules.age_s, ran))


def with_widest(jobs: Iterable[JobState]) -> Sequence[JobState]:
    """The jobs; `widest` is set on a stopped job if it needs more cards than every other waiting job."""
    found = list(jobs)
    needs = {position: need((job,)) for position, job in enumerate(found) if job.queued}
    most = max(needs.values(), default=0.0)
    widest = [position for position, cards in needs.items() if cards == most]
    if len(widest) == 1 and found[widest[0]].phase is JobPhase.STOPPED:
        found[widest[0]] = replace(found[widest[0]], widest=True)
    return found


def lately_changed(job: JobState, now: float, rules: Rules) -> bool:
    """True if the job was stopped, or is a split that was started or resized, less than `cooldown_s` seconds ago.

    A split (a job of sub-tasks) counts only while it could run more sub-tasks.

    Other jobs do not give way to a lately changed job yet. If they did, this job would take cards from further jobs,
    and plans would need more than two rounds to settle.
    """
    return (job.phase is JobPhase.STOPPED or job.extendable) and now < yielded_to_at(job, rules)


def yielded_to_at(job: JobState, rules: Rules) -> float:
    """The time from which other jobs give way to a job that ran before; this job may take free cards earlier."""
    return (max(job.since, job.resized) if job.extendable else job.since) + rules.cooldown_s


def need(unit: Unit) -> float:
    """The number of cards that the jobs need together with their least numbers of replicas."""
    return sum(job.spec.least_cards for job in unit)


def in_turn(draft: Draft, units: Iterable[Unit], rules: Rules) -> Iterator[Unit]:
    """Yield the units (jobs that start together) in the order of admission, which each admission changes.

    `units` are sorted by the function `ordered`. A split (a job of sub-tasks) is yielded again after each of its
    sub-tasks that was admitted.
    """
    service = _Service.of(draft.jobs.values(), draft.cards_by_user, rules)
    for _, equals in groupby(units, key=priority):
        yield from _by_share(draft, equals, service)


def places(jobs: Collection[JobState], now: float, rules: Rules) -> Mapping[JobKey, int]:
    """The place of each waiting job in its queue, 1 for the next job; the jobs of a group share a place.

    A job has no place while Jobs of its group are missing.
    """
    counts, found, cards = Counter[str](), dict[JobKey, int](), _by_user(jobs, _held)
    service = _Service.of(jobs, cards, rules)
    units = ordered([job for job in jobs if not job.extendable], now, rules)
    for _, equals in groupby(units, key=priority):
        for queue, line in _lines(equals).items():
            for unit in _by_service(line, now, service, lambda job: job.width):
                counts[queue] += 1
                found |= dict.fromkeys((job.spec.key for job in unit), counts[queue])
                cards[_user(unit[0])] += need(unit)
    return found


def next_units(jobs: Collection[JobState], now: float, rules: Rules) -> Iterator[Unit]:
    """The next waiting unit of jobs in each queue: jobs that start together, or a single job."""
    seen = set[str]()
    for unit in ordered([job for job in jobs if not job.extendable], now, rules):
        queue = unit[0].spec.queue
        if queue not in seen:
            seen.add(queue)
            yield unit


def ordered(jobs: Collection[JobState], now: float, rules: Rules) -> Sequence[Unit]:
    """The waiting units (jobs that start together), and splits with more sub-tasks to run, in queue order."""
    service = _Service.of(jobs, _by_user(jobs, _held), rules)
    return sorted(_units(jobs), key=lambda unit: _key(unit, now, service))


def _by_share(draft: Draft, units: Iterable[Unit], service: "_Service") -> Iterator[Unit]:
    """Yield the units (jobs that start together) in turns: next is the queue with the fewest cards for its weight.

    If queues are equal, a queue whose next unit is due (has waited too long) comes first, then the queue whose next
    unit has waited longest.
    """
    rules = service.rules
    lines = {
        queue: _by_service(line, draft.now, service, draft.width) for queue, line in _lines(units).items()
    }

    def turn(queue: str, unit: Unit) -> tuple[float, bool, float, str, Unit]:
        since = min(job.since for job in unit)
        return share(draft, queue, rules), not _late(unit, draft.now, rules), since, queue, unit

    turns = [turn(queue, unit) for queue, line in lines.items() for unit in islice(line, 1)]
    heapq.heapify(turns)
    while turns:
        *_, queue, unit = heapq.heappop(turns)
        yield unit
        for following in islice(lines[queue], 1):
            heapq.heappush(turns, turn(queue, following))


def _by_service(
    units: Iterable[Unit], now: float, service: "_Service", width: Callable[[JobState], int]
) -> Iterator[Unit]:
    """Yield a queue's units, due ones first: each time the first unit of the user with the least service.

    A unit is jobs that start together; it is due if it has waited too long. Service is past card-seconds. `width`
    returns the present width of a job. If a split (a job of sub-tasks) became wider since it was yielded, it comes
    again in its user's next turn.
    """
    lines: dict[User, deque[tuple[int, Unit]]] = {}
    for position, unit in enumerate(units):
        lines.setdefault(_user(unit[0]), deque()).append((position, unit))

    def turn(user: User) -> tuple[bool, int, float, int, User]:
        position, unit = lines[user][0]
        return not _late(unit, now, service.rules), service.level(user), service.cards[user], position, user

    turns = [turn(user) for user in lines]
    heapq.heapify(turns)
    while turns:
        *_, user = heapq.heappop(turns)
        position, unit = lines[user].popleft()
        first = unit[0]
        before = width(first)
        yield unit
        if first.spec.parts and before < width(first) < first.spec.most:
            lines[user].appendleft((position, unit))
        if lines[user]:
            heapq.heappush(turns, turn(user))


def _lines(units: Iterable[Unit]) -> Mapping[str, Sequence[Unit]]:
    """The units (jobs that start together) by their queue; within a queue they keep their order."""
    lines: dict[str, list[Unit]] = {}
    for unit in units:
        lines.setdefault(unit[0].spec.queue, []).append(unit)
    return lines


def share(draft: Draft, queue: str, rules: Rules) -> float:
    """The cards that the jobs of a queue have in the draft of a plan, divided by the queue's weight."""
    return draft.cards_of.get(queue, 0.0) / rules.weight(queue)


def _units(jobs: Iterable[JobState]) -> Iterator[Unit]:
    """The units (jobs that start together) that may be admitted: waiting jobs, and splits with more sub-tasks to run.

    The jobs of a group are one unit. A group is left out while one of its Jobs is missing, on hold or being stopped,
    because all of its Jobs start together.
    """
    groups: dict[GroupKey, list[JobState]] = {}
    for job in jobs:
        if (group := job.spec.group_key) is not None:
            groups.setdefault(group, []).append(job)
        elif job.queued or job.extendable:
            yield (job,)
    for members in groups.values():
        waiting = sorted((job for job in members if job.queued), key=lambda job: job.spec.key)
        absent = any(job.phase in (JobPhase.STOPPING, JobPhase.HELD) for job in members)
        if waiting and not absent and not undeclared([job.spec for job in members]):
            yield tuple(waiting)


@dataclass(frozen=True, slots=True)
class _Service:
    """The past service (`had`) of each user, in card-seconds of jobs that have not ended, and the user's `cards`.

    The `cards` are the cards that the user's jobs have now, in the draft of a plan.
    """

    had: Mapping[User, float]
    cards: Mapping[User, float]
    rules: Rules

    @classmethod
    def of(cls, jobs: Iterable[JobState], cards: Mapping[User, float], rules: Rules) -> "_Service":
        """The past service (card-seconds) of the users of these jobs."""
        return cls(_by_user(jobs, lambda job: job.attained), cards, rules)

    def level(self, user: User) -> int:
        """The level (power of two) of a user's past service, in card-seconds; each present card adds `quantum_s`."""
        return level(self.had[user] + self.cards[user] * self.rules.quantum_s, self.rules)


def _user(job: JobState) -> User:
    return job.spec.queue, job.spec.user


def _held(job: JobState) -> float:
    """The cards that the job has now."""
    return job.width * job.spec.cards


def _by_user(jobs: Iterable[JobState], amount: Callable[[JobState], float]) -> dict[User, float]:
    """The sum of `amount(job)` over the jobs of each user."""
    found: dict[User, float] = {}
    for job in jobs:
        found[_user(job)] = found.get(_user(job), 0.0) + amount(job)
    return found


def priority(unit: Unit) -> int:
    """The priority of a unit, jobs that start together: the lowest priority of its jobs."""
    return min(job.spec.priority for job in unit)


def _late(unit: Unit, now: float, rules: Rules) -> bool:
    """True if one of the unit's jobs is due (has waited too long)."""
    return unit[0].queued and now >= min(due_at(job, rules) for job in unit)


def _key(unit: Unit, now: float, service: _Service) -> tuple[object, ...]:
    first, rules = unit[0], service.rules
    have = service.level(_user(first))
    if _late(unit, now, rules):
        overdue = max(now - due_at(job, rules) for job in unit)
        return -priority(unit), 0, have, -overdue, 0.0, 0.0, first.spec.key
    return (
        -priority(unit),
        1,
        have,
        max(level(expected_work(job), rules) for job in unit),
        need(unit),
        min(job.since for job in unit),
        first.spec.key,
    )
