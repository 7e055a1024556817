"""What the cluster service counts for Prometheus as it happens."""

from prometheus_client import CollectorRegistry, Counter, Histogram

# A placement takes about a millisecond; kube-scheduler gives up on us after five seconds.
_PLACEMENT_BUCKETS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


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
