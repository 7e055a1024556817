"""The stage that a change of a Job's width has reached: it follows from the Job, its pods and its record alone.

    shrink, stop:   ASKED → (a checkpoint) → LEAVING → FREED → OVER
                                                     → OVERDUE → OVER
    growth:         ASKED → JOINING → OVER
    start:                  JOINING → OVER

The record is an annotation of the Job (`vgpu.io/resize`). An engine that takes over reads there which changes its
predecessor began, so no engine needs a memory of its own. A record that is OVER stays on the Job: it costs no write and
has no effect, except that the next record has a greater `gen`.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from enum import Enum

from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.groups import undeclared
from device_plugin.core.jobs.job import GroupKey, JobKey
from device_plugin.core.jobs.spec import ROLES
from device_plugin.state.managed import Managed


class Stage(Enum):
    """The stages that a change of a Job's width (number of pods) goes through."""

    NONE = "none"
    """The Job has no record."""
    ASKED = "asked"
    """The record is written; the Job still has its old width."""
    LEAVING = "leaving"
    """The Job has its new width, and pods beyond it still exist."""
    OVERDUE = "overdue"
    """Pods beyond the new width still exist after the record's end, as on a dead node: no more slices become free."""
    FREED = "freed"
    """The pods beyond the new width are gone; their slices are kept for the beneficiary, the job that gets them."""
    JOINING = "joining"
    """The Job has its new width, and not all of its pods are bound."""
    OVER = "over"
    """The change is complete, or its record has ended."""
    OVERRULED = "overruled"
    """The record is void: somebody has since changed, stopped or started the Job, or ended the change."""


UNDER_WAY = (Stage.ASKED, Stage.LEAVING, Stage.FREED, Stage.JOINING, Stage.OVERRULED)
"""The stages of a change that still needs writes, or still waits for pods."""
RELEASING = (Stage.ASKED, Stage.LEAVING, Stage.FREED)
"""The stages of a shrink or stop until the freed slices have been taken."""


def stage(managed: Managed, now: float) -> Stage:
    """The stage that the Job's latest change of width, announced by its record, has reached.

    The Job's author can end a change by naming its number (`gen`): then the stage is OVERRULED.
    """
    record = managed.record
    if record is None:
        return Stage.NONE
    reached = _reached(managed, record, now)
    ended = reached in UNDER_WAY and managed.spec.dropped == record.gen
    return Stage.OVERRULED if ended else reached


def _reached(managed: Managed, record: Resize, now: float) -> Stage:
    if record.shrinks and (record.applied or not managed.lives):
        return _released(managed, record, now)
    if now >= record.until or not managed.lives:
        return Stage.OVER
    if not managed.has(record.after if record.applied else record.before):
        return Stage.OVERRULED
    if not record.applied:
        return Stage.ASKED
    return Stage.OVER if _joined(managed, record.after) else Stage.JOINING


def stages(jobs: Mapping[JobKey, Managed], now: float) -> Mapping[JobKey, Stage]:
    """The stages that the changes of all Jobs have reached.

    A change whose freed slices are kept for a job is OVER once this job does not wait for the slices any more.
    """
    found = {key: stage(managed, now) for key, managed in jobs.items()}
    held = held_groups(jobs.values())
    for key, reached in found.items():
        record = jobs[key].record
        if reached is Stage.FREED and record is not None and not wanted(record, jobs, held):
            found[key] = Stage.OVER
    return found


def by_beneficiary(
    jobs: Mapping[JobKey, Managed], reached: Mapping[JobKey, Stage]
) -> Mapping[JobKey, Sequence[Managed]]:
    """The Jobs that shrink or stop for another job, by the key of the other job.

    A Job is left out once its freed slices were taken, or if the other job does not wait for them any more.
    """
    found: dict[JobKey, list[Managed]] = {}
    held = held_groups(jobs.values())
    for key, managed in jobs.items():
        record = managed.record
        if record is None or record.beneficiary is None or reached[key] not in RELEASING:
            continue
        if record.shrinks and wanted(record, jobs, held):
            found.setdefault(record.beneficiary, []).append(managed)
    return found


def by_group(jobs: Iterable[Managed]) -> Mapping[GroupKey, Sequence[Managed]]:
    """The live Jobs of groups that start together, by namespace and group, in the order in which they start."""
    found: dict[GroupKey, list[Managed]] = {}
    for managed in jobs:
        if managed.lives and (group := managed.spec.group_key) is not None:
            found.setdefault(group, []).append(managed)
    return {group: sorted(members, key=turn) for group, members in found.items()}


def turn(managed: Managed) -> tuple[int, JobKey]:
    """A sort key: it puts the Jobs of a group in the order in which they start, by role and then by name."""
    role = managed.spec.role
    return (ROLES.index(role) if role in ROLES else len(ROLES)), managed.key


def promised_widths(
    helped: Managed, giving: Iterable[Managed], groups: Mapping[GroupKey, Sequence[Managed]]
) -> Mapping[JobKey, int]:
    """The widths of the job `helped`, for which the Jobs `giving` make room, and of the waiting Jobs of its group.

    Empty if these Jobs would not start together now: for instance, a Job of the group is gone, or a new Job has come.
    """
    replicas = max(managed.record.replicas for managed in giving if managed.record is not None)
    group = helped.spec.group_key
    if group is None or not replicas:
        # The author may have removed that width from the list since.
        width = replicas if helped.may_have(replicas) else helped.spec.width_at_most(replicas)
        return {helped.key: width} if width else {}
    members = groups[group]
    unit = [managed for managed in members if managed.waits]
    left = replicas - sum(managed.spec.least for managed in unit)
    # A Job that has run does not wait again for Jobs of its group that have ended since.
    specs = [replace(each.spec, group_jobs=0) if each.ran else each.spec for each in members]
    if left < 0 or undeclared(specs) or any(each.spec.kueue or each.spec.on_hold for each in unit):
        return {}
    found: dict[JobKey, int] = {}
    for managed in unit:
        spec = managed.spec
        found[managed.key] = max(spec.least, spec.width_at_most(min(spec.most, spec.least + left)))
        left -= found[managed.key] - spec.least
    return found


def wanted(record: Resize, jobs: Mapping[JobKey, Managed], held: Set[GroupKey]) -> bool:
    """True if a shrink still helps: the job that gets the cards waits, and was not started after the record.

    The beneficiary may also be a running split, a Job of sub-tasks, that waits until more of them may run at a time. A
    shrink without a beneficiary always helps. A shrink for a group in `held` does not help, because none of that
    group's waiting Jobs starts.
    """
    if record.beneficiary is None:
        return True
    helped = jobs.get(record.beneficiary)
    if helped is None or not helped.wants(record.replicas):
        return False
    if helped.spec.group_key in held:
        return False
    return helped.record is None or helped.record.asked < record.asked


def held_groups(jobs: Iterable[Managed]) -> Set[GroupKey]:
    """The groups that cannot start because a user holds (pauses) one of their waiting Jobs, by namespace and group."""
    groups = (each.spec.group_key for each in jobs if each.spec.on_hold and each.waits)
    return {group for group in groups if group is not None}


def _released(managed: Managed, record: Resize, now: float) -> Stage:
    """The stage of a shrink or stop that is already written as the Job's new number of pods, or whose Job has ended."""
    if managed.lives and not managed.has(record.after):
        return Stage.OVERRULED if now < record.until else Stage.OVER
    if not _gone(managed, record.after if managed.lives else 0):
        return Stage.LEAVING if now < record.until else Stage.OVERDUE
    return Stage.FREED if now < record.until and record.beneficiary is not None else Stage.OVER


def _gone(managed: Managed, width: int) -> bool:
    """True if no pod is left beyond `width`, by our watch of pods and by the Job controller's own count.

    Our watch alone is not enough: it may not show yet a pod that the controller made just before it saw the new width.
    """
    job = managed.job
    return job.active <= width and not job.terminating and not any(managed.leaving(width))


def _joined(managed: Managed, width: int) -> bool:
    """True if `width` pods are bound; sub-tasks of a split that have succeeded count as bound."""
    bound = sum(bool(pod.node) and not pod.deleting for pod in managed.pods)
    return bound + managed.job.succeeded >= width
