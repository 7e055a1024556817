"""The HTTP API on loopback: /filter, /preempt and /bind for the kube-scheduler in our pod, /explain for people.

/decisions exports this replica's reservations and the mix of requests that it has learnt, so that people's commands
decide as this replica does.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import msgspec

from device_plugin.allocator.decisions import Decisions
from device_plugin.allocator.explain import Explainer, as_text
from device_plugin.cluster.bind import Binder
from device_plugin.cluster.filter import Filter, Verdict
from device_plugin.cluster.ports import BindCall, Calls
from device_plugin.cluster.preemption import Candidates, Preemption
from device_plugin.core.http_values import JSON, App, EarlyApp, HttpAnswer, HttpRequest

_encode = msgspec.json.Encoder().encode


class Extender:
    """Serves the five paths of the cluster service's API. `early` answers calls of which the beginning is enough.

    A failure of /filter and /bind is the field `Error` of an answer with status 200, because kube-scheduler writes this
    field to the pod, but only logs answers with another status.
    """

    def __init__(
        self, place: Filter, bind: Binder, preemption: Preemption, explainer: Explainer, decisions: Decisions,
        calls: Calls,
    ) -> None:  # fmt: skip
        self._filter = filter_app(place, calls)
        self.early = early_filter_app(place, calls)
        self._bind = bind
        self._preemption = preemption
        self._explainer = explainer
        self._decisions = decisions
        self._calls = calls

    def app(self) -> App:
        """Returns the application that answers /filter, /bind, /preempt, /explain and /decisions."""
        return _routed({
            ("POST", "/filter"): self._filter, ("POST", "/bind"): self._bound,
            ("POST", "/preempt"): self._preempt, ("GET", "/explain"): self._explain,
            ("GET", "/decisions"): self._decided,
        })  # fmt: skip

    def _bound(self, request: HttpRequest) -> HttpAnswer:
        try:
            call = BindCall(*self._calls.bind(request.body))
        except ValueError as error:
            return _json({"Error": f"/bind: {error}"})
        return _json({"Error": self._bind(call)})

    def _preempt(self, request: HttpRequest) -> HttpAnswer:
        try:
            pod, candidates = self._calls.preempt(request.body)
        except ValueError as error:
            # The result has no field for an error, and kube-scheduler logs answers other than 200.
            return HttpAnswer(f"/preempt: {error}\n", status=HTTPStatus.BAD_REQUEST)
        return _json(_preemption_result(self._preemption.advise(pod, candidates)))

    def _explain(self, request: HttpRequest) -> HttpAnswer:
        query = parse_qs(request.query, keep_blank_values=True)
        pod = query.pop("pod", [""])[0]
        if query or (pod and not all(pod.partition("/"))):
            return HttpAnswer(
                "write /explain or /explain?pod=NAMESPACE/NAME\n", status=HTTPStatus.BAD_REQUEST
            )
        view = self._explainer.view(pod)
        if JSON in request.headers.get("accept", ""):
            return _json(view)
        return HttpAnswer(as_text(view))

    def _decided(self, request: HttpRequest) -> HttpAnswer:
        if request.query:
            return HttpAnswer("write /decisions\n", status=HTTPStatus.BAD_REQUEST)
        return _json(self._decisions.as_object())


def filter_app(place: Filter, calls: Calls) -> App:
    """Returns an application that answers every request as a call of /filter."""

    def app(request: HttpRequest) -> HttpAnswer:
        try:
            pod, nodes = calls.filter(request.body)
        except ValueError as error:
            found = Verdict(error=f"/filter: {error}")
        else:
            found = place(pod, nodes)
        return _filtered(found, calls)

    return app


def early_filter_app(place: Filter, calls: Calls) -> EarlyApp:
    """Returns an application that answers calls of /filter from their beginning, for pods that no node can take.

    kube-scheduler asks for such a pod again and again. The list of nodes comes at the end of a call. For such a pod it
    decides only the wording of the refusal, and to receive the names of thousands of nodes takes longer than the rest
    of the call. The answer is None if the whole call is needed.
    """

    def app(request: HttpRequest, length: int) -> HttpAnswer | None:
        asked = (request.method, request.path) == ("POST", "/filter")
        known = calls.begun(request.body, length) if asked else None
        found = place.again(*known) if known is not None else None
        return None if found is None else _filtered(found, calls)

    return app


def _filtered(found: Verdict, calls: Calls) -> HttpAnswer:
    return HttpAnswer(calls.answer_filter(found.nodes, found.failed, found.hopeless, found.error), JSON)


def _routed(routes: Mapping[tuple[str, str], App]) -> App:
    def app(request: HttpRequest) -> HttpAnswer:
        handler = routes.get((request.method, request.path))
        if handler is not None:
            return handler(request)
        if any(known == request.path for _, known in routes):
            return HttpAnswer("method not allowed\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        return HttpAnswer("not found\n", status=HTTPStatus.NOT_FOUND)

    return app


def _json(value: object) -> HttpAnswer:
    return HttpAnswer([_encode(value)], JSON)


def _preemption_result(victims: Candidates) -> Mapping[str, Any]:
    """The answer to /preempt as ExtenderPreemptionResult; pods are named by UID, as nodeCacheCapable demands."""
    return {
        "NodeNameToMetaVictims": {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
            for node, uids in victims.items()
        }
    }
