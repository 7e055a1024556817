"""What kubelet and Prometheus get over HTTP."""

from collections.abc import Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from device_plugin.adapters.probes import probes


def _metrics(_environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
    start("200 OK", [])
    return [b"metrics\n"]


@pytest.mark.parametrize(
    ("path", "dead", "unready", "status", "body"),
    [
        ("/healthz", "", "no kubelet", "200 OK", "ok\n"),
        ("/healthz", "it hangs", "", "503 Service Unavailable", "it hangs\n"),
        ("/readyz", "", "", "200 OK", "ok\n"),
        ("/readyz", "", "no kubelet; no card", "503 Service Unavailable", "no kubelet; no card\n"),
        ("/metrics", "it hangs", "no kubelet", "200 OK", "metrics\n"),
        ("/", "", "", "404 Not Found", "look at /healthz, /readyz or /metrics\n"),
    ],
)
def test_a_probe_says_why_not(path: str, dead: str, unready: str, status: str, body: str) -> None:
    answers = []

    def start(status: str, headers: list[tuple[str, str]], *_: object) -> None:
        answers.append((status, dict(headers)))

    app = probes(lambda: dead, lambda: unready, _metrics)
    got = b"".join(app({"PATH_INFO": path}, start)).decode()  # type: ignore[arg-type]  # only what it reads
    assert (answers[0][0], got) == (status, body)
    assert answers[0][1].get("Content-Length", str(len(body))) == str(len(body))
