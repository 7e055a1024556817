"""The input of a round: the states of the Jobs at one time, and the room to plan in."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from device_plugin.core.jobs.history import History
from device_plugin.core.jobs.job import EXPONENT, JobKey, JobPhase, JobSpec, JobState, Telling
from device_plugin.core.jobs.rank import declared_work
from device_plugin.core.jobs.room import LedgerRoom
from device_plugin.core.timestamps import seconds
from device_plugin.jobs.plan.fork import Fork
from device_plugin.jobs.stages import (
    RELEASING,
    Stage,
    by_beneficiary,
    by_group,
    promised_widths,
    stages,
)
from device_plugin.state.managed import Managed


@dataclass(frozen=True, slots=True)
class RoundInput:
    """The input of a round: the states of the live Jobs, and the room (cards) in which their replicas are held."""

    states: Sequence[JobState]
    room: LedgerRoom


def eased(now: float, jobs: Mapping[JobKey, Managed], fork: Fork) -> Collection[JobKey]:
    """The waiting jobs that fit on free cards now, although other Jobs were asked to make room for them.

    A job is left out once one of these other Jobs has begun to shrink or stop. For a group, the result has only the job
    that the records of the other Jobs name.
    """
    reached = stages(jobs, now)
    asked = {
        key: giving
        for key, giving in by_beneficiary(jobs, reached).items()
        if jobs[key].waits and all(reached[giver.key] is Stage.ASKED for giver in giving)
    }
    if not asked:
        return ()
    fork.renew(jobs.values(), now)
    groups = by_group(jobs.values())
    units = {key: promised_widths(jobs[key], giving, groups) for key, giving in asked.items()}
    return {
        key for key, unit in units.items()
        if unit and fork.take_together(((jobs[each], jobs[each].spec.least) for each in unit), keep=False)
    }  # fmt: skip


def round_input(
    now: float, jobs: Mapping[JobKey, Managed], fork: Fork, without: Collection[JobKey] = ()
) -> RoundInput:
    """The states of the live Jobs, each with the width that it will have once the changes under way are complete.

    The room is in `fork`, which is updated first. The jobs `without` are treated as if no other Job had been asked to
    make room for them. A suspended Job is left out if Kueue starts it, or if its pods were refused a short time ago and
    it is not on hold.
    """
    live = {key: managed for key, managed in jobs.items() if managed.lives}
    fork.renew(jobs.values(), now)
    reached = dict(stages(jobs, now))
    giving = by_beneficiary(jobs, reached) if without else {}
    reached |= {giver.key: Stage.OVER for key in without for giver in giving[key]}
    for key, managed in jobs.items():
        fork.leave(managed, _width(managed, reached[key]), ends=reached[key] is not Stage.OVERDUE)
    promised = _promised(jobs, reached, fork)
    states = [
        _state(now, managed, reached[key], promised.get(key, 0))
        for key, managed in live.items()
        if not (managed.job.suspend and (managed.spec.kueue or _paused(managed, now)))
    ]
    return RoundInput(states, fork.room())


def _paused(managed: Managed, now: float) -> bool:
    """True if the Job does not start now because its pods were refused; false for a held Job, which waits anyway."""
    return now < managed.paused_until and not managed.spec.on_hold


def _promised(
    jobs: Mapping[JobKey, Managed], reached: Mapping[JobKey, Stage], fork: Fork
) -> Mapping[JobKey, int]:
    """The width of each waiting job for which other Jobs are making room; the replicas are held in `fork`.

    A job is left out if it will not fit even then, for example because an engine crashed when it had asked only some of
    the Jobs; then the job is planned again. A record names one job of a group; the group's other jobs start with that
    job.
    """
    groups, found = by_group(jobs.values()), dict[JobKey, int]()
    for key, giving in by_beneficiary(jobs, reached).items():
        unit = promised_widths(jobs[key], giving, groups)
        more = (
            (jobs[each], width - (0 if jobs[each].waits else jobs[each].job.width))
            for each, width in unit.items()
        )
        if unit and fork.take_together(more):
            found |= unit
    return found


def _width(managed: Managed, reached: Stage) -> int:
    """The width of the Job once its shrink or stop is complete; a growth counts only when it is done."""
    record = managed.record
    if not managed.lives or managed.spec.on_hold:
        return 0
    if record is not None and reached is Stage.ASKED:
        return min(record.after, record.before)
    return 0 if managed.job.suspend else managed.job.width


def _state(now: float, managed: Managed, reached: Stage, promised: int) -> JobState:
    phase, width = _phase(now, managed, reached, promised)
    record = managed.record
    asked = record.asked if record is not None else None
    began = seconds(managed.job.created, now)
    if phase is JobPhase.RUNNING:
        # A change that was not carried out does not begin a new turn.
        began = managed.begun(now) if record is None or record.applied else seconds(managed.job.started, now)
    elif phase is JobPhase.HELD:
        began = record.held_since if record is not None and record.held_since else now
    elif record is not None:
        # The time for which it was held does not count as waiting.
        began = min(now, managed.rests_since(now) + record.held_for) if managed.job.suspend else record.asked
    resized = -inf if asked is None else max(asked, managed.paused_until)
    history = managed.history
    return JobState(
        spec=_bounded(managed, now), phase=phase, width=width, since=began, attained=managed.attained(now),
        remaining=_remaining(managed, now),
        exponent=history.exponent if history is not None else EXPONENT, held=_held(managed),
        young=len(managed.young(now)), unanswered=record.unsaved if record is not None else 0,
        as_written=managed.as_written, telling=_telling(history), resized=resized,
        started=-inf if managed.job.suspend else seconds(managed.job.started, now),
        stopped_s=record.stopped_for if record is not None else 0.0,
        displaced=managed.job.suspend and record is not None and record.beneficiary is not None,
    )  # fmt: skip


def _telling(history: History | None) -> Telling:
    """A grade of the program's reports: no progress was reported, too little for a forecast, or enough."""
    if history is None:
        return Telling.NOTHING
    return Telling.LITTLE if history.remaining is None else Telling.ENOUGH


def _remaining(managed: Managed, now: float) -> float | None:
    """The remaining work, in seconds of one replica: by the program's reports, or else by the Job's declared duration.

    None if neither is known.
    """
    told = managed.history.remaining if managed.history is not None else None
    return declared_work(managed.spec, managed.author_width, managed.attained(now)) if told is None else told


def _phase(now: float, managed: Managed, reached: Stage, promised: int) -> tuple[JobPhase, int]:
    """The phase of a live Job, and the width that the Job has or will have in this phase.

    `reached` is the stage of its latest change. `promised` is the width for which other Jobs make room; 0 for none.
    """
    job, record = managed.job, managed.record
    if job.suspend:
        if promised:
            return JobPhase.STARTING, promised
        # Pods that never end on a dead node do not keep the Job from starting, unless it waits for its pods' ends.
        leaving = managed.pods or job.active or job.terminating
        if leaving and (managed.waits_for_ends or reached is not Stage.OVERDUE):
            return JobPhase.STOPPING, 0
        if managed.spec.on_hold:
            return JobPhase.HELD, 0
        return (JobPhase.STOPPED if managed.ran else JobPhase.WAITING), 0
    if managed.spec.on_hold:
        return JobPhase.STOPPING, 0
    if record is not None and reached in (*RELEASING, Stage.OVERDUE):
        return JobPhase.RESIZING, _width(managed, reached)
    if promised:
        return JobPhase.STARTING, promised
    bound = sum(bool(pod.node) and not pod.deleting for pod in managed.pods)
    # A Job whose other pods are refused, or wait though there is room, counts as running with its bound pods, so that
    # it can be stopped for another job.
    whole = bound + job.succeeded >= job.width or (_partial(managed, now) and reached is not Stage.JOINING)
    return (JobPhase.RUNNING if whole else JobPhase.STARTING), job.width


def _partial(managed: Managed, now: float) -> bool:
    """True if some pods of the Job will not run soon: they are refused, or wait for something other than cards."""
    return bool(managed.refused or managed.stranded(now))


def _held(managed: Managed) -> bool:
    """True if the engine cannot change the running Job's width.

    Another controller decides the width, the API server refused to change it, or the Job could not start again after a
    stop.
    """
    # After a restart, pods of a group would wait for pods that have succeeded.
    whole = managed.index_ended and managed.spec.group != ""
    return bool(managed.spec.width_owner or managed.rigid) or whole


def _bounded(managed: Managed, now: float) -> JobSpec:
    """The Job's specification with the bounds that its width has now.

    A width that a user has set by hand does not grow, until the engine changes it for another job. A Job that has run
    does not wait again for Jobs of its group that have ended since. A Job that cannot change keeps its width.
    """
    spec, width = managed.spec, managed.job.width
    if managed.ran and spec.group_jobs:
        spec = replace(spec, group_jobs=0)
    if spec.parts and not managed.job.suspend:
        stays = _partial(managed, now) or now < managed.paused_until
        left = min(spec.most, spec.parts - managed.job.succeeded)
        return replace(spec, most=width if stays else max(width, left))
    if managed.rigid or managed.index_ended:
        return replace(spec, asked=width, least=width, most=width)
    # A running Job may have a width that its author has since removed from the list.
    runs = bool(spec.widths) and not managed.job.suspend
    if not spec.elastic or not (runs or spec.least <= width <= spec.most):
        return spec
    # A Job with refused pods has fewer pods than its width: a smaller width would free nothing.
    least = width if managed.spared(now) or managed.refused else spec.least
    most = width if managed.by_hand or _partial(managed, now) else spec.most
    return replace(spec, least=least, most=most) if least <= most else replace(spec, least=width, most=width)
