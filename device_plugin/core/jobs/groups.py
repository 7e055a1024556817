"""Groups: Jobs of one namespace that start together, and the checks that they agree with each other."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from device_plugin.core.contract import annotations
from device_plugin.core.counted import counted
from device_plugin.core.jobs.job import GroupKey, JobKey, JobPhase, JobSpec, JobState
from device_plugin.core.requests import MAX_GANG


def group_problem(jobs: Sequence[JobSpec]) -> str:
    """An error text, with the correction to write, if Jobs of a group contradict each other; else empty.

    `jobs` are all Jobs of the group.
    """
    ordered = sorted(jobs, key=lambda job: job.key)
    if len(ordered) < 2:
        return ""
    first, group = ordered[0], ordered[0].group
    alone = next((job for job in ordered if not job.joint), None)
    if alone:
        beside = ordered[1] if alone is first else first
        return (
            f"the pods of Jobs {_name(alone)} and {_name(beside)} are of one group, {group}, but the Jobs are not:"
            f" write the label {annotations.GROUP} on both Jobs, or another group on the pods of one"
        )
    if other := _differing(ordered, lambda job: job.queue):
        return (
            f"Jobs {_name(first)} and {_name(other)} of group {group} wait in the queues {first.queue} and"
            f" {other.queue}: write one {annotations.QUEUE} on all Jobs of the group"
        )
    return _number_problem(group, ordered) or _size_problem(group, [job for job in ordered if job.cards])


def undeclared(jobs: Sequence[JobSpec]) -> int:
    """The number of Jobs that the group still lacks; if all Jobs exist, the number of pods that the group lacks."""
    return _missing_jobs(jobs) or _missing_pods(jobs)


def waiting_for_others(jobs: Iterable[JobState]) -> Mapping[JobKey, str]:
    """For each waiting Job of a group, a text with the missing Jobs or pods, or the held Job, that it waits for."""
    groups: dict[GroupKey, list[JobState]] = {}
    for job in jobs:
        if (group := job.spec.group_key) is not None:
            groups.setdefault(group, []).append(job)
    found: dict[JobKey, str] = {}
    for members in groups.values():
        if text := _missing([job.spec for job in members]) or _held(members):
            found |= {job.spec.key: text for job in members if job.queued}
    return found


def _missing(jobs: Sequence[JobSpec]) -> str:
    """A text with the number of Jobs or pods that a group lacks; empty if the group is complete."""
    group = jobs[0].group
    if count := _missing_jobs(jobs):
        return f"{counted(count, 'more Job')} of group {group}"
    count = _missing_pods(jobs)
    return f"{counted(count, 'more pod')} of group {group}" if count else ""


def _held(jobs: Iterable[JobState]) -> str:
    """A text with the first Job of a group that a user holds back (on hold); empty if there is none."""
    held = min((job.spec for job in jobs if job.phase is JobPhase.HELD), key=_name, default=None)
    return f"Job {_name(held)} of group {held.group}, which is held" if held is not None else ""


def _missing_jobs(jobs: Sequence[JobSpec]) -> int:
    return max(0, max((job.group_jobs for job in jobs), default=0) - len(jobs))


def _missing_pods(jobs: Sequence[JobSpec]) -> int:
    asking = [job for job in jobs if job.cards]
    return max(0, asking[0].group_size - _together(asking)) if asking else 0


def _number_problem(group: str, jobs: Sequence[JobSpec]) -> str:
    """An error text if the Jobs of a group state different numbers of Jobs, or fewer than there are; else empty."""
    saying = [job for job in jobs if job.group_jobs]
    if not saying:
        return ""
    first, number = saying[0], saying[0].group_jobs
    if other := _differing(saying, lambda job: job.group_jobs):
        return (
            f"Jobs {_name(first)} and {_name(other)} say that group {group} has {number} and {other.group_jobs} Jobs:"
            f" write one {annotations.GROUP_JOBS} on all of them"
        )
    if len(jobs) > number:
        return (
            f"{annotations.GROUP_JOBS} of group {group} is {number}, but it has {len(jobs)} Jobs: write {len(jobs)} on"
            f" all of them, or another {annotations.GROUP} on some"
        )
    return ""


def _size_problem(group: str, asking: Sequence[JobSpec]) -> str:
    """An error text if a group's pods state different numbers of pods, or a number that is too small; else empty.

    A number is too small if the Jobs `asking` for cards need more pods together. It is also an error if they need more
    than MAX_GANG pods.
    """
    if not asking:
        return ""
    first, size, together = asking[0], asking[0].group_size, _together(asking)
    if other := _differing(asking, lambda job: job.group_size):
        return (
            f"the pods of Jobs {_name(first)} and {_name(other)} say that group {group} has {size or 'no'} and"
            f" {other.group_size or 'no'} pods that start together: write one {annotations.GROUP_SIZE} on all of them,"
            " or none"
        )
    if together > MAX_GANG:
        return f"group {group} needs {together} pods at least: write smaller minima, {MAX_GANG} in all"
    if size and together > size:
        return (
            f"{annotations.GROUP_SIZE} of group {group} is {size}, but its Jobs need {together} pods at least: write"
            f" {together}, or smaller minima"
        )
    return ""


def _differing(jobs: Sequence[JobSpec], value: Callable[[JobSpec], object]) -> JobSpec | None:
    """The first Job whose value differs from the value of the first Job in the list; None if all are equal."""
    return next((job for job in jobs if value(job) != value(jobs[0])), None)


def _together(jobs: Sequence[JobSpec]) -> int:
    return sum(job.least for job in jobs)


def _name(job: JobSpec) -> str:
    return job.key[1]
