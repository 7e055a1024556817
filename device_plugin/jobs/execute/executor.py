"""Decides the writes that are due now, from the Jobs, their records and a plan; it keeps nothing from round to round.

A shrink for another job is three writes: the record, the new width with the record, and the start of the other job. A
growth is two: the record, and the new width with the record. An engine that takes over after any of these writes goes
on from the record: it completes the change, or drops the record if the change would help no job any more.

Nothing starts or grows unless a trial finds room for it on the cards that are free now and not promised to other
Jobs: a plan only names changes that are worth a trial.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import islice
from typing import Protocol

from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.jobs.plan import Admit, Plan, Scale, Suspend, Window
from device_plugin.jobs.execute.new_records import ASK_SECONDS, NewRecords, grants_of
from device_plugin.jobs.execute.writes import JOIN_SECONDS, Action, Write, answer_by
from device_plugin.jobs.stages import (
    UNDER_WAY,
    Stage,
    by_beneficiary,
    by_group,
    held_groups,
    promised_widths,
    stages,
    turn,
    wanted,
)
from device_plugin.state.managed import Managed

# KEEP writes that are due at one time: tenants may remove records as often as they like.
MOST_KEPT = 16
# The stages in which no pod of a Job that gives way is about to leave; the beneficiary waits for leaving pods.
SETTLED = frozenset({Stage.ASKED, Stage.FREED})
# The stages in which a held Job may be stopped at once: no pod of it leaves for another Job.
_STOPPABLE = frozenset({Stage.NONE, Stage.OVER, Stage.JOINING, Stage.OVERDUE})


_StopKey = tuple[str, str, bool]
"""Jobs that stop together: namespace and name of a group (then true), or of a single Job (then false)."""


class Trial(Protocol):
    """Tries whether replicas fit now, on the cards that no living pod has and that are kept for no other job."""

    def take(self, wanted: Mapping[JobKey, int]) -> bool:
        """Hold further replicas of these jobs, all together; returns false and holds nothing if they do not fit.

        Cards that are promised to a job are free for that job alone.
        """

    def may_fit(self, job: JobKey, count: int) -> bool:
        """False if it is certain that `count` further replicas of the job do not fit; no card is taken."""


class Executor:
    """Finds the writes that are due at the time `now`; a new Executor is made each time the Jobs are read."""

    def __init__(self, now: float, jobs: Mapping[JobKey, Managed], trial: Trial) -> None:
        self._now = now
        self._records = NewRecords(now)
        self._jobs = jobs
        self._trial = trial
        self._stages = stages(jobs, now)
        self._givers = by_beneficiary(jobs, self._stages)
        self._held_groups = held_groups(jobs.values())
        self._misheld = [managed for managed in jobs.values() if managed.misheld]
        self._groups = by_group(jobs.values()) if self._givers or self._misheld else {}
        self._fitting: dict[object, bool] = {}

    def due(self, plan: Plan) -> Sequence[Write]:
        """The writes to send now: the next write of each change under way, and the first of each step of the plan.

        There is at most one write for each Job. A plan is passed only once: later calls get an empty plan, and continue
        its steps by the Jobs' records (annotations with their changes).
        """
        found = {write.key: write for write in self._taken_back()}
        for write in self._without_room():
            found.setdefault(write.key, write)
        for write in self._eased(plan, found):
            found.setdefault(write.key, write)
        for write in self._continued(found):
            found.setdefault(write.key, write)
        for write in self._held(found):
            found.setdefault(write.key, write)
        for write in self._begun(plan, found):
            found.setdefault(write.key, write)
        for write in islice((write for write in self._kept() if write.key not in found), MOST_KEPT):
            found[write.key] = write
        return tuple(found.values())

    def _kept(self) -> Iterator[Write]:
        """The writes that restore Jobs' removed records (the latest change), or copy records into the Jobs' statuses.

        Records of changes under way come first, because they may promise slices.
        """
        unkept = [managed for managed in self._jobs.values() if managed.unkept]
        for managed in sorted(unkept, key=lambda each: self._stages[each.key] not in UNDER_WAY):
            yield Write(Action.KEEP, managed, managed.record)

    def _held(self, busy: Mapping[JobKey, Write]) -> Iterator[Write]:
        """The writes that begin to stop Jobs on hold (paused by users), and that record a hold's start or length.

        Jobs in `busy` have another write already, and are left out.
        """
        misheld = [managed for managed in self._misheld if managed.key not in busy]
        for managed in misheld:
            if managed.spec.on_hold and not managed.job.suspend and self._stages[managed.key] in _STOPPABLE:
                yield self._stopping(managed, held_since=self._now)
        counted = (kept for managed in misheld if _counts_hold(managed) for kept in self._with_hold(managed))
        for managed, record in islice(counted, MOST_KEPT):
            yield Write(Action.KEEP, managed, record)

    def _with_hold(self, managed: Managed) -> Iterator[tuple[Managed, Resize]]:
        """Yields the Job with a new record (annotation with its latest change), because its user's hold changed.

        The record gets the time at which the hold (pause) began, or the length of the hold once it has ended.

        If other Jobs had made room for the Job's group when the hold began, the group's suspended Jobs follow. Each
        gets a record by which its waiting time begins again, because one Job that has waited too long makes the whole
        group due.
        """
        record = self._records.past(managed)
        if not managed.spec.on_hold:
            held = self._now - record.held_since if managed.job.suspend else 0.0
            yield managed, replace(record, held_since=0.0, held_for=record.held_for + max(0.0, held))
            return
        unit = self._waiting_unit(managed)
        served = self._served(managed, {each.key for each in unit})
        waited = self._rested(managed) if served else record.held_for
        yield managed, replace(record, held_since=self._now, held_for=waited)
        for other in unit if served else ():
            if other is not managed:
                yield other, replace(self._records.past(other), held_for=self._rested(other))

    def _waiting_unit(self, managed: Managed) -> Sequence[Managed]:
        """The suspended Jobs of the Job's group; without a group, the Job if it is suspended."""
        members = (managed,) if (group := managed.spec.group_key) is None else self._groups.get(group, ())
        return [each for each in members if each.job.suspend]

    def _rested(self, managed: Managed) -> float:
        """The seconds since the suspended Job was stopped; if the Job has never run, since it was created."""
        return max(0.0, self._now - managed.rests_since(self._now))

    def _served(self, managed: Managed, unit: Set[JobKey]) -> bool:
        """True if another Job was stopped or made narrower for this Job, or for a Job of its `unit`, while it waited.

        Then the Job's waiting time begins again. Otherwise its author could hold and release it at each such change,
        and have others stopped all the time without taking their cards.
        """
        last = managed.record.asked if managed.record is not None else 0.0
        return managed.job.suspend and any(
            (given := giver.record) is not None
            and given.beneficiary in unit
            and given.applied
            and given.asked > last
            for giver in self._jobs.values()
        )

    # Changes that are under way

    def _continued(self, busy: Mapping[JobKey, Write]) -> Iterator[Write]:
        helped = busy.keys() & self._givers.keys()
        for key, givers in self._givers.items():
            reached = self._reached([key])
            if key in busy or Stage.FREED not in reached or not reached <= SETTLED:
                continue
            for write in self._helped(self._jobs[key], givers):
                helped.add(key)
                yield write
        for key, managed in self._jobs.items():
            if managed.record is None:
                continue
            if self._stages[key] is Stage.OVERRULED:
                yield _dropped(managed, managed.record)
            # A request for a job that starts now is dropped when the Jobs are read again.
            elif self._stages[key] is Stage.ASKED and managed.record.beneficiary not in helped:
                yield from self._asked(managed, managed.record)

    def _helped(self, helped: Managed, givers: Sequence[Managed]) -> Iterator[Write]:
        """The writes that start the job `helped`, its group, or more of its sub-tasks, because `givers` made room."""
        unit = promised_widths(helped, givers, self._groups)
        if helped.waits and unit:
            yield from self._started(unit)
        elif unit and self._free(helped.key):
            yield from self._windowed(helped, unit[helped.key], givers)

    def _reached(self, unit: Iterable[JobKey]) -> Set[Stage]:
        """The stages of the shrinks and stops by which other Jobs make room for `unit`, jobs that start together."""
        return {self._stages[giver.key] for key in unit for giver in self._givers.get(key, ())}

    def _taken_back(self) -> Iterator[Write]:
        """The writes for Jobs whose pods the API server refuses: the Job goes on with its present pods, or stops.

        A Job stops only if this loses no work; Jobs that must start together stop together.
        """
        stopping: dict[_StopKey, str] = {}
        for managed in self._jobs.values():
            if not managed.refused or managed.spec.width_owner or managed.rigid:
                continue
            if self._may_keep(managed):
                yield self._back([managed], _created(managed), managed.refused)[0]
            else:
                stopping.setdefault(_stop_key(managed), managed.refused)
        for unit, together in self._members(stopping).items():
            if all(each.waits or self._loses_nothing(each) for each in together):
                # The refused Job stops last: while it runs, its refusal is seen again.
                running = sorted(
                    (each for each in together if not each.waits), key=lambda each: bool(each.refused)
                )
                yield from self._back(running, 0, stopping[unit])

    def _members(self, units: Collection[_StopKey]) -> Mapping[_StopKey, Sequence[Managed]]:
        """The Jobs of each of these units; a unit is a group that starts and stops together, or a single Job."""
        found: dict[_StopKey, list[Managed]] = {}
        for managed in self._jobs.values() if units else ():
            if (unit := _stop_key(managed)) in units:
                found.setdefault(unit, []).append(managed)
        return found

    def _without_room(self) -> Iterator[Write]:
        """The writes for Jobs with pods that find no room, or that never end, for example because their node died.

        An elastic Job goes on with its bound pods. Any other Job stops and waits in the queue, because its other pods
        would hold their cards without use.
        """
        stopping: dict[_StopKey, None] = {}
        for managed in self._jobs.values():
            stranded, unreplaced = managed.stranded(self._now), managed.unreplaced(self._now)
            if not (stranded or unreplaced) or not self._movable(managed):
                continue
            if not unreplaced and self._may_fit(managed, stranded):
                continue
            spec = managed.spec
            bound = sum(bool(pod.node) and not pod.deleting for pod in managed.pods)
            kept = spec.width_at_most(bound)
            if spec.elastic and kept >= spec.least and _narrows(managed):
                # A smaller width would end other pods, not the pods that should have ended already.
                if not unreplaced:
                    yield self._ended(managed, kept)
            else:
                stopping[_stop_key(managed)] = None
        for together in self._members(stopping).values():
            if all(each.waits or self._movable(each) for each in together):
                yield from (self._ended(each, 0) for each in together if not each.waits)

    def _may_fit(self, managed: Managed, count: int) -> bool:
        """False if it is certain that `count` more replicas of the Job do not fit.

        Equal Jobs of a user cost only one trial.
        """
        if managed.key in self._givers:
            return self._trial.may_fit(managed.key, count)
        spec = managed.spec
        asked = spec.asks, spec.user, count
        if asked not in self._fitting:
            self._fitting[asked] = self._trial.may_fit(managed.key, count)
        return self._fitting[asked]

    def _movable(self, managed: Managed) -> bool:
        """True if the engine may stop the running Job or change its width now.

        False while another change of the Job is under way, if another controller decides on the Job, and for a split,
        whose sub-tasks would begin again.
        """
        spec = managed.spec
        owned = spec.kueue or spec.width_owner or managed.rigid
        return not (owned or spec.parts or managed.job.suspend) and managed.lives and self._settles(managed)

    def _ended(self, managed: Managed, width: int) -> Write:
        """The write that sets the Job's number of pods (0: stops it), and keeps the freed cards for no other job."""
        record = self._records.new(
            managed, before=managed.job.width, after=width,
            until=self._now + JOIN_SECONDS + managed.job.grace_seconds, applied=True,
        )  # fmt: skip
        return Write(Action.WIDTH if width else Action.STOP, managed, record, width or None)

    def _may_keep(self, managed: Managed) -> bool:
        """True if the Job may go on with only the pods that it has now: they are enough, and its width can change."""
        spec, width = managed.spec, _created(managed)
        return (
            self._settles(managed)
            and width >= spec.least
            and bool(spec.parts or (spec.elastic and _narrows(managed)))
        )

    def _loses_nothing(self, managed: Managed) -> bool:
        """True if the Job may be stopped without losing work: it was just started, or none of its pods is bound.

        Called before a Job is stopped because the API server refuses to create its pods. False for a Job of Kueue, and
        while another change is under way.
        """
        record = managed.record
        if managed.spec.kueue or not managed.lives or not self._settles(managed):
            return False
        started = record is not None and record.before == 0 and record.applied and self._now < record.until
        return started or not any(pod.node for pod in managed.pods)

    def _settles(self, managed: Managed) -> bool:
        """True if no change of the Job is under way, or a change that only waits until new pods are bound (JOINING)."""
        return self._stages[managed.key] in (Stage.NONE, Stage.OVER, Stage.JOINING)

    def _back(self, together: Sequence[Managed], width: int, why: str) -> Sequence[Write]:
        """The writes after the API server refused pods: the Jobs `together` get `width` pods, or stop if it is 0.

        `why` is the API server's reason. The Jobs get one count of refusals, and so one pause: they are tried again
        together.
        """
        refusals = 1 + max(each.record.refusals if each.record is not None else 0 for each in together)
        asked = self._records.later(*together)
        records = [
            self._records.new(
                each, before=each.job.width, after=width, asked=asked, until=self._now, applied=True,
                refusals=refusals, refusal=why,
            )
            for each in together
        ]  # fmt: skip
        action = Action.WIDTH if width else Action.STOP
        return [
            Write(action, each, record, width or None) for each, record in zip(together, records, strict=True)
        ]

    def _asked(self, managed: Managed, record: Resize) -> Iterator[Write]:
        """The next write of a Job whose record (annotation) announces a change of its width.

        The write carries the change out, drops the record if the change is not possible or helps no job any more, or
        asks the program for a checkpoint. There is no write while the program may still answer.
        """
        held = managed.spec.on_hold
        if (record.after and (held or not managed.may_have(record.after))) or (
            record.held_since and not held
        ):
            yield _dropped(managed, record)
        elif not record.shrinks:
            fits = self._trial.take({managed.key: record.after - record.before})
            yield self._applied(managed, record) if fits else _dropped(managed, record)
        elif not wanted(record, self._jobs, self._held_groups) or not self._may_narrow(
            managed, record.before, record.after
        ):
            yield _dropped(managed, record)
        elif self._saved(managed, record):
            yield self._applied(managed, record)
        elif self._may_ask(managed, record):
            yield Write(Action.ASK, managed, replace(record, asked=self._now))

    def _may_ask(self, managed: Managed, record: Resize) -> bool:
        """True if the program was not asked for a checkpoint yet, and its answer could be recognised.

        An answer is recognised by a greater number of checkpoints. So the request waits until the present number is
        known, but for ASK_SECONDS at most.
        """
        if managed.checkpoint is not None and managed.checkpoint.gen == record.gen:
            return False
        return managed.received_since(self._now) or self._now >= record.asked + ASK_SECONDS

    def _saved(self, managed: Managed, record: Resize) -> bool:
        """True if the change may be carried out: the program has saved, need not save, or had its time to save."""
        asked = managed.checkpoint
        spec = managed.spec
        if not spec.checkpoint_seconds or spec.parts or not any(pod.index == 0 for pod in managed.pods):
            return True
        return (
            asked is not None
            and asked.gen == record.gen
            and (managed.saved > asked.saved or self._now >= min(asked.until, answer_by(record)))
        )

    def _applied(self, managed: Managed, record: Resize) -> Write:
        done = self._records.applied(managed, record)
        if record.after == 0:
            return Write(Action.STOP, managed, done)
        return Write(Action.WIDTH, managed, done, record.after)

    # Steps of a plan

    def _begun(self, plan: Plan, busy: Mapping[JobKey, Write]) -> Iterator[Write]:
        # By job: the replicas that others give way to, summed over all Jobs that start with it.
        needed = {step.job: step.parallelism for step in plan.steps if isinstance(step, Window)}
        for unit in self._units(plan):
            needed |= dict.fromkeys(unit, sum(unit.values()))
        for unit in self._units(plan):
            if busy.keys().isdisjoint(unit) and Stage.ASKED not in self._reached(unit):
                yield from self._admitted(plan, unit)
        for step in plan.steps:
            managed = self._jobs.get(step.job)
            if managed is None or step.job in busy or not self._free(step.job):
                continue
            if not managed.lives or managed.job.suspend:
                continue
            if isinstance(step, Scale) and step.after > step.before:
                yield from self._widened(managed, step)
            elif isinstance(step, Scale) or (isinstance(step, Suspend) and not managed.spec.kueue):
                yield from self._narrowed(managed, step, needed)
            elif isinstance(step, Window) and not any(plan.given(step.job)) and step.job not in self._givers:
                yield from self._windowed(managed, step.parallelism)

    def _units(self, plan: Plan) -> Iterable[Mapping[JobKey, int]]:
        """The jobs that the plan starts, with their numbers of pods: a mapping for each group or single job.

        In each mapping the jobs are in the order of their roles.
        """
        admits = [step for step in plan.steps if isinstance(step, Admit) and step.job in self._jobs]
        units: dict[object, dict[JobKey, int]] = {}
        for step in sorted(admits, key=lambda step: turn(self._jobs[step.job])):
            spec = self._jobs[step.job].spec
            units.setdefault(spec.group_key or step, {})[step.job] = step.width
        return units.values()

    def _eased(self, plan: Plan, busy: Mapping[JobKey, Write]) -> Iterator[Write]:
        """The writes that start jobs on cards that are free already, although other Jobs were asked to make room."""
        for unit in self._units(plan):
            if Stage.ASKED in self._reached(unit) and busy.keys().isdisjoint(unit):
                yield from self._admitted(plan, unit)

    def _admitted(self, plan: Plan, widths: Mapping[JobKey, int]) -> Iterator[Write]:
        """The writes that start these jobs together, all or none.

        If other Jobs were asked to make room, the jobs start once the room is made. They start earlier if they fit
        before any of the other Jobs has begun to shrink or stop.
        """
        if not any(any(plan.given(key)) for key in widths) and self._reached(widths) <= SETTLED:
            yield from self._started(widths)

    def _started(self, widths: Mapping[JobKey, int]) -> Iterator[Write]:
        """The writes that start jobs with these numbers of pods; none unless each may start, and all fit now."""
        unit = [self._jobs[key] for key in widths]
        # Kueue starts its own Jobs.
        if any(
            each.spec.kueue or each.spec.on_hold or not each.waits or not self._free(each.key)
            for each in unit
        ):
            return
        # The author may have removed that width from the list since the plan.
        if not all(each.may_have(widths[each.key]) for each in unit):
            return
        if self._trial.take(widths):
            givers = [giver for key in widths for giver in self._givers.get(key, ())]
            yield from (self._start(each, widths[each.key], givers) for each in unit)

    def _free(self, job: JobKey) -> bool:
        """True if the job may start or change its width, because no change of it is under way.

        Also true for a suspended Job with old pods that never end (OVERDUE), unless its new pods must wait for the end
        of the old pods.
        """
        managed, reached = self._jobs[job], self._stages[job]
        dead = reached is Stage.OVERDUE and managed.waits and not managed.waits_for_ends
        return dead or reached in (Stage.NONE, Stage.OVER)

    def _widened(self, managed: Managed, step: Scale) -> Iterator[Write]:
        """Yields the write that records that a Job will grow, if a trial finds room for its new pods.

        Yields nothing for a split (a Job of sub-tasks, with `parts`), nor if the Job has another width by now.
        """
        if managed.spec.parts or not managed.has(step.before):
            return
        if self._trial.take({managed.key: step.after - step.before}):
            yield Write(Action.RECORD, managed, self._records.new(
                managed, before=step.before, after=step.after, until=self._now + JOIN_SECONDS,
            ))  # fmt: skip

    def _narrowed(
        self, managed: Managed, step: Scale | Suspend, needed: Mapping[JobKey, int]
    ) -> Iterator[Write]:
        """The write that announces a shrink or stop, and promises the slices of the leaving pods to the beneficiary.

        The beneficiary is the job that gets the cards; `needed` has the number of pods that each beneficiary waits for.
        There is no write if the beneficiary does not wait any more, if the Job has another width by now, or if it may
        not lose these pods.
        """
        before, after = (step.before, step.after) if isinstance(step, Scale) else (managed.job.width, 0)
        helped = self._jobs.get(step.beneficiary) if step.beneficiary is not None else None
        wanted = needed.get(step.beneficiary, 0) if step.beneficiary is not None else 0
        if step.beneficiary is not None and (helped is None or not wanted or not helped.wants(wanted)):
            return
        if not managed.has(before) or not self._may_narrow(managed, before, after):
            return
        leaving = (
            managed.young(self._now)[: before - after]
            if after and managed.spec.parts
            else managed.leaving(after)
        )
        yield Write(Action.RECORD, managed, self._records.new(
            managed, before=before, after=after,
            asked=self._records.later(*([managed, helped] if helped is not None else [managed])),
            until=self._records.narrow_by(managed), beneficiary=step.beneficiary,
            replicas=wanted, priority=helped.spec.priority if helped is not None else 0,
            grants=tuple(grants_of(leaving)),
        ))  # fmt: skip

    def _stopping(self, managed: Managed, held_since: float) -> Write:
        """The write that announces a stop because a user holds (pauses) the Job; its slices are kept for nobody."""
        return Write(Action.RECORD, managed, self._records.new(
            managed, before=managed.job.width, after=0,
            until=self._records.narrow_by(managed), held_since=held_since,
        ))  # fmt: skip

    def _may_narrow(self, managed: Managed, before: int, after: int) -> bool:
        """True if the Job may go from `before` to `after` pods; a stop (0 pods) is always allowed.

        A split loses only sub-tasks that have just begun. Any other Job loses pods only if no index has succeeded yet.
        """
        if after and managed.spec.parts:
            return len(managed.young(self._now)) >= before - after
        return not after or _narrows(managed)

    def _start(self, managed: Managed, width: int, givers: Iterable[Managed]) -> Write:
        # The width is written only if it differs from the Job's width.
        return Write(
            Action.START, managed, self._records.let_run(managed, 0, width, givers),
            None if managed.written(width) else width,
        )  # fmt: skip

    def _windowed(self, managed: Managed, width: int, givers: Iterable[Managed] = ()) -> Iterator[Write]:
        """The write by which a split runs more sub-tasks at a time (its window), if a trial finds room for them.

        The engine narrows a window only for another job, and only while sub-tasks have just begun.
        """
        before = managed.job.width
        if managed.spec.parts and width > before and self._trial.take({managed.key: width - before}):
            yield Write(Action.WINDOW, managed, self._records.let_run(managed, before, width, givers), width)


def _dropped(managed: Managed, record: Resize) -> Write:
    return Write(Action.DROP, managed, replace(record, until=0.0, grants=(), held_since=0.0))


def _counts_hold(managed: Managed) -> bool:
    """True if a change of a user's hold (pause) needs only a new record (annotation), and no stop of the Job.

    The Job is suspended already, or is held no more.
    """
    return managed.job.suspend or not managed.spec.on_hold


def _created(managed: Managed) -> int:
    """The largest allowed number of pods (width) of the Job that is not above the number it has now."""
    return managed.spec.width_at_most(managed.created)


def _stop_key(managed: Managed) -> _StopKey:
    spec = managed.spec
    return spec.key[0], spec.group if spec.joint else spec.key[1], spec.joint


def _narrows(managed: Managed) -> bool:
    """True if the Job can lose pods, because none of its indexes has succeeded.

    After a shrink, a later growth would run a succeeded index again.
    """
    return not managed.job.succeeded and not managed.job.completed_indexes
