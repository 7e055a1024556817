"""Counters and histograms of the cluster service."""

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from device_plugin.core.metrics import Exporter, Metric, MetricType

# A placement takes about a millisecond; kube-scheduler gives up on us after five seconds.
_PLACEMENT_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

PLACEMENT = Metric(
    "vgpu_placement_seconds", Exporter.REPLICA, "Time from a call of /filter to its answer.",
    type=MetricType.HISTOGRAM,
)  # fmt: skip
BINDS = Metric(
    "vgpu_binds_total", Exporter.REPLICA,
    "Calls of /bind by outcome: bound; refused, unplaced, gone, busy, fenced (this replica may not bind now), unread"
    " and unknown (the API server did not answer).",
    ("outcome",), MetricType.COUNTER,
)  # fmt: skip

# Prometheus keeps the time of a counter's start itself; a gauge for each would double the samples.
disable_created_metrics()  # type: ignore[no-untyped-call]


class ClusterMetrics:
    """Counts decisions and Bindings when they happen."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._placement = Histogram(
            PLACEMENT.name, PLACEMENT.help, buckets=_PLACEMENT_BUCKETS, registry=registry
        )
        self._binds = Counter(BINDS.name, BINDS.help, BINDS.labels, registry=registry)

    def placed(self, seconds: float) -> None:
        """A decision took `seconds`."""
        self._placement.observe(seconds)

    def bound(self, outcome: str) -> None:
        """A /bind ended as `outcome`."""
        self._binds.labels(outcome).inc()
