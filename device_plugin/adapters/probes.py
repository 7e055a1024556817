"""The HTTP face of a service towards kubelet and Prometheus: /healthz, /readyz and /metrics."""

from collections.abc import Callable

from device_plugin.core.http_values import App, HttpAnswer, HttpRequest


def probes(why_not_alive: Callable[[], str], why_not_ready: Callable[[], str], metrics: App) -> App:
    """An application with /healthz, /readyz and /metrics; a reason makes its probe answer 503 with the reason."""
    checks = {"/healthz": why_not_alive, "/readyz": why_not_ready}

    def app(request: HttpRequest) -> HttpAnswer:
        if request.path == "/metrics":
            return metrics(request)
        if request.path not in checks:
            return HttpAnswer("look at /healthz, /readyz or /metrics\n", status=404)
        why = checks[request.path]()
        return HttpAnswer(f"{why or 'ok'}\n", status=503 if why else 200)

    return app
