"""Prometheus: the exposition that both services serve, and what the cluster service counts."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol
from wsgiref.types import WSGIApplication

from prometheus_client import CollectorRegistry, Counter, Histogram, make_wsgi_app
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# A placement takes about a millisecond; kube-scheduler gives up on us after five seconds.
_PLACEMENT_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


def exposition(registry: CollectorRegistry) -> WSGIApplication:
    """The text of all metrics in `registry`, as a WSGI application."""
    app: WSGIApplication = make_wsgi_app(registry)
    return app


class Reading(Protocol):
    """One gauge as it stands now: for each set of label values, in the order of `labels`, a value."""

    @property
    def name(self) -> str:
        """The metric's name."""

    @property
    def help(self) -> str:
        """What it says."""

    @property
    def labels(self) -> Sequence[str]:
        """Names of the labels."""

    @property
    def samples(self) -> Sequence[tuple[Sequence[str], float]]:
        """Label values and value; what has no source has no sample."""


class Gauges(Collector):
    """Gauges that are read when they are asked for, so that none can be stale or outlive its source."""

    def __init__(self, read: Callable[[], Iterable[Reading]], registry: CollectorRegistry) -> None:
        self._read = read
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """Nothing: the registry need not read us to know that our names are our own."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """All readings; a gauge without samples is left out."""
        for reading in self._read():
            family = GaugeMetricFamily(reading.name, reading.help, labels=list(reading.labels))
            for values, value in reading.samples:
                family.add_metric(list(values), value)
            if family.samples:
                yield family


class ClusterMetrics:
    """What the cluster service counts as it happens."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._placement = Histogram(
            "vgpu_placement_seconds", "Time that /filter took to decide.", registry=registry,
            buckets=_PLACEMENT_BUCKETS,
        )  # fmt: skip
        self._binds = Counter("vgpu_binds", "Bindings by how they ended.", ["outcome"], registry=registry)

    def placed(self, seconds: float) -> None:
        """A decision took `seconds`."""
        self._placement.observe(seconds)

    def bound(self, outcome: str) -> None:
        """A /bind ended as `outcome`."""
        self._binds.labels(outcome).inc()
