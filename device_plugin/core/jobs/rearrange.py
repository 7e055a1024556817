"""Make room for a job that does not fit: shrink the fewest jobs that suffice, else suspend jobs whose turn is over.

Whatever is planned was tried in the room and undone first. Nobody gives cards to a job of lower priority; among equal
priorities a job of another queue gives only while its queue has more than its share.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from math import ceil

from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, due, need, share
from device_plugin.core.jobs.rank import expected_work, level, turn_end
from device_plugin.core.jobs.rules import Rules

# Single jobs that are tried before several together, and jobs that are tried to be spared again: each try is a trial.
TRIES = 16
# Shares of cards are added up: less than this is nothing.
EXACT = 1e-9

Offer = tuple[JobState, int]
"""A running job, and a width that it may be left with; 0 if it is suspended."""


class Rearrangement:
    """The running jobs of one round that may give cards, in the order in which they do."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        running = [job for job in draft.jobs.values() if job.running and job.spec.cards and not job.held]
        self._wide = sorted(
            (job for job in running if job.adjustable and job.width > job.spec.least),
            key=lambda job: (job.spec.priority, -(job.width - job.spec.least) * job.spec.cards, job.spec.key),
        )
        ending = [job for job in running if not job.spec.joint]
        self._levels = {job.spec.key: level(expected_work(job), rules) for job in ending}
        self._ending = sorted(
            ending,
            key=lambda job: (job.spec.priority, -self._levels[job.spec.key], job.since, job.spec.key),
        )
        self._left = rules.searches
        self.made = False
        """True once a job was admitted because others gave way."""

    def admit(self, unit: Unit) -> bool:
        """Admit the jobs at their least widths where others give way; false, and nothing changes, if that fails."""
        if self._left <= 0 or not all(job.spec.preempts for job in unit):
            return False
        self._left -= 1
        largest = _largest(unit)
        lacking = max(0.0, need(unit) - self._draft.room.free(largest) * largest.cards)
        before: list[Offer] = []
        for givers in self._givers(unit):
            if givers and self._make(unit, givers, before, lacking):
                self.made = True
                return True
            before += givers
        return False

    def _givers(self, unit: Unit) -> Iterator[Sequence[Offer]]:
        """The jobs that may give, each with the least width that it may be left with: lower priorities come first.

        Jobs shrink before one is suspended, and of each priority before the next: a job that is suspended then finds
        none of a lower priority that could give way to it in turn.
        """
        priority = min(job.spec.priority for job in unit)
        shrinking = [job for job in self._wide if self._may_shrink(job, unit)]
        stopping = [job for job in self._ending if self._draft.width(job) and self._may_stop(job, unit)]
        for lower in (True, False):
            yield [(job, job.spec.least) for job in shrinking if (job.spec.priority < priority) is lower]
            ending = (job for job in stopping if (job.spec.priority < priority) is lower)
            for _, jobs in groupby(ending, key=lambda job: job.spec.priority):
                yield [(job, 0) for job in jobs]

    def _make(self, unit: Unit, givers: Sequence[Offer], before: Sequence[Offer], lacking: float) -> bool:
        """Admit the unit where one of `givers` suffices, or several together; those of `before` give first."""
        alone = (offer for offer in givers if self._may_suffice(unit, self._gives(*offer), lacking))
        for job, floor in islice(alone, TRIES):
            if self._apply(unit, [(job, self._kept(job, floor, lacking))]):
                return True
        offers = self._together(unit, [*before, *givers], lacking)
        return bool(offers) and self._apply(unit, self._spared(unit, offers))

    def _may_suffice(self, unit: Unit, given: float, lacking: float) -> bool:
        """False if this number of cards is too few.

        Free cards are counted in whole replicas, so those of up to one more may be free.
        """
        return given > lacking - _largest(unit).cards + EXACT

    def _gives(self, job: JobState, floor: int) -> float:
        return (self._draft.width(job) - floor) * job.spec.cards

    def _kept(self, job: JobState, floor: int, lacking: float) -> int:
        """The width that a job keeps when cards are lacking: it gives what is needed, and a share of its width."""
        width = self._draft.width(job)
        given = max(ceil(lacking / job.spec.cards - EXACT), ceil(job.width * self._rules.giving), 1)
        return max(floor, width - given) if floor else 0

    def _together(self, unit: Unit, givers: Sequence[Offer], lacking: float) -> Sequence[Offer]:
        """The offers of the first givers that suffice together; none if all of them do not."""
        draft, offers = self._draft, dict[JobKey, Offer]()
        most = {job.spec.key: self._gives(job, floor) for job, floor in givers}
        if not self._may_suffice(unit, sum(most.values()), lacking):
            return ()
        with draft.trial():
            for job, floor in givers:
                kept = self._kept(job, floor, lacking)
                lacking -= self._gives(job, kept)
                draft.narrow(job, kept, unit[0].spec)
                offers[job.spec.key] = job, kept
                if lacking <= EXACT and fits(draft, unit):
                    return list(offers.values())
            return list(offers.values()) if fits(draft, unit) else ()

    def _spared(self, unit: Unit, offers: Sequence[Offer]) -> Sequence[Offer]:
        """The offers without those that turn out not to be needed."""
        for offer in offers[:TRIES]:
            fewer = [other for other in offers if other is not offer]
            with self._draft.trial():
                if fewer and self._give(unit, fewer):
                    offers = fewer
        return offers

    def _apply(self, unit: Unit, offers: Sequence[Offer]) -> bool:
        with self._draft.trial() as trial:
            if self._give(unit, offers):
                trial.keep()
        return trial.kept

    def _give(self, unit: Unit, offers: Sequence[Offer]) -> bool:
        for job, width in offers:
            self._draft.narrow(job, width, unit[0].spec)
        return _widen(self._draft, unit)

    def _may_shrink(self, job: JobState, unit: Unit) -> bool:
        if self._draft.width(job) <= job.spec.least:
            return False
        priority = min(each.spec.priority for each in unit)
        return job.spec.priority < priority or (job.spec.priority == priority and self._shares(job, unit))

    def _may_stop(self, job: JobState, unit: Unit) -> bool:
        """True if the running job may be suspended for the unit: its turn is over, and its rank is worse."""
        priority, now, rules = min(each.spec.priority for each in unit), self._draft.now, self._rules
        if job.spec.priority != priority:
            return job.spec.priority < priority
        # Sub-tasks that are suspended begin anew.
        if job.spec.parts or now < job.since + rules.quantum_s or not self._shares(job, unit):
            return False
        if any(due(each, now, rules) for each in unit):
            return True
        if all(each.phase is JobPhase.STOPPED for each in unit) and now < turn_end(job, rules):
            return False
        return self._levels[job.spec.key] > max(level(expected_work(each), rules) for each in unit)

    def _shares(self, job: JobState, unit: Unit) -> bool:
        """True if the job's queue is that of the unit, or has more cards for its weight than the unit's will have."""
        queue, rules = unit[0].spec.queue, self._rules
        if job.spec.queue == queue:
            return True
        wanted = share(self._draft, queue, rules) + need(unit) / rules.weight(queue)
        return share(self._draft, job.spec.queue, rules) > wanted


def _largest(unit: Unit) -> JobSpec:
    """The job of which one replica takes the most cards."""
    return max((job.spec for job in unit), key=lambda spec: spec.cards)


def fits(draft: Draft, unit: Unit) -> bool:
    """Admit the jobs at their least widths on free cards; false, and nothing changes, if they do not all fit."""
    if len(unit) == 1:
        return draft.widen(unit[0], unit[0].spec.least)
    with draft.trial() as trial:
        if _widen(draft, unit):
            trial.keep()
    return trial.kept


def _widen(draft: Draft, unit: Unit) -> bool:
    return all(draft.widen(job, job.spec.least) for job in unit)
