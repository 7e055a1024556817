"""Sizing: how many replicas a job needs to be done in time, and what can be had where there is no room for them.

A job with a goal has samples to go through, in so many epochs, and a duration. The cards that it needs are samples *
epochs / (rate(n) * duration), rounded up. The rate of each card falls with their number n, so it is the smallest n that
is enough. Where fewer replicas fit, the duration may grow up to the author's limit, and nothing else changes: fewer
samples are only offered. Whether replicas fit is asked of a trial, which places them; it is never a sum.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil, floor

from device_plugin.core import annotations
from device_plugin.core.jobs.job import JobSpec
from device_plugin.core.jobs.rates import Curve
from device_plugin.core.jobs.spec import Goal

Fits = Callable[[int], bool]
"""True if so many replicas of the job fit now, together. Where some fit, fewer do."""

# Of a duration that is enough up to rounding.
_ENOUGH = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Sized:
    """The width of a job in replicas, their cards, and the seconds that it will take; a guess if its curve is one."""

    width: int
    cards: int
    seconds: float
    guess: bool


@dataclass(frozen=True, slots=True)
class Short:
    """What can be had of a job whose replicas do not fit.

    With `now` replicas, which fit, it takes `now_seconds`; in its duration they do `now_samples` of its samples. With
    `needed` replicas it would be done in time; 0 if no width that it may have is enough.
    """

    goal: Goal
    cards: int
    now: int
    now_seconds: float
    now_samples: int
    needed: int
    guess: bool


def size(job: JobSpec, curve: Curve, fits: Fits) -> Sized | Short:
    """The width of a job with a goal, from its least to its most, or what can be had in place of it."""
    goal, each = _goal(job), ceil(job.cards)
    work = float(goal.samples) * goal.epochs

    def seconds(width: int) -> float:
        return work / curve.speed(width * each)

    widths = range(job.least, job.most + 1)
    needed = bisect_left(widths, 1, key=lambda width: seconds(width) * _ENOUGH <= goal.seconds) + job.least
    wanted = min(needed, job.most)
    width = wanted if fits(wanted) else _largest(job.least, wanted - 1, fits)
    if width and seconds(width) * _ENOUGH <= goal.most_seconds:
        return Sized(width, width * each, seconds(width), curve.guess)
    samples = floor(curve.speed(width * each) * goal.seconds / goal.epochs) if width else 0
    return Short(
        goal,
        each,
        width,
        seconds(width) if width else 0.0,
        samples,
        needed if needed <= job.most else 0,
        curve.guess,
    )


def with_width(job: JobSpec, found: Sized) -> JobSpec:
    """The job with the width that was found, which stays unless its author wrote bounds."""
    if _goal(job).bounded:
        return replace(job, asked=found.width, expected_seconds=found.seconds)
    return replace(
        job, asked=found.width, least=found.width, most=found.width, expected_seconds=found.seconds
    )


def _goal(job: JobSpec) -> Goal:
    if job.goal is None:
        raise ValueError(f"job {job.key} has no goal")
    return job.goal


def _largest(least: int, most: int, fits: Fits) -> int:
    """The largest width from `least` to `most` that fits; 0 if none does."""
    found = 0
    while least <= most:
        middle = (least + most + 1) // 2
        if fits(middle):
            found, least = middle, middle + 1
        else:
            most = middle - 1
    return found


def offers(short: Short, wait_seconds: float | None = None) -> str:
    """What a job's author can have, and what to write for it; `wait_seconds` is when enough cards are expected."""
    goal, found = short.goal, []
    if short.now:
        cards, more = _cards(short.now * short.cards), _compact(short.now_seconds)
        found.append(f"{span(short.now_seconds)} with {cards} now ({annotations.DURATION_AT_MOST}: {more})")
    if short.needed:
        when = "when they are free" if wait_seconds is None else f"in about {span(wait_seconds)}"
        found.append(f"{span(goal.seconds)} with {_cards(short.needed * short.cards)} {when}")
    if samples := _rounded(short.now_samples):
        found.append(f"{samples:,} samples in {span(goal.seconds)} now ({annotations.SAMPLES}: {samples})")
    if not found:
        return (
            f"no number of cards that the Job may have is enough for {span(goal.seconds)}, and not one pod fits now:"
            f" write a longer {annotations.DURATION}, or fewer {annotations.SAMPLES}"
        )
    text = found[0] if len(found) == 1 else f"{', '.join(found[:-1])}, or {found[-1]}"
    return f"{text}; a guess from another card's rate" if short.guess else text


def span(seconds: float) -> str:
    """A time as people say it, in two units and rounded up: `45 s`, `50 min`, `11 h 40 min`, `2 d 4 h`."""
    if seconds < 60:
        return f"{ceil(seconds)} s"
    minutes = ceil(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        hours, rest = divmod(minutes, 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(ceil(minutes / 60), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def _compact(seconds: float) -> str:
    """A time as annotations have it, rounded up to minutes: `11h40m`."""
    hours, minutes = divmod(ceil(seconds / 60), 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes or not hours else "")


def _cards(number: int) -> str:
    return f"{number} card{'' if number == 1 else 's'}"


def _rounded(number: int) -> int:
    """The number with its first two digits, and zeros for the others."""
    if number < 100:
        return number
    unit = int("1" + "0" * (len(str(number)) - 2))
    return number // unit * unit
