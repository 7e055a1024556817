"""Reservations: cards that are kept for due jobs that do not fit yet.

1. If the known ends of running jobs make enough room, reserve the cards where the due job can start first.
2. Otherwise reserve cards of the fewest nodes, as if the jobs without a known end left these nodes.

Other jobs do not take reserved cards, unless they are known to end before the due job starts. A reservation lasts for
one round; the next round finds the same cards again, because nothing takes them and more of them become free.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf

from device_plugin.core.jobs.delay import Delays
from device_plugin.core.jobs.forecast import known_ends
from device_plugin.core.jobs.job import EXACT, JobKey, JobState
from device_plugin.core.jobs.plan import Draft, Reserved
from device_plugin.core.jobs.queue import Unit, need
from device_plugin.core.jobs.rank import attained_work, kept_until
from device_plugin.core.jobs.rearrange import Budget, fits, widened
from device_plugin.core.jobs.room import Place, Site
from device_plugin.core.jobs.rules import Rules

# Most reservations of a round: each needs about a dozen trials.
MOST_RESERVED = 8
# Most ends of jobs that are tried for a reservation.
MOST_ENDS = 256
# The number of steps (ends of jobs) before the first try, and the factor by which it grows before each further try. A
# few of thousands of steps are nearly always enough, and a failed try costs more than a step.
FIRST_STEPS = 8
# An idle card-second counts at most this many times for each waiting job. With 20, 25 and 30 the mean JCT of rigid jobs
# on an overloaded pool is 1.010, 0.986 and 1.006 of FIFO's, and the p99 is 1.004, 0.762 and 1.002 of FIFO's.
MOST_DELAYED = 25
BEYOND_USE = "needs more cards than jobs may use at a time"
BEHIND_OTHERS = "cards are reserved for other jobs that wait longer"
TOO_WIDE = "its run would delay the jobs that come after it by more than it has waited"
TOO_DEAR = "cards would be kept idle for too long while many others wait"
NO_END = "waits for pods that are no Jobs of a queue, for Jobs of its own namespace, or for reserved cards"


@dataclass(frozen=True, slots=True)
class _Found:
    """The nodes and cards (`places`) that a unit of jobs would get, and the time `start` at which it would start.

    `start` is inf if the unit waits for jobs without a known end.
    """

    places: Sequence[Place]
    start: float


class Reservations:
    """Makes and keeps the reservations of one round."""

    def __init__(
        self, draft: Draft, rules: Rules, delays: Delays, may_stop: Callable[[Unit], Collection[JobKey]]
    ) -> None:
        self._draft = draft
        self._delays = delays
        self._rules = rules
        self._may_stop = may_stop
        users = {job.spec.user for job in draft.jobs.values() if job.queued}
        self._budget = Budget(MOST_RESERVED, users)
        self._most = draft.budget + sum(job.width * job.spec.cards for job in draft.jobs.values())
        # By the first job of a unit.
        self._made: dict[JobKey, tuple[_Found, Unit]] = {}
        self._late = {
            job.spec.user for job in draft.jobs.values()
            if job.width and job.spec.expected_seconds is not None and job.remaining is None
        }  # fmt: skip

    def reserve(self, unit: Unit) -> None:
        """Reserve cards for a due unit (jobs that start together), or record the reason why none are reserved."""
        if need(unit) > self._most:
            return self._refuse(unit, BEYOND_USE)
        if not self._budget.take(unit[0].spec.user):
            return self._refuse(unit, BEHIND_OTHERS)
        stoppable = self._may_stop(unit)
        if why := self._too_dear(unit, stoppable):
            return self._refuse(unit, why)
        found = self._found(unit, stoppable)
        if found is None:
            return self._refuse(unit, NO_END)
        name = unit[0].spec.key
        self._made[name] = found, unit
        self._keep([name])
        for job in unit:
            self._draft.unreserved.pop(job.spec.key, None)
            self._draft.reserved[job.spec.key] = Reserved(self._draft.room.nodes(found.places), found.start)
        return None

    def _too_dear(self, unit: Unit, stoppable: Collection[JobKey]) -> str:
        """The reason, as text, why reserving cards would cost other jobs too much time; empty if it would not.

        The cost is compared with the time that the unit (jobs that start together) has waited. Cards of jobs in
        `stoppable`, which will be stopped by consent, cost nothing, because these jobs use them until then.
        """
        draft, needed = self._draft, need(unit)
        coming = sorted(self._releases(stoppable))
        seconds_until, idled = _until_free(coming, draft.room.idle(), needed)
        outweighed = self._delays.outweighed(unit, seconds_until)
        if not outweighed and self._delays.alone(unit):
            return TOO_WIDE
        sure = sum(
            cards for seconds, cards, idles in coming if seconds <= self._rules.quantum_s and not idles
        )
        if draft.room.idle() + sure >= needed - EXACT:
            return ""
        if not outweighed:
            return TOO_WIDE
        waited = max(draft.now - job.since for job in unit)
        crowd = sum(job.queued and not draft.width(job) for job in draft.jobs.values()) - len(unit)
        # Idle cards delay all waiting jobs, and in a long queue also the jobs that come before it is worked off.
        delayed = crowd * min(MOST_DELAYED, max(1.0, crowd / 2))
        return "" if waited * draft.room.cards() >= delayed * idled else TOO_DEAR

    def _releases(self, stoppable: Collection[JobKey]) -> Iterator[tuple[float, float, bool]]:
        """Yields for each running job the seconds until its cards are free, their number, and if they idle then.

        Free cards idle while they are kept for a waiting job. A job without a known end is expected to run for as long
        as it has run. Cards of a job that may be stopped do not idle, because the job uses them until it is stopped.
        """
        draft, rules = self._draft, self._rules
        for key, job in draft.jobs.items():
            width = draft.width(job)
            if not width or not job.spec.cards:
                continue
            left = job.seconds_left(width)
            ends = attained_work(job) / width if left is None else left
            turn = inf
            if key in stoppable:
                turn = 0.0
            elif job.running and rules.may_stop(job.spec):
                turn = max(job.since + rules.due_quantum_s, kept_until(job, rules, due=True)) - draft.now
            yield min(ends, max(0.0, turn)), width * job.spec.cards, turn > ends

    def _refuse(self, unit: Unit, why: str) -> None:
        for job in unit:
            self._draft.unreserved[job.spec.key] = why

    def backfill(self, unit: Unit) -> bool:
        """Admit a unit of jobs on cards reserved for other jobs, if the unit ends before the other jobs start.

        Returns false, without a change, if the unit may not be admitted.

        A unit whose end is not known, and a job of sub-tasks, are not admitted. A user with a job that runs for longer
        than declared is excluded, because the user's declarations are not reliable.
        """
        if not self._made or unit[0].spec.user in self._late or any(job.spec.parts for job in unit):
            return False
        left = [job.seconds_left(job.spec.least) for job in unit]
        known = [seconds for seconds in left if seconds is not None]
        if len(known) < len(unit):
            return False
        ends = self._draft.now + max(known)
        names = [name for name, (found, _) in self._made.items() if ends <= found.start < inf]
        if not names:
            return False
        with self._draft.trial() as trial:
            self._lift(names)
            if widened(self._draft, unit):
                self._keep(names)
                trial.keep()
        if not trial.kept:
            self._draft.budget -= sum(need(self._made[name][1]) for name in names)
        return trial.kept

    def start(self, may_start: Callable[[Unit], bool]) -> Sequence[Unit]:
        """Admit the units with reserved cards that fit now, after more cards were freed; returns these units.

        A unit is jobs that start together; `may_start` is true if a unit may be admitted in this round.
        """
        started = list[Unit]()
        for name, (_, unit) in list(self._made.items()):
            if not may_start(unit):
                continue
            self._lift([name])
            if fits(self._draft, unit):
                del self._made[name]
                for job in unit:
                    self._draft.reserved.pop(job.spec.key, None)
                started.append(unit)
            else:
                self._keep([name])
        return started

    def end_answered(self, stopped: Callable[[Unit], bool]) -> None:
        """End the reservations of units that started on other cards, or whose group is stopped in this plan.

        A unit is jobs that start together. `stopped` is true for a unit whose group is stopped.
        """
        for name, (_, unit) in list(self._made.items()):
            if self._draft.widths[name] or stopped(unit):
                self._lift([name])
                del self._made[name]
                for job in unit:
                    self._draft.reserved.pop(job.spec.key, None)

    def end(self) -> None:
        """Release all reserved cards in the room, because the room is used in further rounds."""
        self._lift(self._made)

    def _keep(self, names: Sequence[JobKey]) -> None:
        for name in names:
            found, unit = self._made[name]
            self._draft.room.reserve(name, found.places)
            self._draft.budget -= need(unit)

    def _lift(self, names: Iterable[JobKey]) -> None:
        for name in names:
            self._draft.room.lift(name)
            self._draft.budget += need(self._made[name][1])

    def _found(self, unit: Unit, stoppable: Collection[JobKey]) -> _Found | None:
        """The earliest start of the unit of jobs, and its nodes and cards; None if it never fits, whatever ends."""
        ending = self._ending(unit)
        ends = [partial(self._draft.room.give, job.spec, self._draft.width(job)) for _, job in ending]
        if found := self._first_room(unit, ends):
            count, places = found
            return _Found(places, ending[count - 1][0] if count else self._draft.now)
        with self._draft.room.trial():
            for end in ends:
                end()
            places_then = self._vacated(unit, stoppable, {job.spec.key for _, job in ending})
        return _Found(places_then, inf) if places_then is not None else None

    def _first_room(
        self, unit: Unit, steps: Sequence[Callable[[], None]]
    ) -> tuple[int, Sequence[Place]] | None:
        """The least n for which the unit of jobs has room after the first n `steps` (ends of jobs), and its places.

        None if the unit has no room after all steps.
        """
        low, high = 0, min(FIRST_STEPS, len(steps))
        with self._draft.room.trial():
            _take(steps[:high])
            while (places := self._tried(unit)) is None:
                if high == len(steps):
                    return None
                low, high = high + 1, min(FIRST_STEPS * high, len(steps))
                _take(steps[low - 1 : high])
        while low < high:
            middle = (low + high) // 2
            fewer = self._tried(unit, steps[:middle])
            if fewer is None:
                low = middle + 1
            else:
                high, places = middle, fewer
        return high, places

    def _tried(self, unit: Unit, steps: Iterable[Callable[[], None]] = ()) -> Sequence[Place] | None:
        """The nodes and cards of the unit's jobs after these steps (ends of jobs); None if they do not fit.

        The room is not changed.
        """
        with self._draft.room.trial():
            _take(steps)
            self._draft.room.renew()
            return self._placed(unit)

    def _ending(self, unit: Unit) -> Sequence[tuple[float, JobState]]:
        """The known ends of jobs that hold cards where the unit's jobs may go, earliest first, at most MOST_ENDS."""
        near = self._draft.room.givers([job.spec for job in unit])
        held = [job for job in self._draft.jobs.values() if near is None or job.spec.key in near]
        ends = known_ends(self._draft.now, held, self._draft.width)
        return sorted(ends, key=lambda each: (each[0], each[1].spec.key))[:MOST_ENDS]

    def _placed(self, unit: Unit) -> Sequence[Place] | None:
        """The nodes and cards for the unit's replicas among the cards free in this trial; None if they do not fit."""
        room, found = self._draft.room, list[Place]()
        for job in unit:
            if not room.take(job.spec, job.spec.least):
                return None
            found += room.places(job.spec, job.spec.least)
        return found

    def _vacated(
        self, unit: Unit, stoppable: Collection[JobKey], ended: Collection[JobKey]
    ) -> Sequence[Place] | None:
        """The nodes and cards of the unit's jobs if jobs without a known end left node after node until the unit fits.

        None if the unit never fits. At first, jobs that will probably run on for long stay; if the unit does not fit
        then, they leave too. Long-running jobs of the unit's own user always stay. Jobs in `stoppable` are never among
        the jobs that stay. The jobs in `ended` have left already.
        """
        draft, room = self._draft, self._draft.room
        lasting, own = self._lasting(unit, stoppable)
        running = [
            job for key, job in draft.jobs.items()
            if draft.width(job) > _stays(job) and job.spec.cards and key not in ended and key not in own
        ]  # fmt: skip
        sites = room.sites([job.spec for job in unit])
        for stay in (lasting, set[JobKey]()):
            leaving = {job.spec.key: job for job in running if job.spec.key not in stay}
            steps = (
                _job_by_job(leaving.values(), draft)
                if sites is None
                else _node_by_node(sites, leaving, draft)
            )
            if found := self._first_room(unit, steps):
                return found[1]
        return None

    def _lasting(
        self, unit: Unit, stoppable: Collection[JobKey]
    ) -> tuple[Collection[JobKey], Collection[JobKey]]:
        """Two sets of running jobs: jobs that will probably run on for long, and long-running jobs of the unit's user.

        A job is in the first set if it has run for the longest turn (`turn_s`, 10 hours by default). A job of the user
        of `unit` (jobs that start together) is in the second set if it has run for a quantum (`quantum_s`, 1 hour by
        default): the user could end it himself. The jobs in `stoppable` are in neither set.
        """
        draft, rules, user = self._draft, self._rules, unit[0].spec.user
        long = [
            job for key, job in draft.jobs.items()
            if job.width and key not in stoppable and draft.now >= job.since + rules.quantum_s
        ]  # fmt: skip
        own = {job.spec.key for job in long if user and job.spec.user == user}
        return {job.spec.key for job in long if draft.now >= job.since + rules.turn_s}, own


def _take(steps: Iterable[Callable[[], None]]) -> None:
    for step in steps:
        step()


def _until_free(
    coming: Sequence[tuple[float, float, bool]], idle: float, needed: float
) -> tuple[float, float]:
    """The seconds until `needed` cards are free, and the idle card-seconds if free cards are kept until then.

    `idle` cards are free now. `coming` are later releases, earliest first: the seconds until each, its number of cards,
    and if they idle.
    """
    idled = before = 0.0
    missing = needed - idle
    for seconds, cards, idles in coming:
        if missing <= EXACT:
            break
        idled += idle * (seconds - before)
        before = seconds
        missing -= cards
        idle += cards if idles else 0.0
    return before, idled


def _job_by_job(jobs: Collection[JobState], draft: Draft) -> Sequence[Callable[[], None]]:
    """Functions that each end one job: first the job that ran for the shortest time, which probably ends first."""
    order = sorted(jobs, key=lambda job: (attained_work(job) / draft.width(job), job.spec.key))
    return [partial(draft.room.give, job.spec, draft.width(job) - _stays(job)) for job in order]


def _stays(job: JobState) -> int:
    """The number of replicas that a running job keeps until its end; of a job of sub-tasks, its least number."""
    return job.spec.least if job.spec.parts else 0


def _node_by_node(
    sites: Sequence[Site], leaving: Mapping[JobKey, JobState], draft: Draft
) -> Sequence[Callable[[], None]]:
    """Functions that each end all leaving jobs on one node.

    Nodes without staying jobs come first, then nodes with few cards of leaving jobs, then nodes whose jobs are young.
    """

    def order(site: Site) -> tuple[bool, float, float, str]:
        held = [(leaving[key], count) for key, count in site.held.items() if key in leaving]
        stays = len(held) < len(site.held)
        missing = sum(count * job.spec.cards for job, count in held)
        oldest = max((attained_work(job) / max(1, draft.width(job)) for job, _ in held), default=0.0)
        return stays, missing, oldest, site.node

    return [
        partial(draft.room.vacate, site, leaving)
        for site in sorted(sites, key=order)
        if not leaving.keys().isdisjoint(site.held)
    ]
