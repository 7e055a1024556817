"""Histories of progress: the speed of a job at each width, the work that is left, and whether it is stuck.

All of it is reported by the job's program: it may stand still, run backwards or be false. So it takes a bounded amount
of memory, never raises, and gives no figure before it was observed for a while.
"""

from collections import OrderedDict
from dataclasses import dataclass, replace
from math import log

from device_plugin.core.jobs.job import EXPONENT
from device_plugin.core.jobs.progress import Progress

# A job must have been seen to advance for this long, in seconds, before anything is concluded from it.
ENOUGH_S = 300.0
# Seconds at one width that are remembered: what was before counts less and less.
REMEMBERED_S = 3600.0
MOST_WIDTHS, MOST_INTERVALS = 8, 15
# Jobs of which a history is kept, the ones with the newest reports; each takes up to 3 KiB.
MOST_JOBS = 16384
# A job is stuck after this many times its usual interval between two advances, and this many seconds at least.
STUCK_TIMES, STUCK_S = 10, 600.0


@dataclass(frozen=True, slots=True)
class MeasuredRate:
    """The units of work that a job has done at one width, and the seconds that they took."""

    width: int
    units: float
    seconds: float

    @property
    def rate(self) -> float:
        """Units per second."""
        return self.units / self.seconds


@dataclass(frozen=True, slots=True)
class History:
    """The progress that a job has reported until now.

    `progress` was reported last, at the time `at`, with `width` replicas. `since` is when it advanced last or its
    program began, None while the program has reported nothing since it began. `measured` is at most one value for each
    of MOST_WIDTHS widths, the newest at the end, and `intervals` are the last times between two advances, in seconds.
    """

    progress: Progress
    width: int
    at: float
    since: float | None
    measured: tuple[MeasuredRate, ...] = ()
    intervals: tuple[float, ...] = ()

    def after(self, now: float, width: int, progress: Progress | None) -> "History":
        """The history with `progress` as reported at `now`, None for no news; `width` is 0 while not all replicas run.

        Between two advances at one width the job has a speed. Where less is done than before, the program has begun
        again from a checkpoint, and its speed is measured again from there; where there is another amount to do, the
        unit may be another one, and nothing that was measured counts any more.
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
        """The exponent of the speed in the width: 0 to 1, measured where two widths were, else EXPONENT."""
        known = [each for each in self.measured if each.seconds >= ENOUGH_S]
        if len(known) < 2:
            return EXPONENT
        least = min(known, key=lambda each: each.width)
        most = max(known, key=lambda each: each.width)
        return min(1.0, max(0.0, log(most.rate / least.rate) / log(most.width / least.width)))

    @property
    def remaining(self) -> float | None:
        """The work left, in seconds of one replica; None as long as too little was measured."""
        if sum(each.seconds for each in self.measured) < ENOUGH_S:
            return None
        newest = self.measured[-1]
        speed: float = newest.rate / newest.width**self.exponent
        return (self.progress.total - self.progress.done) / speed

    def seconds_left(self, width: int) -> float | None:
        """The seconds until the end with `width` replicas; None as long as too little was measured."""
        remaining = self.remaining
        if remaining is None or width < 1:
            return None
        speed: float = width**self.exponent
        return remaining / speed

    @property
    def stuck_for(self) -> float | None:
        """The seconds for which the job has not advanced, if that is unusual for it; None if it is not."""
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
        """Add a job's report at `now`; `progress` and `width` are those of History.after."""
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
        """The history of a job, None if it has reported nothing."""
        return self._known.get(uid)

    def forget(self, uid: str) -> None:
        """The Job is gone."""
        self._known.pop(uid, None)


def _added(measured: tuple[MeasuredRate, ...], more: MeasuredRate) -> tuple[MeasuredRate, ...]:
    """The measured values with one more, which is the newest then."""
    before = next((each for each in measured if each.width == more.width), MeasuredRate(more.width, 0.0, 0.0))
    units, seconds = before.units + more.units, before.seconds + more.seconds
    part = min(1.0, REMEMBERED_S / seconds)
    others = [each for each in measured if each.width != more.width]
    return (*others[1 - MOST_WIDTHS :], MeasuredRate(more.width, units * part, seconds * part))
