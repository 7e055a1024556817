"""Counters of the cluster service: decisions by the time that they took, and Bindings by outcome."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from device_plugin.core.metrics import Exporter, Metric, MetricType, Reading

# Bounds in seconds. A placement takes about 1 ms; kube-scheduler's timeout is 5 s.
BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

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


class Counts:
    """Counts since the process started. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._placements = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0
        self._binds: Counter[str] = Counter()

    def placed(self, seconds: float) -> None:
        """Count a decision that took `seconds`."""
        with self._lock:
            self._placements[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    def bound(self, outcome: str) -> None:
        """Count a /bind by its `outcome`."""
        with self._lock:
            self._binds[outcome] += 1

    def readings(self) -> Iterator[Reading]:
        """Both metrics with their present values."""
        with self._lock:
            counts, seconds, binds = list(accumulate(self._placements)), self._seconds, dict(self._binds)
        bounds = [*map(str, BOUNDS), "+Inf"]
        yield Reading(PLACEMENT, [((b,), float(n)) for b, n in zip(bounds, counts, strict=True)], seconds)
        yield Reading(BINDS, [((outcome,), float(count)) for outcome, count in binds.items()])
