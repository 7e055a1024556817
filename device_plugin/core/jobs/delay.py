"""The delay that a wide job causes to the jobs that come after it.

While a job has most of a pool, the jobs that come find no cards, and each of them waits until the pool has caught up.
So a wide job has waited for long enough only once it has waited for longer than it delays all others together.
Otherwise one job of all cards, behind a stream of small ones, costs these more than it gains. Under FIFO it would wait
for the end of the stream; here cards are kept for it after `LONGEST_S` at the latest.

Jobs that have ended are not seen, so the rate at which jobs come is estimated from those that run.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median_high

from device_plugin.core.jobs.job import EXACT, JobKey, JobPhase, JobState
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.queue import Unit, due, need
from device_plugin.core.jobs.rank import attained_work
from device_plugin.core.jobs.rules import HOUR, Rules

LONGEST_S = 96 * HOUR
# The run of a job of which nothing is known.
UNKNOWN_S = 4 * HOUR
# A job that has waited for less than this waits for the next round, not for cards.
AT_ONCE_S = 120.0
# Jobs are taken to run for this long at least, and to use between these shares of a pool: what runs in one moment says
# little of a day.
SHORTEST_S = 600.0
LEAST_USED, MOST_USED = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class _Wide:
    """A job, or several, next to which others do not fit: `over` is the share of the pool that is missing for them."""

    waited: float
    run: float
    over: float


class Delays:
    """The delays that the waiting jobs of one round would cause."""

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        self._cards = draft.room.cards()
        # The jobs that held cards until now, at the widths asked for: the first round changes nothing in this for the
        # second. Where all cards are closed no delay is known.
        ran = [job for job in draft.jobs.values() if _ran(job, draft.now)] if self._cards else []
        held = sum(job.spec.asked * job.spec.cards for job in ran)
        self._used = min(MOST_USED, max(LEAST_USED, held / self._cards)) if held else 0.0
        # By Little's law, the jobs that come per second: the number that the used cards hold, divided by the time that
        # one runs.
        self._rate = 0.0
        if ran:
            typical = max(SHORTEST_S, median_high(map(_length, ran)))
            self._rate = len(ran) * self._used * self._cards / held / typical
        self._wide = dict(self._due_ones()) if ran else {}
        self._waiting = [
            key for key, job in draft.jobs.items()
            if job.queued and draft.now >= job.since + AT_ONCE_S and key not in draft.refused
        ]  # fmt: skip

    def alone(self, unit: Unit) -> bool:
        """True if the jobs have never run, and no other job waits for cards."""
        own = {job.spec.key for job in unit}
        return all(job.phase is JobPhase.WAITING for job in unit) and not any(
            key not in own and not self._draft.widths[key] for key in self._waiting
        )

    def outweighed(self, unit: Unit, start_s: float = 0.0) -> bool:
        """True if the unit has waited for longer than it delays the jobs that come, if it starts in `start_s` seconds.

        Other wide jobs that are due run right after it, and so they are counted with it. A job that was stopped has had
        a promise of when it goes on, which is kept.
        """
        if not self._rate or any(job.phase is JobPhase.STOPPED for job in unit):
            return True
        own = self._of(unit)
        if own.over <= EXACT or own.waited >= LONGEST_S:
            return True
        keys = {job.spec.key for job in unit}
        after = [wide for key, wide in self._wide.items() if key not in keys and not self._draft.widths[key]]
        together = [own, *after]
        run = start_s + sum(wide.run for wide in together)
        # Jobs that have come and find no cards; then they are started as fast as the unused share lets the pool.
        grown = self._rate * run * max(wide.over for wide in together) / self._used
        caught_up = grown * self._used / (self._rate * (1 - self._used))
        return sum(wide.waited for wide in together) >= grown * (run + caught_up)

    def _due_ones(self) -> Iterator[tuple[JobKey, _Wide]]:
        for key, job in self._draft.jobs.items():
            if due(job, self._draft.now, self._rules) and (wide := self._of((job,))).over > EXACT:
                yield key, wide

    def _of(self, unit: Unit) -> _Wide:
        left = [job.seconds_left(job.spec.least) for job in unit]
        return _Wide(
            waited=max(self._draft.now - job.since for job in unit),
            run=max(UNKNOWN_S if seconds is None else seconds for seconds in left),
            over=self._used + need(unit) / self._cards - 1,
        )


def _ran(job: JobState, now: float) -> bool:
    """True if the job held cards until now."""
    if not job.spec.cards or not job.attained:
        return False
    return job.started < now if job.width else job.phase is JobPhase.STOPPED and job.since >= now


def _length(job: JobState) -> float:
    """The seconds for which a job runs at the width asked for; one whose end is not known has run for half of them."""
    ran, left = attained_work(job) / job.spec.asked, job.seconds_left(job.spec.asked)
    return ran + (ran if left is None else left)
