"""Makes room for a unit of jobs that does not fit: other jobs shrink or stop, and give only the cards that it needs.

A giver is a running job, or a group, that may release cards for the unit; module `consent` decides which may.

1. Try each giver of lower priority alone, then several together: first jobs that shrink, then jobs that stop.
2. Do the same with givers of equal priority.
3. Keep the first trial in which the unit fits. Unless the unit is due, at most as many of the freed cards may stay idle
   as are newly used; other waiting units may be admitted for this.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from math import ceil

from device_plugin.core.jobs.consent import (
    Claim,
    Stoppable,
    may_shrink,
    may_stop,
    narrows,
    stoppable,
)
from device_plugin.core.jobs.job import EXACT, JobKey, JobSpec, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, due, lately_changed, need
from device_plugin.core.jobs.rules import Rules

# Most givers that are tried alone before several together, and most givers that are tried to be spared again.
TRIES = 16
# Most waiting units that are tried on the idle rest of freed cards.
MOST_BEHIND = 256

Offer = tuple[JobState, int]
"""A running job, and the width to which it may shrink; 0 if it may be stopped."""
JointOffer = tuple[Offer, ...]
"""Offers that are taken together or not at all: the offer of one job, or the offers of a group that may be stopped."""
Behind = Callable[[], Iterable[Unit]]
"""Returns the other waiting units that may be admitted with a unit, in their order."""


class Rearrangement:
    """Makes room in one round for waiting units (jobs that start together), from running jobs that may give cards."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        # Jobs whose program did not answer a request for a checkpoint come last in their priority.
        wide = (job for job in draft.jobs.values() if narrows(job) and job.width > job.floor)
        self._wide = sorted(
            (job for job in wide if job.spec.cards),
            key=lambda job: (
                job.spec.priority,
                job.unanswered > 0,
                job.spec.checkpoint_seconds,
                -(job.width - job.spec.least) * job.spec.cards,
                job.spec.key,
            ),
        )
        self._stoppable = list(stoppable(draft.jobs.values(), rules))
        # By the queue of the unit that needs room.
        self._ordered: dict[str, Sequence[Stoppable]] = {}
        self._groups = {running.group: running for running in self._stoppable if running.group}
        users = {job.spec.user for job in draft.jobs.values() if job.queued or job.extendable}
        self._searches = Budget(rules.searches, users)
        # Jobs that others made room for in this plan; they are not asked to give way themselves.
        self._helped = set[JobKey]()
        # The request of the last unit for which one job alone shrank, and this job.
        self._last: tuple[object, JobState] | None = None

    @property
    def made(self) -> bool:
        """True once a job was admitted in this round because other jobs gave cards."""
        return bool(self._helped)

    def admit(self, unit: Unit, behind: Behind = tuple) -> bool:
        """Make room for a unit (jobs that start together), and admit its jobs with their least widths; true if done.

        False, without a change, if other jobs may not give enough cards. `behind` returns further waiting units, which
        are admitted too if they are needed to use the freed cards.

        No room is made for a job without `preempts`, for a user whose tries of this round are used up, or for a split
        (a job of sub-tasks) that was started or resized less than `cooldown_s` seconds ago.
        """
        first = unit[0]
        if first.extendable and lately_changed(first, self._draft.now, self._rules):
            return False
        if not all(job.spec.preempts for job in unit):
            return False
        if self._once_more(unit, behind):
            return True
        if not self._searches.take(first.spec.user):
            return False
        lacking = self._lacking(unit)
        before: list[JointOffer] = []
        for givers in self._givers(unit):
            if givers and self._make(unit, givers, before, lacking, behind):
                return True
            before += givers
        return False

    def _lacking(self, unit: Unit) -> float:
        """The number of cards that the unit, jobs that start together, lacks.

        Computing it looks at all nodes, so it is called only when room is made.
        """
        largest = _largest(unit)
        return max(0.0, need(unit) - self._draft.room.free(largest) * largest.cards)

    def _once_more(self, unit: Unit, behind: Behind) -> bool:
        """Admit the unit if the job that shrank for the previous, equal unit can shrink again; true if it was admitted.

        A unit is jobs that start together. So 64 equal jobs do not need 64 searches.
        """
        if self._last is None or self._last[0] != _asked(unit):
            return False
        _, job = self._last
        if not may_shrink(job, Claim.of(unit, self._draft, self._rules), self._draft, self._rules):
            return False
        return self._apply(unit, [self._kept(((job, job.floor),), self._lacking(unit))], behind)

    def stopped(self, unit: Unit) -> bool:
        """True if the unit (jobs that start together) gives cards itself, and so is not admitted in this round.

        Either running jobs of its group stop in this plan, and a group starts with all of its Jobs. Or the unit is a
        split (a job of sub-tasks) that is made narrower.
        """
        if self._draft.narrowed(unit[0]):
            return True
        running = self._groups.get(unit[0].spec.group_key or ("", ""))
        return running is not None and not self._draft.width(running.jobs[0])

    def may_stop(self, unit: Unit) -> Collection[JobKey]:
        """The running jobs that may be stopped for the unit, jobs that start together."""
        claim = Claim.of(unit, self._draft, self._rules)
        return {
            job.spec.key
            for running in self._stoppable
            if may_stop(running, claim, self._draft, self._rules)
            for job in running.jobs
        }

    def _givers(self, unit: Unit) -> Iterator[Sequence[JointOffer]]:
        """Yield sets of offers (cards that jobs give) to try: jobs that shrink, then jobs that stop, by priority.

        The lowest priority comes first. All offers of lower priority than the unit come before the offers of its own
        priority. So a job that is stopped finds no job of lower priority that could give way to it.
        """
        draft, rules = self._draft, self._rules
        claim, near = Claim.of(unit, draft, rules), draft.room.givers([job.spec for job in unit])
        shrinking = [
            job
            for job in self._wide
            if (near is None or job.spec.key in near)
            and job.spec.key not in self._helped
            and may_shrink(job, claim, draft, rules)
        ]
        for lower in (True, False):
            yield [((job, job.floor),) for job in shrinking if (job.spec.priority < claim.priority) is lower]
            # Only computed if shrinking was not enough: with thousands of jobs it takes milliseconds.
            stopping = [
                running
                for running in self._order(claim.queue)
                if (running.priority < claim.priority) is lower
                and (near is None or any(job.spec.key in near for job in running.jobs))
                and not any(job.spec.key in self._helped for job in running.jobs)
                and may_stop(running, claim, draft, rules)
            ]
            for _, each in groupby(stopping, key=lambda running: running.priority):
                yield [tuple((job, 0) for job in running.jobs) for running in each]

    def _order(self, queue: str) -> Sequence[Stoppable]:
        """The jobs that may be stopped for a unit of jobs of `queue`, in the order in which they are stopped."""
        if queue not in self._ordered:
            self._ordered[queue] = sorted(
                self._stoppable,
                key=lambda each: (
                    each.priority, each.unanswered, each.checkpoint_seconds, -each.level_seen_by(queue),
                    each.since, each.jobs[0].spec.key,
                ),
            )  # fmt: skip
        return self._ordered[queue]

    def _make(
        self, unit: Unit, givers: Sequence[JointOffer], before: Sequence[JointOffer], lacking: float, behind: Behind
    ) -> bool:  # fmt: skip
        """Admit the unit of jobs if one of `givers` alone makes room, or several of `before` and `givers` do.

        A giver is a running job, or a group, that may release cards; the givers `before` were tried alone already. The
        unit lacks `lacking` cards. `behind` returns waiting units that may use the rest of the freed cards.
        """
        too_few = _too_few(unit, lacking)
        alone = [self._kept(giver, lacking) for giver in givers if self._gives(giver) > too_few]
        # The offer that gives the fewest cards comes first; equal offers keep their order.
        for giver in sorted(alone, key=lambda each: (_unanswered(each), self._gives(each)))[:TRIES]:
            if self._apply(unit, [giver], behind):
                (job, width), *_ = giver
                self._last = (_asked(unit), job) if width else None
                return True
        chosen = self._together(unit, [*before, *givers], lacking)
        return bool(chosen) and self._apply(unit, self._spared(unit, chosen), behind)

    def _gives(self, giver: JointOffer) -> float:
        """The number of cards that this giver, a job or a group that shrinks or stops, releases."""
        return sum((self._draft.width(job) - width) * job.spec.cards for job, width in giver)

    def _kept(self, giver: JointOffer, lacking: float) -> JointOffer:
        """The giver's offer to shrink, with the largest width (number of pods) that still releases the lacking cards.

        An offer to stop is returned as it is.
        """
        (job, floor), *_ = giver
        if not floor:
            return giver
        given = max(ceil(lacking / job.spec.cards - EXACT), 1)
        return ((job, max(floor, job.spec.width_at_most(self._draft.width(job) - given))),)

    def _together(self, unit: Unit, givers: Sequence[JointOffer], lacking: float) -> Sequence[JointOffer]:
        """The first givers (jobs that shrink or stop) that make room together; empty if all are not enough.

        Each giver is returned with the width that it keeps.
        """
        draft, chosen = self._draft, dict[JobKey, JointOffer]()
        most = {job.spec.key: self._gives(((job, width),)) for giver in givers for job, width in giver}
        if sum(most.values()) <= _too_few(unit, lacking):
            return ()
        with draft.trial():
            for giver in givers:
                kept = self._kept(giver, lacking)
                lacking -= self._gives(kept)
                for job, width in kept:
                    draft.narrow(job, width, unit[0].spec)
                draft.room.renew()
                # A job that shrank before and now stops with its group gives once, with its group.
                for job, _ in kept[1:]:
                    chosen.pop(job.spec.key, None)
                chosen[kept[0][0].spec.key] = kept
                if lacking <= EXACT and fits(draft, unit):
                    return list(chosen.values())
            return list(chosen.values()) if fits(draft, unit) else ()

    def _spared(self, unit: Unit, givers: Sequence[JointOffer]) -> Sequence[JointOffer]:
        """The givers (jobs or groups that release cards), without any that the unit of jobs does not need.

        Each of the first TRIES givers is left out if the unit fits without it.
        """
        for giver in givers[:TRIES]:
            fewer = [other for other in givers if other is not giver]
            with self._draft.trial():
                if fewer and self._give(unit, fewer):
                    givers = fewer
        return givers

    def _apply(self, unit: Unit, givers: Sequence[JointOffer], behind: Behind) -> bool:
        """Shrink or stop the givers and admit the unit of jobs; true if it fits and uses enough of the freed cards.

        Otherwise nothing changes, and the result is false. `behind` returns waiting units that may use the rest of the
        cards.
        """
        given = sum(map(self._gives, givers))
        with self._draft.trial() as trial:
            if self._give(unit, givers):
                with_it = self._used(unit, given, behind)
                if with_it is not None:
                    self._helped |= {job.spec.key for each in (unit, *with_it) for job in each}
                    trial.keep()
        return trial.kept

    def _used(self, unit: Unit, given: float, behind: Behind) -> Sequence[Unit] | None:
        """Admit further units of jobs until no more of the `given` cards stay idle than are used; returns these units.

        The `given` cards are the cards that other jobs freed; `behind` returns the units to try. None if too few units
        fit. If `unit` is due (has waited too long), no further units are needed. If it is a split (a job of sub-tasks),
        more of its own sub-tasks are admitted first; they are not in the result.
        """
        used, admitted = need(unit), list[Unit]()
        if any(due(job, self._draft.now, self._rules) for job in unit):
            return admitted
        while unit[0].spec.parts and used < given - used - EXACT and self._one_more(unit):
            used += unit[0].spec.cards
        failed = set[object]()
        for other in islice(behind(), MOST_BEHIND) if used < given - used - EXACT else ():
            kind = tuple((job.spec.asks, job.spec.least) for job in other)
            if kind in failed:
                continue
            if not fits_least(self._draft, other):
                failed.add(kind)
                continue
            used += need(other)
            admitted.append(other)
            if used >= given - used - EXACT:
                break
        return admitted if used >= given - used - EXACT else None

    def _one_more(self, split: Unit) -> bool:
        """Admit one more sub-task of a split (job of sub-tasks) on free cards; false if it may not, or has no room."""
        return self._draft.width(split[0]) < split[0].spec.most and fits(self._draft, split)

    def _give(self, unit: Unit, givers: Sequence[JointOffer]) -> bool:
        """Shrink or stop the givers, then admit the unit (jobs that start together); true if it fits."""
        for giver in givers:
            for job, width in giver:
                self._draft.narrow(job, width, unit[0].spec)
        self._draft.room.renew()
        return widened(self._draft, unit)


class Budget:
    """The tries of a round, divided equally among the users whose jobs wait.

    A try is an attempt to make room for a job, or to reserve cards for it.
    """

    def __init__(self, total: int, users: Collection[str]) -> None:
        self._left = total
        self._each = max(1, total // max(1, len(users)))
        self._used = Counter[str]()

    def take(self, user: str) -> bool:
        """Count one try of the user; false if the user has no try left."""
        if self._left <= 0 or self._used[user] >= self._each:
            return False
        self._left -= 1
        self._used[user] += 1
        return True


def _asked(unit: Unit) -> object:
    """A key of a unit (jobs that start together): for equal keys, the same running jobs are first to give cards."""
    return tuple((job.spec.asks, job.spec.least, job.spec.priority, job.spec.queue) for job in unit)


def _unanswered(giver: JointOffer) -> bool:
    return any(job.unanswered for job, _ in giver)


def _too_few(unit: Unit, lacking: float) -> float:
    """The largest number of freed cards that cannot be enough for a unit of jobs that lacks `lacking` cards.

    `lacking` counts free cards only in whole replicas, so free cards for a part of one more replica may exist.
    """
    return lacking - _largest(unit).cards + EXACT


def _largest(unit: Unit) -> JobSpec:
    """The job of the unit whose single replica needs the most cards."""
    return max((job.spec for job in unit), key=lambda spec: spec.cards)


def fits(draft: Draft, unit: Unit) -> bool:
    """Admit the unit's jobs on free cards, or one more sub-task of a split (job of sub-tasks); true if they fit.

    False, without a change, if not all of them fit. If an elastic job is alone in the unit, it gets the width asked for
    if that fits, else its least width. It is not narrowed for other waiting jobs, because equal jobs end earlier, on
    average, one after another than side by side.
    """
    first = unit[0]
    if len(unit) == 1 and first.spec.elastic and draft.widen(first, first.spec.asked):
        return True
    return fits_least(draft, unit)


def fits_least(draft: Draft, unit: Unit) -> bool:
    """Admit the jobs on free cards with their least replicas; false, without a change, if they do not all fit."""
    if len(unit) == 1:
        return widened(draft, unit)
    with draft.trial() as trial:
        if widened(draft, unit):
            trial.keep()
    return trial.kept


def widened(draft: Draft, unit: Unit) -> bool:
    """Admit the unit's jobs in the draft (plan), each with its least replicas, or one more sub-task of a split.

    Returns false if a job does not fit: the jobs before it stay admitted, and the caller must undo that.
    """
    return all(draft.widen(job, max(job.spec.least, job.spec.next_width(draft.width(job)))) for job in unit)
