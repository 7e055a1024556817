"""/explain: one paragraph for each Job, and a table of all."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs

from device_plugin.core.http_values import JSON, HttpAnswer, HttpRequest
from device_plugin.core.jobs.job import JobKey, JobPhase, JobState
from device_plugin.core.jobs.plan import Refuse
from device_plugin.core.jobs.sizing import offers
from device_plugin.jobs.plan.round import Round, Rounds
from device_plugin.jobs.watch.known import KnownJobs
from device_plugin.jobs.watch.managed import Managed


@dataclass(frozen=True, slots=True)
class JobView:
    """A Job as people see it. `width` is the replicas that it has, or will have once what is under way is done."""

    namespace: str
    name: str
    queue: str
    phase: str
    width: int
    least: int
    most: int
    since: float
    why: str

    def as_object(self) -> Mapping[str, object]:
        """The Job as JSON."""
        return {
            "namespace": self.namespace, "name": self.name, "queue": self.queue, "phase": self.phase,
            "width": self.width, "min": self.least, "max": self.most, "since": int(self.since), "why": self.why,
        }  # fmt: skip


class JobExplainer:
    """Answers /explain from what the last round saw."""

    def __init__(self, known: KnownJobs, rounds: Rounds) -> None:
        self._known = known
        self._rounds = rounds

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer GET /explain and /explain?job=NAMESPACE/NAME."""
        if request.path != "/explain":
            return HttpAnswer("not found\n", status=HTTPStatus.NOT_FOUND)
        if request.method != "GET":
            return HttpAnswer("method not allowed\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        query = parse_qs(request.query, keep_blank_values=True)
        name = query.pop("job", [""])[0]
        if query or (name and not all(name.partition("/"))):
            return HttpAnswer(
                "write /explain or /explain?job=NAMESPACE/NAME\n", status=HTTPStatus.BAD_REQUEST
            )
        views = [view for view in self.views() if name in ("", f"{view.namespace}/{view.name}")]
        if name and not views:
            return HttpAnswer(
                f"job {name} is in no queue: give it the label vgpu.io/queue\n", status=HTTPStatus.NOT_FOUND
            )
        if JSON in request.headers.get("accept", ""):
            return HttpAnswer(json.dumps({"jobs": [view.as_object() for view in views]}), JSON)
        return HttpAnswer("".join(f"{_line(view)}\n" for view in views) or "no job is in a queue\n")

    def views(self) -> Iterator[JobView]:
        """All Jobs of queues that have not ended, by namespace and name."""
        last, problems, waits = self._rounds.last, self._known.problems(), self._rounds.why_not()
        managed = {key: each for key, each in self._known.managed().items() if each.lives}
        for key in sorted(managed.keys() | problems.keys()):
            if key in problems:
                yield JobView(*key, "", JobPhase.REFUSED.value, 0, 0, 0, 0.0, problems[key])
            else:
                yield _view(managed[key], last, waits)


def _view(managed: Managed, last: Round, waits: str) -> JobView:
    spec, state = managed.spec, last.states.get(managed.key)
    if waits:
        # What this replica saw when it last planned may be long ago.
        return JobView(*managed.key, spec.queue, "unknown", 0, spec.least, spec.most, spec.created, waits)
    refused = last.refused.get(managed.key) or next(
        (step.text for step in last.plan.steps if isinstance(step, Refuse) and step.job == managed.key), ""
    )
    why = refused or (_why(managed, state) if state is not None else "it is looked at in the next round")
    if not refused and (short := last.short.get(managed.key)):
        why = f"{why}; it can have {offers(short)}"
    phase = JobPhase.REFUSED.value if refused else (state.phase.value if state is not None else "new")
    width, since = (state.width, state.since) if state is not None else (0, spec.created)
    return JobView(*managed.key, spec.queue, phase, width, spec.least, spec.most, since, why)


_WHY: Mapping[JobPhase, str] = {
    JobPhase.WAITING: "waits for room for {least} of its pods",
    JobPhase.STARTING: "was admitted with {width} pods, and not all of them run yet",
    JobPhase.RUNNING: "runs with {width} pods",
    JobPhase.STOPPING: "was stopped, and some of its pods have not ended yet",
    JobPhase.STOPPED: "was stopped for another job, and waits for room for {least} of its pods",
}


def _why(managed: Managed, state: JobState) -> str:
    """One sentence of why the Job is where it is."""
    text = _WHY.get(state.phase, "").format(width=state.width, least=state.spec.least)
    record = managed.record
    if state.phase is JobPhase.RESIZING and record is not None:
        helped = "/".join(record.beneficiary) if record.beneficiary is not None else "other pods"
        text = f"goes from {record.before} to {record.after} pods" + (
            f" for job {helped}" if record.shrinks else ""
        )
    if managed.rigid:
        return f"{text}; its width stays, because the API server refused to change it: {managed.rigid}"
    if managed.spec.width_owner:
        return f"{text}; its width is left to {managed.spec.width_owner}"
    return text


def _line(view: JobView) -> str:
    queue = f" queue {view.queue}" if view.queue else ""
    return f"{view.namespace}/{view.name}{queue} {view.phase} {view.width} ({view.least} to {view.most}): {view.why}"


def by_phase(last: Round) -> Mapping[tuple[str, str], int]:
    """How many Jobs the last round saw, by queue and phase."""
    found: dict[tuple[str, str], int] = {}
    for state in last.states.values():
        key = state.spec.queue, state.phase.value
        found[key] = found.get(key, 0) + 1
    return found


def widths(last: Round) -> Mapping[JobKey, int]:
    """The widths that the last round saw."""
    return {key: state.width for key, state in last.states.items() if state.width}
