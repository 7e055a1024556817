"""/explain: a line for each Job, a paragraph about one, or JSON for programs and for `vgpu why`."""

import json
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from urllib.parse import parse_qs

from device_plugin.core.answers import Answer, sentence
from device_plugin.core.contract.resize import api_time
from device_plugin.core.durations import span
from device_plugin.core.http_values import JSON, PLANNER, HttpAnswer, HttpRequest
from device_plugin.core.jobs.job import UNKNOWN, JobKey, JobPhase
from device_plugin.jobs.pools.planners import Planners
from device_plugin.jobs.round import Round
from device_plugin.jobs.show.views import JobView, refusals, views
from device_plugin.state.jobs import KnownJobs


class JobExplainer:
    """Answers HTTP requests for /explain from the latest round."""

    def __init__(self, known: KnownJobs, planners: Planners) -> None:
        self._known = known
        self._planners = planners

    def __call__(self, request: HttpRequest) -> HttpAnswer:
        """Answer GET /explain about all queued Jobs, and /explain?job=NAMESPACE/NAME about one Job.

        Any other request gets an error.
        """
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
        shown = [
            view
            for view in views(self._known, self._planners)
            if name in ("", f"{view.namespace}/{view.name}")
        ]
        if name and not shown:
            return HttpAnswer(
                f"no job {name} waits or runs in a queue: it has ended, or lacks the label vgpu.io/queue\n",
                status=HTTPStatus.NOT_FOUND,
            )
        namespace, _, job = name.partition("/")
        other = self._planners.elsewhere((namespace, job)) if name else ""
        headers = {PLANNER: other} if other else {}
        holders = self._planners.holders()
        if JSON in request.headers.get("accept", ""):
            # In a list of thousands of Jobs, the parts of each answer would be a second copy of all texts.
            jobs = [
                {
                    **view.as_object(),
                    **(_answer(view, holders.get(view.pool, "")).as_object() if name else {}),
                }
                for view in shown
            ]
            answer = {"problem": self._planners.why_not(), "planners": holders, "jobs": jobs}
            return HttpAnswer(json.dumps(answer), JSON, headers=headers)
        if name:
            said = "".join(f"{_paragraph(view, holders.get(view.pool, ''))}\n" for view in shown)
        else:
            said = "".join(f"{_line(view)}\n" for view in shown) or "no job is in a queue\n"
            said += self._pools()
        return HttpAnswer(said, headers=headers)

    def _pools(self) -> str:
        """A line for each pool (part of the cards) if there are several, and one for a fault of the pools' labels."""
        holders, problem = self._planners.holders(), self._planners.pools().problem
        lines = [
            f"pool {pool} is planned by {holder}" if holder else f"pool {pool} has no planner yet"
            for pool, holder in holders.items()
        ]
        return "".join(f"{line}\n" for line in (*lines, problem) if line)


def _line(view: JobView) -> str:
    queue = f" queue {view.queue}" if view.queue else ""
    width = f"width {view.width} ({_bounds(view)})"
    return f"{view.namespace}/{view.name}{queue} {view.phase} {width}: {view.why}"


def _bounds(view: JobView) -> str:
    """The widths that the Job may have, as text: `2 to 8`, or the widths of its list, `1, 2, 4 or 8`."""
    if len(view.widths) < 2:
        return f"{view.least} to {view.most}"
    *others, last = view.widths
    return f"{', '.join(map(str, others))} or {last}"


def _answer(view: JobView, planner: str) -> Answer:
    """The answer about one Job in parts; `planner` is the replica that plans the Job's pool (part of the cards)."""
    first, *others = view.reasons
    queue = f"queue {view.queue}, " if view.queue else ""
    reasons = [*others, f"{queue}width {view.width} ({_bounds(view)})", *_facts(view, planner)]
    return Answer(
        f"{view.namespace}/{view.name} {view.phase}: {first}", [*map(sentence, reasons)], [*map(sentence, view.helps)]
    )  # fmt: skip


def _paragraph(view: JobView, planner: str) -> str:
    """A paragraph about one Job; `planner` is the replica that plans the Job's pool (part of the cards)."""
    return "; ".join((_line(view), *_facts(view, planner)))


def _facts(view: JobView, planner: str) -> Iterator[str]:
    """Further facts about a Job, as texts: its pool, its place in the queue, its progress and its next change."""
    if view.pool:
        yield f"it is in pool {view.pool}, which {planner} plans"
    if view.place:
        yield f"it is number {view.place} of those that wait in its queue"
    if view.progress is not None:
        yield f"{view.progress.done} of {view.progress.total} are done"
    if view.stuck is not None:
        yield f"it is stuck: no progress for {span(view.stuck)}"
    elif view.left is not None:
        yield f"it ends in about {span(view.left)}"
    if view.since and view.phase != UNKNOWN:
        yield f"{view.phase} since {api_time(view.since)}"
    if view.next_change is not None:
        yield f"next, it {view.next_change.as_text()}"


def by_phase(last: Round) -> Mapping[tuple[str, str], int]:
    """The number of Jobs in the latest round, by queue and phase."""
    found: dict[tuple[str, str], int] = {}
    for state in last.states.values():
        key = state.spec.queue, state.phase.value
        found[key] = found.get(key, 0) + 1
    return found


def widths(last: Round) -> Mapping[JobKey, int]:
    """The number of pods (width) of each Job in the latest round; Jobs of width 0 are left out."""
    return {key: state.width for key, state in last.states.items() if state.width}


def waiting_since(last: Round) -> Mapping[str, float]:
    """For each queue: the time since which its longest waiting Job has waited for room, in seconds since 1970.

    Refused Jobs, and Jobs that wait for others of their group, are left out.
    """
    found: dict[str, float] = {}
    waits_otherwise = last.missing.keys() | refusals(last).keys()
    for key, state in last.states.items():
        if state.queued and state.phase is not JobPhase.REFUSED and key not in waits_otherwise:
            queue = state.spec.queue
            found[queue] = min(found.get(queue, state.since), state.since)
    return found
