"""The HTTP API on loopback: /filter, /preempt and /bind for the kube-scheduler in our pod, /explain for people."""

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from device_plugin.cluster.place.bind import Binder
from device_plugin.cluster.place.filter import Filter, Verdict
from device_plugin.cluster.ports import BindCall, Calls
from device_plugin.cluster.preempt.preemption import Candidates, Preemption
from device_plugin.cluster.show.explain import Explainer, as_text

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

log = logging.getLogger(__name__)

JSON, TEXT = "application/json", "text/plain; charset=utf-8"
_WRITER = json.JSONEncoder(separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: status, body and content type."""

    body: str
    content: str = TEXT
    status: HTTPStatus = HTTPStatus.OK


Handler = Callable[["WSGIEnvironment"], Answer]


class Extender:
    """Serves kube-scheduler's calls. It shows people the text of `Error`, but only logs answers other than 200."""

    def __init__(
        self, place: Filter, bind: Binder, preemption: Preemption, explainer: Explainer, calls: Calls
    ) -> None:
        self._place = place
        self._bind = bind
        self._preemption = preemption
        self._explainer = explainer
        self._calls = calls

    def app(self) -> "WSGIApplication":
        """A WSGI application with the four paths."""
        return _routed({
            ("POST", "/filter"): self._filter, ("POST", "/bind"): self._bound,
            ("POST", "/preempt"): self._preempt, ("GET", "/explain"): self._explain,
        })  # fmt: skip

    def _filter(self, environ: "WSGIEnvironment") -> Answer:
        try:
            pod, nodes = self._calls.filter(_body(environ))
        except ValueError as error:
            return _json(_filter_result(Verdict(error=f"/filter: {error}")))
        return _json(_filter_result(self._place(pod, nodes)))

    def _bound(self, environ: "WSGIEnvironment") -> Answer:
        try:
            call = BindCall(*self._calls.bind(_body(environ)))
        except ValueError as error:
            return _json({"Error": f"/bind: {error}"})
        return _json({"Error": self._bind(call)})

    def _preempt(self, environ: "WSGIEnvironment") -> Answer:
        try:
            pod, candidates = self._calls.preempt(_body(environ))
        except ValueError as error:
            # The result has no field for an error, and kube-scheduler logs answers other than 200.
            return Answer(f"/preempt: {error}\n", status=HTTPStatus.BAD_REQUEST)
        return _json(_preemption_result(self._preemption.advise(pod, candidates)))

    def _explain(self, environ: "WSGIEnvironment") -> Answer:
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        pod = query.pop("pod", [""])[0]
        if query or (pod and not all(pod.partition("/"))):
            return Answer("write /explain or /explain?pod=NAMESPACE/NAME\n", status=HTTPStatus.BAD_REQUEST)
        view = self._explainer.view(pod)
        if JSON in environ.get("HTTP_ACCEPT", ""):
            return _json(view)
        return Answer(as_text(view))


def _routed(routes: Mapping[tuple[str, str], Handler]) -> "WSGIApplication":
    def app(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        handler = routes.get((environ["REQUEST_METHOD"], path))
        if handler is not None:
            answer = handler(environ)
        elif any(known == path for _, known in routes):
            answer = Answer("method not allowed\n", status=HTTPStatus.METHOD_NOT_ALLOWED)
        else:
            answer = Answer("not found\n", status=HTTPStatus.NOT_FOUND)
        body = answer.body.encode()
        start(
            f"{answer.status.value} {answer.status.phrase}",
            [("Content-Type", answer.content), ("Content-Length", str(len(body)))],
        )
        return [body]

    return app


def _body(environ: "WSGIEnvironment") -> bytes:
    body: bytes = environ["wsgi.input"].read()
    return body


def _json(value: object) -> Answer:
    return Answer(_WRITER.encode(value), JSON)


def _filter_result(verdict: Verdict) -> Mapping[str, Any]:
    """ExtenderFilterResult of k8s.io/kube-scheduler/extender/v1, whose Go fields carry no JSON names of their own."""
    return {
        "NodeNames": list(verdict.nodes),
        "FailedNodes": verdict.failed,
        "FailedAndUnresolvableNodes": verdict.hopeless,
        "Error": verdict.error,
    }


def _preemption_result(victims: Candidates) -> Mapping[str, Any]:
    """The answer to /preempt, ExtenderPreemptionResult, in the form for nodeCacheCapable: names in place of objects."""
    return {
        "NodeNameToMetaVictims": {
            node: {"Pods": [{"UID": uid} for uid in uids], "NumPDBViolations": 0}
            for node, uids in victims.items()
        }
    }
