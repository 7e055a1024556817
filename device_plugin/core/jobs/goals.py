"""Goals of running jobs: change a job's width once, from the width that its author wrote to the width that it needs.

A goal is a time in which a job must be done. A job with a goal may start while the speed of its model is unknown:

1. Its program reports progress for some minutes, and the rate is learnt.
2. The rate, the work left and the time left give the number of replicas that the job needs.
3. Its width changes to this number, only once, because each change costs a restart.
"""

from bisect import bisect_left
from math import ceil

from device_plugin.core.jobs.job import JobState, Telling
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.rates import Curve
from device_plugin.core.jobs.rules import Rules

# A job keeps its width if it will be late by less than this share of its duration.
LATE = 0.05
# A job keeps its width if it could spare less than this share of its replicas.
SPARE = 0.25
# A program that reports no progress in this many seconds is expected to report none later.
SILENT_S = 900.0


def unsized(job: JobState) -> bool:
    """True for a running job with a goal that still has the width written by its author, if the width may change.

    A goal is a time in which the job must be done. False if the author wrote bounds for the width.
    """
    goal, spec = job.spec.goal, job.spec
    return (
        goal is not None and not goal.bounded and job.as_written and not job.held and spec.least < spec.most
    )  # fmt: skip


def spent(job: JobState) -> float:
    """The seconds that a running job's past work (service) would have taken at its present width."""
    return job.attained / (job.width * job.spec.cards)


def silent(job: JobState) -> bool:
    """True if the job has run for SILENT_S without any report of progress by its program."""
    return job.telling is Telling.NOTHING and spent(job) >= SILENT_S


def goal_width(job: JobState, curve: Curve, most: int) -> int:
    """The allowed width, at most `most`, that the running job needs to be done in time.

    If no width is enough for the duration, the result is the width for the longest duration that the author allows. If
    no width is enough for that either, if a change is not worth a restart, or if the work left is unknown, the result
    is the present width. `curve` has the speeds of the job's own card model.
    """
    goal, each, had = job.spec.goal, ceil(job.spec.cards), spent(job)
    left = job.seconds_left(job.width)
    if goal is None or left is None:
        return job.width
    samples = left * curve.speed(job.width * each)
    widths = job.spec.widths_between(1, most)

    def needed(seconds: float) -> int:
        """The fewest replicas with which the whole run takes at most `seconds`; more than `most` if none is enough."""
        position = bisect_left(
            widths, 1, key=lambda width: had + samples / curve.speed(width * each) <= seconds
        )
        return widths[position] if position < len(widths) else most + 1

    found = next((n for n in map(needed, (goal.seconds, goal.most_seconds)) if n <= most), job.width)
    late = had + left > goal.seconds * (1 + LATE)
    worth = late if found > job.width else found <= job.width * (1 - SPARE)
    return found if worth else job.width


def narrow_to_goals(draft: Draft, rules: Rules) -> None:
    """Narrow the jobs that have more replicas than they need to be done in time."""
    for job in draft.jobs.values():
        if 0 < job.goal_width < job.width and _may_change(draft, job, rules):
            draft.narrow(job, job.goal_width)


def widen_to_goals(draft: Draft, rules: Rules) -> None:
    """Widen the jobs that need more replicas to be done in time, the oldest first, while cards are free."""
    late = (job for job in draft.jobs.values() if job.goal_width > job.width)
    for job in sorted(late, key=lambda job: (job.since, job.spec.key)):
        if _may_change(draft, job, rules):
            draft.widen(job, job.goal_width)


def _may_change(draft: Draft, job: JobState, rules: Rules) -> bool:
    rested = draft.now >= job.resized + rules.cooldown_s
    return job.running and not job.held and rested and draft.width(job) == job.width
