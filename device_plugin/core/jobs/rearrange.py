"""Make room for a job that does not fit: shrink jobs, else stop jobs, and take no more than the job needs.

Whatever is planned was tried in the room and undone first. `consent` decides which jobs may give to which. Cards that a
plan frees are for use: unless the job is due, no more of them may stay idle than are newly used.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from math import ceil

from device_plugin.core.jobs.consent import (
    Claim,
    Stoppable,
    group_key,
    may_shrink,
    may_stop,
    narrows,
    stoppable,
)
from device_plugin.core.jobs.job import EXACT, JobKey, JobSpec, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, due, lately_changed, need
from device_plugin.core.jobs.rules import Rules

# Single jobs that are tried before several together, and jobs that are tried to be spared again: each try is a trial.
TRIES = 16
# Waiting units that are tried on what a stop would leave idle.
MOST_BEHIND = 256

Offer = tuple[JobState, int]
"""A running job, and a width that it may be left with; 0 if it is stopped."""
JointOffer = tuple[Offer, ...]
"""The offers that are taken together or not at all: that of one job, or those of a group that is stopped."""
Behind = Callable[[], Iterable[Unit]]
"""The waiting units after one, in their order."""


class Rearrangement:
    """The running jobs of one round that may give cards, in the order in which they do."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        # A job that has let a request for a checkpoint pass is asked last.
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
        # By queue of the jobs that room is made for.
        self._ordered: dict[str, Sequence[Stoppable]] = {}
        self._groups = {running.group: running for running in self._stoppable if running.group}
        users = {job.spec.user for job in draft.jobs.values() if job.queued or job.extendable}
        self._searches = Budget(rules.searches, users)
        # Jobs that others made room for in this plan; they are not asked to give way themselves.
        self._helped = set[JobKey]()
        # The job that alone gave to the last unit by shrinking, and what that unit asked for.
        self._last: tuple[object, JobState] | None = None

    @property
    def made(self) -> bool:
        """True once a job was admitted because others gave way."""
        return bool(self._helped)

    def admit(self, unit: Unit, behind: Behind = tuple) -> bool:
        """Admit the jobs at their least widths where others give way; false, and nothing changes, if that fails.

        With them those of `behind` are admitted that it takes to use what the others gave.
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
        """The cards that are missing for the unit. It takes a look at all nodes: only where room is sought at all."""
        largest = _largest(unit)
        return max(0.0, need(unit) - self._draft.room.free(largest) * largest.cards)

    def _once_more(self, unit: Unit, behind: Behind) -> bool:
        """Admit the unit if the job that gave to the unit before it gives again: 64 equal jobs need no 64 searches."""
        if self._last is None or self._last[0] != _asked(unit):
            return False
        _, job = self._last
        if not may_shrink(job, Claim.of(unit, self._draft, self._rules), self._draft, self._rules):
            return False
        return self._apply(unit, [self._kept(((job, job.floor),), self._lacking(unit))], behind)

    def stopped(self, unit: Unit) -> bool:
        """True if running jobs of the unit's group are stopped in this plan: the group starts again whole.

        So is a split that could run more sub-tasks, and gives way.
        """
        if self._draft.narrowed(unit[0]):
            return True
        running = self._groups.get(group_key(unit[0].spec) or ("", ""))
        return running is not None and not self._draft.width(running.jobs[0])

    def may_stop(self, unit: Unit) -> Collection[JobKey]:
        """The running jobs that may be stopped for the unit."""
        claim = Claim.of(unit, self._draft, self._rules)
        return {
            job.spec.key
            for running in self._stoppable
            if may_stop(running, claim, self._draft, self._rules)
            for job in running.jobs
        }

    def _givers(self, unit: Unit) -> Iterator[Sequence[JointOffer]]:
        """The jobs that may give, each with the least width that it may be left with: lower priorities come first.

        Jobs shrink before one is stopped, and of each priority before the next: a job that is stopped then finds none
        of a lower priority that could give way to it.
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
            # Looked for only where shrinking was not enough: of thousands of jobs this takes milliseconds.
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
        """The jobs that may be stopped for one of the queue, in the order in which they are."""
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
        """Admit the unit where one of `givers` suffices, or several together; those of `before` give first."""
        too_few = _too_few(unit, lacking)
        alone = [self._kept(giver, lacking) for giver in givers if self._gives(giver) > too_few]
        # The offer that gives least comes first; the order among equals stays.
        for giver in sorted(alone, key=lambda each: (_unanswered(each), self._gives(each)))[:TRIES]:
            if self._apply(unit, [giver], behind):
                (job, width), *_ = giver
                self._last = (_asked(unit), job) if width else None
                return True
        chosen = self._together(unit, [*before, *givers], lacking)
        return bool(chosen) and self._apply(unit, self._spared(unit, chosen), behind)

    def _gives(self, giver: JointOffer) -> float:
        """The number of cards that the offers release."""
        return sum((self._draft.width(job) - width) * job.spec.cards for job, width in giver)

    def _kept(self, giver: JointOffer, lacking: float) -> JointOffer:
        """The width that a giver keeps, which gives only what is needed."""
        (job, floor), *_ = giver
        if not floor:
            return giver
        given = max(ceil(lacking / job.spec.cards - EXACT), 1)
        return ((job, max(floor, job.spec.width_at_most(self._draft.width(job) - given))),)

    def _together(self, unit: Unit, givers: Sequence[JointOffer], lacking: float) -> Sequence[JointOffer]:
        """The first givers that suffice together, with what they keep; none if all of them do not."""
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
                # The cards that a job gave by shrinking are part of those that it gives with its group.
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

    def _apply(self, unit: Unit, givers: Sequence[JointOffer], behind: Behind) -> bool:
        """Carry the offers out where the unit then fits, and enough of what they give is used."""
        given = sum(map(self._gives, givers))
        with self._draft.trial() as trial:
            if self._give(unit, givers):
                with_it = self._used(unit, given, behind)
                if with_it is not None:
                    self._helped |= {job.spec.key for each in (unit, *with_it) for job in each}
                    trial.keep()
        return trial.kept

    def _used(self, unit: Unit, given: float, behind: Behind) -> Sequence[Unit] | None:
        """The further units that are admitted so that no more cards are idled than used; None if there are too few."""
        used, admitted = need(unit), list[Unit]()
        if any(due(job, self._draft.now, self._rules) for job in unit):
            return admitted
        while unit[0].spec.parts and used < given - used - EXACT and self._one_more(unit):
            used += unit[0].spec.cards
        failed = set[object]()
        for other in islice(behind(), MOST_BEHIND) if used < given - used - EXACT else ():
            kind = tuple((job.spec.request, job.spec.nodes, job.spec.least) for job in other)
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
        """Admit one more sub-task of a split on free cards; false if it may run no more, or none fits."""
        return self._draft.width(split[0]) < split[0].spec.most and fits(self._draft, split)

    def _give(self, unit: Unit, givers: Sequence[JointOffer]) -> bool:
        """Carry the offers out; what a reservation names of the cards goes to it. True if the unit then fits."""
        for giver in givers:
            for job, width in giver:
                self._draft.narrow(job, width, unit[0].spec)
        self._draft.room.renew()
        return widened(self._draft, unit)


class Budget:
    """Tries that are left in a round, shared out equally over the users whose jobs wait."""

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


def _asked(unit: Unit) -> object:
    """Everything of a unit that decides which jobs give to it first."""
    return tuple(
        (job.spec.request, job.spec.nodes, job.spec.least, job.spec.priority, job.spec.queue) for job in unit
    )


def _unanswered(giver: JointOffer) -> bool:
    return any(job.unanswered for job, _ in giver)


def _too_few(unit: Unit, lacking: float) -> float:
    """The largest number of cards that do not suffice for a unit that lacks these, however they lie.

    Free cards are counted in whole replicas, so those of up to one more may be free.
    """
    return lacking - _largest(unit).cards + EXACT


def _largest(unit: Unit) -> JobSpec:
    """The job with the largest replicas, by cards."""
    return max((job.spec for job in unit), key=lambda spec: spec.cards)


def fits(draft: Draft, unit: Unit) -> bool:
    """Admit the jobs on free cards, or one more sub-task of a split that has some; false if they do not all fit.

    An elastic job has the width asked for, or else its least one: equal jobs end earlier one after another than all at
    once. Nothing changes if the jobs do not fit.
    """
    first = unit[0]
    if len(unit) == 1 and first.spec.elastic and draft.widen(first, first.spec.asked):
        return True
    return fits_least(draft, unit)


def fits_least(draft: Draft, unit: Unit) -> bool:
    """Admit the jobs as `fits` does, each with its least width; false if they do not all fit."""
    if len(unit) == 1:
        return widened(draft, unit)
    with draft.trial() as trial:
        if widened(draft, unit):
            trial.keep()
    return trial.kept


def widened(draft: Draft, unit: Unit) -> bool:
    """Admit the jobs one after another, or one more sub-task; false, with some changed, if they do not all fit."""
    return all(draft.widen(job, max(job.spec.least, job.spec.next_width(draft.width(job)))) for job in unit)
