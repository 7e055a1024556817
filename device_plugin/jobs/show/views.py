"""The Jobs of queues as people see them, according to the latest round."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.counted import few_of
from device_plugin.core.jobs.job import HELD, UNKNOWN, JobKey, JobPhase, JobState, pods
from device_plugin.core.jobs.plan import Refuse
from device_plugin.core.jobs.progress import Progress
from device_plugin.core.jobs.queue import due, due_at, places
from device_plugin.core.jobs.rules import Rules
from device_plugin.core.jobs.sizing import offers
from device_plugin.core.jobs.split import first_parts
from device_plugin.jobs.pools.planners import Planners, PoolPlanner
from device_plugin.jobs.round import Round
from device_plugin.jobs.show.expected import Expected, expected
from device_plugin.jobs.show.next_change import NextChange, left_by, next_change
from device_plugin.jobs.stages import by_beneficiary, stages
from device_plugin.state.jobs import KnownJobs
from device_plugin.state.managed import Managed

CORRECTION = "a correction"
GIVEN = "pods of other jobs that leave"
# Most Jobs that give way to a job, and most nodes with cards kept for a job, that a text names.
MOST_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A Job as people see it.

    - `width`: its replicas now, or after the change that is under way. `widths`: the widths that it may have; if empty,
      any width from `least` to `most`.
    - `place`: its place among the waiting jobs of its queue, 0 without one. `waits_for`: empty if it does not wait.
    - `progress`: of a split (a Job of sub-tasks), its ended sub-tasks; else the progress of the program of index 0.
      While the job runs, `left` is the forecast of its remaining seconds, and `stuck` the seconds without progress if
      unusually many.
    - `since`: the beginning of its phase, 0 if not known. `pool`: empty if there is only one pool.
    - `reasons`: the first says why the Job is in its phase, the others what else holds its width. `helps`: what the Job
      could have instead.
    """

    namespace: str
    name: str
    queue: str = ""
    place: int = 0
    phase: str
    width: int = 0
    least: int = 0
    most: int = 0
    widths: Sequence[int] = ()
    progress: Progress | None = None
    left: float | None = None
    stuck: float | None = None
    waits_for: str = ""
    since: float = 0.0
    next_change: NextChange | None = None
    expected: Expected | None = None
    pool: str = ""
    reasons: Sequence[str]
    helps: Sequence[str] = ()

    @property
    def why(self) -> str:
        """The `reasons` and the `helps`, joined in one text."""
        return "; ".join((*self.reasons, *self.helps))

    def as_object(self) -> Mapping[str, object]:
        """The Job as JSON."""
        progress = self.progress and {"done": self.progress.done, "total": self.progress.total}
        return {
            "namespace": self.namespace, "name": self.name, "queue": self.queue, "place": self.place or None,
            "phase": self.phase, "width": self.width, "min": self.least, "max": self.most,
            "widths": list(self.widths) or None, "progress": progress,
            "secondsLeft": _whole(self.left), "secondsStuck": _whole(self.stuck), "waitsFor": self.waits_for,
            "since": int(self.since), "pool": self.pool or None,
            "nextChange": self.next_change and self.next_change.as_object(),
            "expected": self.expected and self.expected.as_object(), "why": self.why,
        }  # fmt: skip


def views(known: KnownJobs, planners: Planners) -> Iterator[JobView]:
    """The Jobs as people see them (views): all queued Jobs that have not ended, by namespace and name.

    A Job that another replica plans has no width here, and an unknown phase.
    """
    problems = known.problems()
    managed = known.managed()
    last = {planner.pool: _LastRound(planner, managed) for planner in planners.all()}
    for key in sorted({key for key, each in managed.items() if each.lives} | problems.keys()):
        if key in problems:
            yield JobView(
                namespace=key[0], name=key[1], phase=JobPhase.REFUSED.value, waits_for=CORRECTION,
                reasons=(problems[key][1],),
            )  # fmt: skip
            continue
        planner, why = planners.of(key)
        if planner is None:
            yield _unplanned(managed[key], why)
        elif planner.pool in last:
            yield last[planner.pool].view(managed[key])


class _LastRound:
    """Makes views of Jobs from the latest round of one planner."""

    def __init__(self, planner: PoolPlanner, jobs: Mapping[JobKey, Managed]) -> None:
        rounds = planner.rounds
        self._pool = planner.pool
        self._why_not, self._rules, self._last = rounds.why_not(), rounds.rules, rounds.last
        self._limits = rounds.limits
        last = self._last
        self._steps = {step.job: step for step in last.plan.steps}
        self._refused = refusals(last)
        self._places = waiting_places(last, self._rules)
        self._giving = by_beneficiary(jobs, stages(jobs, last.at))

    def view(self, managed: Managed) -> JobView:
        """The view of one Job (what people see), from the latest round."""
        key, last = managed.key, self._last
        view = replace(_unplanned(managed), phase="new", pool=self._pool)
        if self._why_not:
            # This replica may have planned for the last time long ago.
            return replace(view, phase=UNKNOWN, reasons=(self._why_not,))
        state, step = last.states.get(key), self._steps.get(key)
        if state is not None:
            view = replace(view, width=state.width, since=state.since)
        if refused := self._refused.get(key):
            return replace(view, phase=JobPhase.REFUSED.value, waits_for=CORRECTION, reasons=(refused,))
        if state is None:
            return self._without_state(view, managed)
        # While it waits for pods of others to leave, its width is the one with which it will start.
        giving = self._giving.get(key, ()) if state.phase is JobPhase.STARTING and managed.job.suspend else ()
        room = needed(state, last, self._rules)
        start = last.starts.get(key)
        return replace(
            view, phase=state.phase.value, place=self._places.get(key, 0),
            waits_for=GIVEN if giving else room if state.queued else WAITS_FOR.get(state.phase, ""),
            reasons=tuple(self._reasons(managed, state, room, giving)),
            helps=[f"it can have {offers(short, start and start - last.at)}"] if (short := last.short.get(key)) else (),
            left=managed.history.seconds_left(state.width) if managed.history and state.running else None,
            stuck=stuck_for(managed, state),
            next_change=next_change(
                managed, state, step, self._rules, plan=last.plan, now=last.at, contended=bool(self._places),
                giving=giving, start=start,
            ),
            expected=expected(
                state, last.plan, last.at, start=start, given=left_by(giving) if giving else None,
                history=managed.history,
            ),
        )  # fmt: skip

    def _without_state(self, view: JobView, managed: Managed) -> JobView:
        """The view (for people) of a Job that was not in the latest round: it waits for Kueue, a pause, or a round."""
        suspended, record = managed.job.suspend, managed.record
        if managed.spec.kueue and suspended:
            return replace(view, waits_for="Kueue", reasons=("waits for Kueue, which starts it",))
        if suspended and record is not None and managed.paused_until > self._last.at:
            return replace(
                view, phase=JobPhase.STOPPED.value, waits_for="pods that may be created",
                reasons=(
                    f"was stopped, because the API server refuses its pods: {record.refusal}",
                    f"it is started again after {api_time(managed.paused_until)}",
                ),
            )  # fmt: skip
        return replace(view, waits_for="the next round", reasons=("it is considered in the next round",))

    def _reasons(
        self, managed: Managed, state: JobState, room: str, giving: Sequence[Managed]
    ) -> Iterator[str]:
        """The reasons for the phase and the number of pods of a Job that was in the latest round.

        `room` says what the Job waits for. `giving` are the Jobs whose pods leave so that the Job can start.
        """
        last, spec = self._last, managed.spec
        if giving:
            yield _given(giving)
        else:
            yield from _why(managed, state, last, room, self._rules)
        if limits := self._limits(spec) if spec.cards and not state.running else "":
            yield limits
        yield from filter(None, (last.closed.get(spec.key), last.unsized.get(spec.key)))
        if uncreated := last.uncreated.get(spec.key):
            yield f"the API server refuses its other pods: {uncreated}"
        if failing := managed.job.failing:
            yield failing


def waiting_places(last: Round, rules: Rules) -> Mapping[JobKey, int]:
    """Returns the place of each waiting Job in its queue; a Job that the round refused or admitted has none."""
    settled = {step.job for step in last.plan.steps} | last.refused.keys()
    states = [state for key, state in last.states.items() if not (state.queued and key in settled)]
    return places(states, last.at, rules)


def _unplanned(managed: Managed, why: str = "") -> JobView:
    """The view (for people) of a Job without the results of a round: the Job's own fields, and its progress."""
    spec, (namespace, name) = managed.spec, managed.key
    return JobView(
        namespace=namespace, name=name, queue=spec.queue, phase=UNKNOWN, least=spec.least, most=spec.most,
        widths=spec.widths, progress=_progress(managed), since=spec.created, reasons=(why,),
    )  # fmt: skip


def stuck_for(managed: Managed, state: JobState | None) -> float | None:
    """The seconds for which a running Job has made no progress, if they are unusually many for it; else None."""
    if managed.history is None or state is None or not state.running:
        return None
    return managed.history.stuck_for


def _whole(seconds: float | None) -> int | None:
    return round(seconds) if seconds is not None else None


_WHY: Mapping[JobPhase, str] = {
    JobPhase.WAITING: "waits for {room}",
    JobPhase.STARTING: "was admitted with {width}, and not all of its pods run yet",
    JobPhase.RUNNING: "runs with {width}",
    JobPhase.STOPPING: "was {stopped}, and some of its pods have not ended yet",
    JobPhase.STOPPED: "was {stopped}, and waits for {room}",
    JobPhase.HELD: HELD,
}
WAITS_FOR: Mapping[JobPhase, str] = {
    JobPhase.STARTING: "pods that do not run yet",
    JobPhase.RESIZING: "pods that leave or come",
    JobPhase.STOPPING: "pods that have not ended yet",
    JobPhase.HELD: "its release",
}


def _why(managed: Managed, state: JobState, last: Round, room: str, rules: Rules) -> Iterator[str]:
    """The reasons for the Job's phase and width, as texts, and the cards that it gave to other jobs or waits for.

    `room` says what the Job waits for.
    """
    record, spec, now = managed.record, state.spec, last.at
    room = room if spec.joint or spec.parts else f"room for {spec.least} of its pods"
    if state.phase is JobPhase.RESIZING and record is not None:
        helped = "/".join(record.beneficiary) if record.beneficiary is not None else "other pods"
        helped = f" for job {helped}" if record.shrinks else ""
        yield f"goes from {record.before} to {pods(record.after)}{helped}"
    else:
        yield _WHY.get(state.phase, "").format(width=pods(state.width), room=room, stopped=_stopped(record))
    yield from filter(
        None, (_gave(record, state, now, rules) if state.running else _kept(state, last, rules),)
    )
    yield from _held(managed, now)


def _held(managed: Managed, now: float) -> Iterator[str]:
    """The reasons why the Job keeps its number of pods, or does not grow or shrink, as texts."""
    record = managed.record
    if managed.rigid:
        yield f"its width stays, because the API server refused to change it: {managed.rigid}"
        return
    if record is not None and managed.paused_until > now:
        end = api_time(managed.paused_until)
        yield f"it does not grow before {end}, because the API server refused further pods: {record.refusal}"
    if record is not None and managed.spared(now):
        end = api_time(record.spared_until)
        yield f"it is not made narrower before {end}, because its program gave no checkpoint when it was asked"
    if managed.by_hand and managed.spec.elastic:
        yield "it does not grow, because its width was set by hand"
    if managed.spec.width_owner:
        yield f"its width is left to {managed.spec.width_owner}"


def _gave(record: Resize | None, state: JobState, now: float, rules: Rules) -> str:
    """A text that names the Job for which this Job was made narrower, and when it may grow again; else empty."""
    if record is None or record.beneficiary is None or not record.shrinks or state.width != record.after:
        return ""
    grows = max(now, state.resized + rules.cooldown_s)
    when = f"from {api_time(grows)} on" if grows > now else "again"
    return (
        f"it gave {pods(record.before - record.after)} for job {'/'.join(record.beneficiary)}, and grows {when} where"
        " cards are idle"
    )


def _kept(state: JobState, last: Round, rules: Rules) -> str:
    """A text about cards kept for a waiting Job: on which nodes, from when on, or why none are kept; else empty."""
    if not state.queued or state.spec.key in last.missing:
        return ""
    key, plan = state.spec.key, last.plan
    if reserved := plan.reserved.get(key):
        start = api_time(reserved.start) if reserved.start < inf else ""
        when = (
            f"it is expected to start there at {start}" if start else "when all of them are free is not known"
        )
        return f"it is due: cards are kept for it{_on(reserved.nodes)}, and {when}"
    if why := plan.unreserved.get(key):
        no_cards = (
            "it is due, and no cards are kept for it" if due(state, last.at, rules) else "it does not start"
        )
        return f"{no_cards}: {why}"
    if state.phase is JobPhase.STOPPED and not due(state, last.at, rules):
        return f"cards are kept for it from {api_time(due_at(state, rules))} on"
    return ""


def _on(nodes: Sequence[str]) -> str:
    """` on ` and the first few nodes, to append to a clause; empty without nodes."""
    return f" on {few_of(nodes, MOST_NAMED)}" if nodes else ""


def _stopped(record: Resize | None) -> str:
    """A text that says who stopped a suspended Job, or why."""
    if record is not None and record.held:
        return "held by its author"
    if record is None or record.after or not record.shrinks:
        return "suspended by hand"
    if record.beneficiary is not None:
        return f"stopped for job {'/'.join(record.beneficiary)}"
    if record.refusal:
        return "stopped because the API server refused its pods"
    return "stopped because some of its pods found no room"


def _given(giving: Sequence[Managed]) -> str:
    """A clause that names the Jobs whose pods leave so that a Job can start."""
    named = few_of(["/".join(other.key) for other in giving], MOST_NAMED)
    return f"pods of {named} leave, so that it can start"


def _progress(managed: Managed) -> Progress | None:
    parts = managed.spec.parts
    return Progress(min(managed.job.succeeded, parts), parts) if parts else managed.progress


def needed(state: JobState, last: Round, rules: Rules) -> str:
    """A text that says what a waiting job needs: other Jobs of its group, or room."""
    spec = state.spec
    if missing := last.missing.get(spec.key):
        return missing
    if spec.parts:
        return f"room for {first_parts(state, last.at, rules)} of its {spec.parts} sub-tasks"
    return f"room for group {spec.group}" if spec.joint else f"room for {pods(spec.least)}"


def refusals(last: Round) -> Mapping[JobKey, str]:
    """The reasons why the latest round refused jobs: its plan refuses them, or no width was found for their goal."""
    return {**{step.job: step.text for step in last.plan.steps if isinstance(step, Refuse)}, **last.refused}
