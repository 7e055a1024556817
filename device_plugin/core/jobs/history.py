"""Histories of progress: the speed of a job at each width, its remaining work, and whether it is stuck.

The job's program reports its progress, and the reports may stay the same, go backwards or be false. So a history takes
a bounded amount of memory, never raises an exception, and gives no figure before some minutes of reports.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from math import log

from device_plugin.core.jobs.job import EXPONENT
from device_plugin.core.jobs.progress import Progress

# Seconds for which a job must have advanced before figures are computed from its reports.
ENOUGH_S = 300.0
# Seconds at one width that are remembered; older measurements count less and less.
REMEMBERED_S = 3600.0
MOST_WIDTHS, MOST_INTERVALS = 8, 15
# Most jobs with a history, those with the newest reports; each history takes up to 3 KiB.
MOST_JOBS = 16384
# A job is stuck after this many times its usual interval between two advances, and this many seconds at least.
STUCK_TIMES, STUCK_S = 10, 600.0


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """The work that a job did with `width` replicas, in `units` of its own, and the `seconds` that the work took."""

    width: int
    units: float
    seconds: float

    @property
    def rate(self) -> float:
        """Units of work per second."""
        return self.units / self.seconds


@dataclass(frozen=True, slots=True)
class History:
    """The progress that a job has reported until now.

    `progress` is the latest report, from the time `at`, with `width` replicas. `since` is the time when the job last
    advanced, or when its program began; None if the program has reported nothing since it began. `measured` holds one
    rate for each of the last MOST_WIDTHS widths, the newest at the end. `intervals` are the last times between two
    advances, in seconds.
    """

    progress: Progress
    width: int
    at: float
    since: float | None
    measured: tuple[MeasuredRate, ...] = ()
    intervals: tuple[float, ...] = ()

    def after(self, now: float, width: int, progress: Progress | None) -> "History":
        """The history after a report of `progress` at `now`; `width` is 0 while not all replicas run.

        - `progress` is None if the program reports none: then it may have started again.
        - Another total may mean another unit of work: all measurements are dropped.
        - Less work done than before means that the program went on from a checkpoint: measuring starts again there.
        - An advance at an unchanged width gives a measured speed.
        """
        last = self.progress
        if progress is None:
            return replace(self, since=None)
        if progress.total != last.total:
            return History(progress, width, now, now)
        if self.since is None or width != self.width or progress.done < last.done or now < self.at:
            return replace(self, progress=progress, width=width, at=now, since=now)
        if progress.done == last.done or now == self.since:
            return replace(self, progress=progress, at=now)
        seconds, units = now - self.since, float(progress.done - last.done)
        measured = _added(self.measured, MeasuredRate(width, units, seconds)) if width else self.measured
        intervals = (*self.intervals, seconds)[-MOST_INTERVALS:]
        return History(progress, width, now, now, measured, intervals)

    @property
    def exponent(self) -> float:
        """The exponent e, 0 to 1, in speed ~ width ** e.

        It is computed from two widths that were measured for ENOUGH_S each; without two such widths it is EXPONENT.
        """
        known = [each for each in self.measured if each.seconds >= ENOUGH_S]
        if len(known) < 2:
            return EXPONENT
        least = min(known, key=lambda each: each.width)
        most = max(known, key=lambda each: each.width)
        return min(1.0, max(0.0, log(most.rate / least.rate) / log(most.width / least.width)))

    @property
    def remaining(self) -> float | None:
        """The work left, in seconds of one replica; None while too little is measured."""
        if sum(each.seconds for each in self.measured) < ENOUGH_S:
            return None
        newest = self.measured[-1]
        speed: float = newest.rate / newest.width**self.exponent
        return (self.progress.total - self.progress.done) / speed

    def seconds_left(self, width: int) -> float | None:
        """The seconds until the end with `width` replicas; None for 0 replicas, and while too little is measured."""
        remaining = self.remaining
        if remaining is None or width < 1:
            return None
        speed: float = width**self.exponent
        return remaining / speed

    @property
    def stuck_for(self) -> float | None:
        """The seconds for which the job has not advanced, if they are unusually many for this job; else None."""
        if self.since is None or not self.intervals or self.progress.done == self.progress.total:
            return None
        usual = sorted(self.intervals)[len(self.intervals) // 2]
        waited = self.at - self.since
        return waited if waited >= max(STUCK_S, STUCK_TIMES * usual) else None


class Histories:
    """The histories of at most MOST_JOBS jobs, by the UIDs of their Jobs."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, History] = OrderedDict()

    def add(self, uid: str, now: float, width: int, progress: Progress | None) -> None:
        """Add a job's report at `now`; `History.after` explains `progress` and `width`.

        A job without a history gets one with its first progress. Beyond MOST_JOBS histories the history with the oldest
        report is dropped.
        """
        before = self._known.get(uid)
        if before is not None:
            self._known[uid] = before.after(now, width, progress)
        elif progress is not None:
            self._known[uid] = History(progress, width, now, now)
        else:
            return
        self._known.move_to_end(uid)
        if len(self._known) > MOST_JOBS:
            self._known.popitem(last=False)

    def of(self, uid: str) -> History | None:
        """The history of the job with this UID; None if the job has reported nothing."""
        return self._known.get(uid)

    def forget(self, uid: str) -> None:
        """Drop the history of a Job that is gone."""
        self._known.pop(uid, None)


def _added(measured: tuple[MeasuredRate, ...], more: MeasuredRate) -> tuple[MeasuredRate, ...]:
    """The measured rates, with the measurement `more` added to the rate of its width.

    This rate is now the newest; beyond MOST_WIDTHS rates the oldest is dropped.
    """
    before = next((each for each in measured if each.width == more.width), MeasuredRate(more.width, 0.0, 0.0))
    units, seconds = before.units + more.units, before.seconds + more.seconds
    part = min(1.0, REMEMBERED_S / seconds)
    others = [each for each in measured if each.width != more.width]
    return (*others[1 - MOST_WIDTHS :], MeasuredRate(more.width, units * part, seconds * part))
