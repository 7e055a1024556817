"""The HTTP face of a service towards kubelet and Prometheus: /healthz, /readyz and /metrics."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


def probes(
    why_dead: Callable[[], str], why_not_ready: Callable[[], str], metrics: "WSGIApplication"
) -> "WSGIApplication":
    """A WSGI application with /healthz, /readyz and /metrics; a reason makes its probe answer 503 with the reason."""
    checks = {"/healthz": why_dead, "/readyz": why_not_ready}

    def app(environ: "WSGIEnvironment", start: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if path == "/metrics":
            return metrics(environ, start)
        status, text = "404 Not Found", "look at /healthz, /readyz or /metrics"
        if path in checks:
            why = checks[path]()
            status, text = ("503 Service Unavailable", why) if why else ("200 OK", "ok")
        body = f"{text}\n".encode()
        start(status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))])
        return [body]

    return app
