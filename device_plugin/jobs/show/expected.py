"""Forecasts of the start and the end of a Job, from the latest round."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

from device_plugin.core.jobs.forecast import MOST_SECONDS
from device_plugin.core.jobs.history import History
from device_plugin.core.jobs.job import JobState
from device_plugin.core.jobs.plan import Plan


@dataclass(frozen=True, slots=True)
class Expected:
    """The time from which a waiting Job is expected to run with `width` pods, and its expected end.

    Times are in seconds since 1970; None if a time is not known. A running Job has no `start`. If `promised` is true,
    cards are kept for the Job.
    """

    width: int
    start: float | None = None
    end: float | None = None
    promised: bool = False

    def as_object(self) -> Mapping[str, object]:
        """The forecast as JSON."""
        return {
            "width": self.width, "start": self.start and int(self.start), "end": self.end and int(self.end),
            "promised": self.promised,
        }  # fmt: skip


def expected(
    state: JobState, plan: Plan, now: float, *,
    start: float | None = None, given: float | None = None, history: History | None = None,
) -> Expected | None:  # fmt: skip
    """The forecast for a Job in the round of `now`; None if nothing is known.

    `start` is the time at which the waiting Job is expected to have room. `given` is the time by which other Jobs will
    have left, if the Job was admitted to their cards. The reports in `history` may be newer than the round.
    """
    if given is not None:
        return Expected(state.width, given, _end(state.seconds_left(state.width), given), promised=True)
    if state.queued:
        reserved, least = plan.reserved.get(state.spec.key), state.spec.least
        if reserved is not None and reserved.start < inf:
            start = reserved.start
        if start is None:
            return Expected(least, promised=True) if reserved is not None else None
        return Expected(least, start, _end(state.seconds_left(least), start), promised=reserved is not None)
    left = history.seconds_left(state.width) if history is not None else None
    if history is not None and left is not None:
        end = _end(left, history.at)
    else:
        end = _end(state.seconds_left(state.width) if state.width else None, now)
    return Expected(state.width, None, end) if end is not None else None


def _end(left: float | None, start: float) -> float | None:
    return start + left if left is not None and left <= MOST_SECONDS else None
