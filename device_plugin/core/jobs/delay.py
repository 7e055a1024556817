"""The delay that a wide job causes to later jobs.

While a job holds most of a pool, later jobs find no cards, and each waits until the pool has worked off the queue. So
cards are kept for a wide job only once it has waited for longer than it delays all later jobs together. Otherwise one
job that needs all cards would cost a stream of small jobs more time than it gains. If cards were never kept for the
wide job, it would wait until the stream ends; here cards are kept for it after `LONGEST_S` at the latest.

The estimate, from the running jobs, because ended jobs are not known:

1. The rate of new jobs is the number of jobs that hold cards, divided by the length of a typical run (Little's law).
2. The wide jobs run for some seconds, in which new jobs find no cards.
3. After that the pool starts the waiting jobs with the share of its cards that new jobs do not use.
4. The delay is the number of jobs that waited, times the seconds of steps 2 and 3.
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
# Seconds that a job of unknown length is expected to run.
UNKNOWN_S = 4 * HOUR
# A job that has waited for less than this many seconds waits for the next round, not for cards.
AT_ONCE_S = 120.0
# The least typical run in seconds, and the bounds of the used share of a pool: one moment says little about a day.
SHORTEST_S = 600.0
LEAST_USED, MOST_USED = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class _Wide:
    """The facts about a unit (waiting jobs that start together) that decide how long it delays later jobs.

    `waited` and `run` are the seconds that it has waited and that it will run. `over` is the share of the pool's cards
    that is missing for the unit if other jobs use as many cards as usual. Above 0 the unit is wide.
    """

    waited: float
    run: float
    over: float


class Delays:
    """Compares, in one round, the time that a wide job has waited with the delay that it would cause to later jobs.

    A job is wide if it needs more cards than the pool has besides the cards that are usually in use.
    """

    def __init__(self, draft: Draft, rules: Rules) -> None:
        self._draft = draft
        self._rules = rules
        self._cards = draft.room.cards()
        # The jobs that held cards before this round, at the widths asked for, so that two rounds in a row have equal
        # estimates. If all cards are closed no delay can be estimated.
        ran = [job for job in draft.jobs.values() if _ran(job, draft.now)] if self._cards else []
        held = sum(job.spec.asked * job.spec.cards for job in ran)
        self._used = min(MOST_USED, max(LEAST_USED, held / self._cards)) if held else 0.0
        # New jobs per second, by Little's law: the number of jobs on the used cards, divided by a typical run.
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
        """True if no job of the unit has ever run, and no other waiting job has waited for AT_ONCE_S seconds."""
        own = {job.spec.key for job in unit}
        return all(job.phase is JobPhase.WAITING for job in unit) and not any(
            key not in own and not self._draft.widths[key] for key in self._waiting
        )

    def outweighed(self, unit: Unit, start_s: float = 0.0) -> bool:
        """True if a unit (jobs that start together) has waited longer than it would delay all later jobs together.

        The delay is estimated for a start in `start_s` seconds. Other due wide jobs run right after the unit, so they
        are counted with it. Always true in these cases:

        - The unit is not wide: the pool has enough cards for it and for the usual use. Or it has waited for LONGEST_S
          seconds.
        - One of its jobs was stopped, because the engine promises the latest time at which a stopped job goes on.
        - No job ran before this round, because the delay is then unknown.
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
        # The jobs that come in this time and find no cards, and the seconds until the pool's unused share has run them.
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
    """True if the job held cards before this round began."""
    if not job.spec.cards or not job.attained:
        return False
    return job.started < now if job.width else job.phase is JobPhase.STOPPED and job.since >= now


def _length(job: JobState) -> float:
    """The seconds of a job's whole run with the replicas asked for; if its end is unknown, twice its run until now."""
    ran, left = attained_work(job) / job.spec.asked, job.seconds_left(job.spec.asked)
    return ran + (ran if left is None else left)
