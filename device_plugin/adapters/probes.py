"""Serves /healthz and /readyz, which the kubelet asks, and /metrics, which Prometheus asks."""

from collections.abc import Callable

from device_plugin.core.http_values import App, HttpAnswer, HttpRequest


def probes(why_not_alive: Callable[[], str], why_not_ready: Callable[[], str], metrics: App) -> App:
    """Returns an application with /healthz, /readyz and /metrics; a probe with a reason answers 503 and the reason."""
    checks = {"/healthz": why_not_alive, "/readyz": why_not_ready}

    def app(request: HttpRequest) -> HttpAnswer:
        if request.path == "/metrics":
            return metrics(request)
        if request.path not in checks:
            return HttpAnswer("look at /healthz, /readyz or /metrics\n", status=404)
        why = checks[request.path]()
        return HttpAnswer(f"{why or 'ok'}\n", status=503 if why else 200)

    return app
