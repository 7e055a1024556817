"""Goals of running jobs: a job that began with the width written on it gets the width that it needs.

The speed of its model was not known when it began. Once its program has reported progress for some minutes, the rate is
learnt; the rate, the work left and the time left give the number of replicas that it needs. The width changes once
only, as each change costs a start.
"""

from bisect import bisect_left
from math import ceil

from device_plugin.core.jobs.job import JobState, Telling
from device_plugin.core.jobs.plan import Draft
from device_plugin.core.jobs.rates import Curve
from device_plugin.core.jobs.rules import Rules

# A job that is late by less than this share of its duration keeps its width.
LATE = 0.05
# So does a job that could spare less than this share of its replicas.
SPARE = 0.25
# Seconds for which a program may run before it reports any progress.
SILENT_S = 900.0


def unsized(job: JobState) -> bool:
    """True for a running job with a goal that has the width that is written on it, and may be given another one."""
    goal, spec = job.spec.goal, job.spec
    return (
        goal is not None and not goal.bounded and job.as_written and not job.held and spec.least < spec.most
    )  # fmt: skip


def spent(job: JobState) -> float:
    """The seconds that a running job has had at the width that it has."""
    return job.attained / (job.width * job.spec.cards)


def silent(job: JobState) -> bool:
    """True for a program that has run for SILENT_S without a report of progress: none is expected any more."""
    return job.telling is Telling.NOTHING and spent(job) >= SILENT_S


def goal_width(job: JobState, curve: Curve, most: int) -> int:
    """The allowed width, at most `most`, that the running job needs to be done in time.

    Its own if a change is not worth it.

    It is that for the longest duration that its author allows where none is enough for the duration, and the job's own
    where none is enough for that either. `curve` is that of the job's own cards.
    """
    goal, each, had = job.spec.goal, ceil(job.spec.cards), spent(job)
    left = job.seconds_left(job.width)
    if goal is None or left is None:
        return job.width
    samples = left * curve.speed(job.width * each)
    widths = job.spec.widths_between(1, most)

    def needed(seconds: float) -> int:
        """The fewest replicas that do the rest before the job has run for `seconds`; more than `most` if none do."""
        position = bisect_left(
            widths, 1, key=lambda width: had + samples / curve.speed(width * each) <= seconds
        )
        return widths[position] if position < len(widths) else most + 1

    found = next((n for n in map(needed, (goal.seconds, goal.most_seconds)) if n <= most), job.width)
    late = had + left > goal.seconds * (1 + LATE)
    worth = late if found > job.width else found <= job.width * (1 - SPARE)
    return found if worth else job.width


def narrow_to_goals(draft: Draft, rules: Rules) -> None:
    """Take from jobs what they do not need to be done in time."""
    for job in draft.jobs.values():
        if 0 < job.goal_width < job.width and _may_change(draft, job, rules):
            draft.narrow(job, job.goal_width)


def widen_to_goals(draft: Draft, rules: Rules) -> None:
    """Give jobs what they need to be done in time, those that began first; what is not free they wait for."""
    late = (job for job in draft.jobs.values() if job.goal_width > job.width)
    for job in sorted(late, key=lambda job: (job.since, job.spec.key)):
        if _may_change(draft, job, rules):
            draft.widen(job, job.goal_width)


def _may_change(draft: Draft, job: JobState, rules: Rules) -> bool:
    rested = draft.now >= job.resized + rules.cooldown_s
    return job.running and not job.held and rested and draft.width(job) == job.width
