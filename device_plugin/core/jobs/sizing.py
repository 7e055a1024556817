"""Sizing: finds the number of replicas that a job needs to be done in time, or alternatives if they do not fit.

A job with a goal has a number of samples, a number of epochs, and a duration.

1. It needs the smallest number n of cards with samples * epochs / (n * rate(n)) <= duration. The rate of one card falls
   if n grows.
2. If fewer replicas fit now, the duration may grow up to the author's limit. Other alternatives, such as fewer samples,
   are only offered in a text.

A trial places the replicas to find out whether they fit; sums of free cards do not decide it.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf

from device_plugin.core.contract import annotations
from device_plugin.core.counted import counted
from device_plugin.core.durations import span
from device_plugin.core.jobs.goals import SILENT_S, goal_width, silent, spent, unsized
from device_plugin.core.jobs.job import JobKey, JobPhase, JobSpec, JobState, Telling, pods
from device_plugin.core.jobs.rates import Curve, Rates
from device_plugin.core.jobs.room import Room
from device_plugin.core.jobs.spec import Goal

Fits = Callable[[int], bool]
"""True if this number of replicas of the job fits now, together; a smaller number then fits too."""

# Most jobs for which sizing tries the room in one round: each costs about ten trials of up to 1,024 replicas.
MOST_TRIED = 16
# A width is enough if its seconds, times this, are within the goal's duration, so that rounding errors do not decide.
_ENOUGH = 1 - 1e-9


@dataclass(frozen=True, slots=True)
class Sized:
    """The width (number of replicas) found for a job, and the seconds that the job is expected to take."""

    width: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Short:
    """The alternatives of a job whose replicas do not fit.

    With the `now` replicas that fit now the job takes `now_seconds`, and does `now_samples` samples in its duration.
    With `needed` replicas it would be done in time; 0 if no allowed width is enough. `cards` is the number of cards of
    one replica. `guess`: the rate is that of another card model.
    """

    goal: Goal
    cards: int
    now: int
    now_seconds: float
    now_samples: int
    needed: int
    guess: bool


def size(job: JobSpec, curve: Curve, fits: Fits) -> Sized | Short:
    """The width with which a job reaches its goal, if this width fits now; else the alternatives (Short)."""
    goal, each = _goal(job), ceil(job.cards)
    work = float(goal.samples) * goal.epochs

    def seconds(width: int) -> float:
        return work / curve.speed(width * each)

    widths = job.widths_between(job.least, job.most)
    enough = bisect_left(widths, 1, key=lambda width: seconds(width) * _ENOUGH <= goal.seconds)
    wanted = min(enough, len(widths) - 1)
    width = widths[wanted] if fits(widths[wanted]) else _largest(widths[:wanted], fits)
    if width and seconds(width) * _ENOUGH <= goal.most_seconds:
        return Sized(width, seconds(width))
    samples = floor(curve.speed(width * each) * goal.seconds / goal.epochs) if width else 0
    return Short(
        goal,
        each,
        width,
        seconds(width) if width else 0.0,
        samples,
        widths[enough] if enough < len(widths) else 0,
        curve.guess,
    )


@dataclass(frozen=True, slots=True)
class Sizing:
    """The jobs of a round after sizing, and texts for people.

    - `jobs` have their widths; jobs that cannot be sized at all are not among them, and `refused` says why.
    - `short` are the alternatives of jobs that wait for room.
    - `unsized` has a text for each job that still has the width that its author wrote: when it will be sized, or which
      width it needs. `silent` says why some of these jobs will not be sized.
    - In `again` seconds the next text may come into `silent`.
    """

    jobs: Sequence[JobState]
    short: Mapping[JobKey, Short]
    refused: Mapping[JobKey, str]
    unsized: Mapping[JobKey, str] = field(default_factory=dict)
    silent: Mapping[JobKey, str] = field(default_factory=dict)
    again: float = inf


def with_widths(
    jobs: Iterable[JobState], room: Room, rates_of: Callable[[str], Rates], cards: Collection[str]
) -> Sizing:
    """Give the jobs with a goal their widths, by the rates of their namespaces; returns jobs and texts.

    `cards` are the present card models. A width reaches the goal if the job is done in time with it. If no width that
    fits now reaches the goal, the job waits for the width that it needs. If no width at all reaches it, the job is
    refused and not among the returned jobs. The oldest job of each namespace comes first. If no rate is known, a job
    begins with the width written on it, and gets the width that it needs once its program has reported enough progress.
    """
    found = _Found(room, rates_of, cards)
    for job in _in_turn(jobs):
        if job.spec.goal is None:
            found.jobs.append(job)
        elif job.phase in (JobPhase.WAITING, JobPhase.REFUSED):
            found.size_waiting(job, job.spec.goal)
        elif unsized(job):
            found.size_running(job, job.spec.goal)
        else:
            found.jobs.append(job if job.spec.goal.bounded else replace(job, spec=_fixed(job.spec)))
    return Sizing(
        found.jobs, found.short, found.refused, found.unsized, found.silent, min(found.changes, default=inf)
    )


class _Found:
    """Collects the results of sizing for the jobs of a round, one job after another."""

    def __init__(self, room: Room, rates_of: Callable[[str], Rates], cards: Collection[str]) -> None:
        self._room = room
        self._rates_of = rates_of
        self._cards = cards
        self._tried = 0
        self.jobs = list[JobState]()
        self.short = dict[JobKey, Short]()
        self.refused = dict[JobKey, str]()
        self.unsized = dict[JobKey, str]()
        self.silent = dict[JobKey, str]()
        self.changes = list[float]()

    def size_waiting(self, job: JobState, goal: Goal) -> None:
        """Find the number of replicas of a job that has never run; record it, or alternatives, or a refusal."""
        spec, rates = job.spec, self._rates_of(job.spec.key[0])
        curve = self._curve(rates, spec, goal)
        if curve is None:
            self.jobs.append(replace(job, spec=with_width(spec, spec.asked, goal.seconds)))
            self.unsized[spec.key] = (
                f"{rates.unknown(goal.model)}: it starts with the width that is written, {pods(spec.asked)}, and is"
                " sized once its program has reported its progress for some minutes"
            )
            return
        found = size(spec, curve, _trial(self._room, spec, self._tried < MOST_TRIED))
        self._tried += 1
        if isinstance(found, Sized):
            self.jobs.append(replace(job, spec=with_width(spec, found.width, found.seconds)))
        elif found.needed:
            self.short[spec.key] = found
            self.jobs.append(replace(job, spec=with_width(spec, found.needed, goal.seconds)))
        else:
            self.refused[spec.key] = offers(found)

    def size_running(self, job: JobState, goal: Goal) -> None:
        """Find the number of replicas that a running job needs, if its rate is known; else record why it is not found.

        The job keeps the width that is written on it; the engine changes it later to the width found.
        """
        spec, rates = job.spec, self._rates_of(job.spec.key[0])
        curve = self._curve(rates, spec, goal)
        job = replace(job, spec=_fixed(spec))
        if curve is not None and not curve.learnt:
            # The operator's table gave this job the width that is also the written width.
            self.jobs.append(job)
            return
        if curve is not None and not curve.guess and job.telling is Telling.ENOUGH:
            width = goal_width(job, curve, min(spec.most, self._room.capacity(spec)))
            self.jobs.append(replace(job, goal_width=width))
            if width != job.width:
                self.unsized[spec.key] = f"needs {pods(width)} to be done in time"
            return
        self.jobs.append(job)
        if silent(job):
            self.unsized[spec.key] = self.silent[spec.key] = (
                f"is not sized, because its program has reported no progress in {span(SILENT_S)}: let it write its"
                f" progress into $VGPU_PROGRESS, let an operator add a line for {goal.model} to the table of rates, or"
                f" write parallelism in place of {annotations.SAMPLES}"
            )
            return
        self.unsized[spec.key] = (
            f"{rates.unknown(goal.model)}: it is sized once its program has reported its progress for some minutes"
        )
        if job.telling is Telling.NOTHING:
            self.changes.append(SILENT_S - spent(job))

    def _curve(self, rates: Rates, job: JobSpec, goal: Goal) -> Curve | None:
        """The speeds of the goal's model on the slowest card model that the job accepts; None if no rate is known."""
        accepted = [card for card in self._cards if job.request.models.accepts_model(card)]
        return rates.slowest(goal.model, accepted)


def _in_turn(jobs: Iterable[JobState]) -> Iterable[JobState]:
    """The jobs in turns by age: first the oldest job with a goal of each namespace, then the second, and so on."""
    turns, found = Counter[str](), list[tuple[int, JobState]]()
    for job in sorted(jobs, key=lambda job: (job.since, job.spec.key)):
        found.append((turns[job.spec.key[0]], job))
        turns[job.spec.key[0]] += job.spec.goal is not None
    return (job for _, job in sorted(found, key=lambda each: each[0]))


def with_width(job: JobSpec, width: int, seconds: float) -> JobSpec:
    """The job with `width` as its only width, or as its least width if its author wrote bounds.

    `seconds` is the expected duration with this width.
    """
    most = job.most if _goal(job).bounded else width
    return replace(job, asked=width, least=width, most=most, expected_seconds=seconds)


def _fixed(job: JobSpec) -> JobSpec:
    """The job with its present number of replicas as the only allowed one."""
    return replace(job, least=job.asked, most=job.asked)


def _trial(room: Room, job: JobSpec, sought: bool) -> Fits:
    """A function that tests whether a number of the job's replicas fits the room.

    If `sought` is false, the room is not searched, and the function always returns false.
    """

    def fits(width: int) -> bool:
        with room.trial():
            return room.take(job, width)

    return fits if sought else lambda _: False


def _goal(job: JobSpec) -> Goal:
    if job.goal is None:
        raise ValueError(f"job {job.key} has no goal")
    return job.goal


def _largest(widths: Sequence[int], fits: Fits) -> int:
    """The largest of the ascending widths (numbers of replicas) that fits; 0 if none does."""
    found, first, last = 0, 0, len(widths) - 1
    while first <= last:
        middle = (first + last + 1) // 2
        if fits(widths[middle]):
            found, first = widths[middle], middle + 1
        else:
            last = middle - 1
    return found


def offers(short: Short, wait_seconds: float | None = None) -> str:
    """The alternatives of a job whose replicas do not fit, as text, with the annotations to write for them.

    `wait_seconds` is the time until enough cards are expected; None if it is not known.
    """
    goal, found = short.goal, []
    if short.now:
        cards, more = counted(short.now * short.cards, "card"), _compact(short.now_seconds)
        found.append(f"{span(short.now_seconds)} with {cards} now ({annotations.DURATION_AT_MOST}: {more})")
    if short.needed:
        when = "when they are free" if wait_seconds is None else f"in about {span(wait_seconds)}"
        found.append(f"{span(goal.seconds)} with {counted(short.needed * short.cards, 'card')} {when}")
    if samples := _rounded(short.now_samples):
        found.append(f"{samples:,} samples in {span(goal.seconds)} now ({annotations.SAMPLES}: {samples})")
    if not found:
        return (
            f"no number of cards that the Job may have is enough for {span(goal.seconds)}: write a longer"
            f" {annotations.DURATION}, or fewer {annotations.SAMPLES}"
        )
    text = found[0] if len(found) == 1 else f"{', '.join(found[:-1])}, or {found[-1]}"
    return f"{text}; a guess from another card's rate" if short.guess else text


def _compact(seconds: float) -> str:
    """A duration in the form that annotations have, rounded up to minutes: `11h40m`."""
    hours, minutes = divmod(ceil(seconds / 60), 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes or not hours else "")


def _rounded(number: int) -> int:
    """The number rounded down to its first two digits: 1,234 to 1,200."""
    if number < 100:
        return number
    unit = int("1" + "0" * (len(str(number)) - 2))
    return number // unit * unit
