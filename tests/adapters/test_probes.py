"""What kubelet and Prometheus get over HTTP."""

import pytest

from device_plugin.adapters.probes import probes
from device_plugin.core.http_values import HttpAnswer, HttpRequest


@pytest.mark.parametrize(
    ("path", "dead", "unready", "status", "body"),
    [
        ("/healthz", "", "no kubelet", 200, "ok\n"),
        ("/healthz", "it hangs", "", 503, "it hangs\n"),
        ("/readyz", "", "", 200, "ok\n"),
        ("/readyz", "", "no kubelet; no card", 503, "no kubelet; no card\n"),
        ("/metrics", "it hangs", "no kubelet", 200, "metrics\n"),
        ("/", "", "", 404, "look at /healthz, /readyz or /metrics\n"),
    ],
)
def test_a_probe_says_why_not(path: str, dead: str, unready: str, status: int, body: str) -> None:
    app = probes(lambda: dead, lambda: unready, lambda _: HttpAnswer("metrics\n"))
    answer = app(HttpRequest("GET", path))
    assert (answer.status, answer.body) == (status, body)
