"""Counters of the cluster service: decisions by duration, Bindings by outcome, and waiting times of bound pods."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

from device_plugin.core.contract.metrics import Exporter, Metric, MetricType, Reading

# Bounds in seconds. A placement takes about 1 ms; kube-scheduler's timeout is 5 s.
BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)

PLACEMENT = Metric(
    "vgpu_placement_seconds", Exporter.REPLICA, "Time from a call of /filter to its answer.",
    type=MetricType.HISTOGRAM,
)  # fmt: skip
# Bounds in seconds. Kubernetes writes times of creation in whole seconds.
WAITED = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

POD_WAITED = Metric(
    "vgpu_pod_bind_wait_seconds", Exporter.REPLICA,
    "Time from the creation of a pod that asks for a slice to its Binding, of the pods that this replica bound.",
    type=MetricType.HISTOGRAM,
)  # fmt: skip
BINDS = Metric(
    "vgpu_binds_total", Exporter.REPLICA,
    "Calls of /bind by outcome: bound; refused, unplaced, gone, busy, fenced (this replica may not bind now), unread"
    " and unknown (the API server did not answer).",
    ("outcome",), MetricType.COUNTER,
)  # fmt: skip

IDLE_EVICTIONS = Metric(
    "vgpu_idle_evictions_total", Exporter.REPLICA,
    "Evictions of pods whose slices had all been idle for their idle limit (vgpu.io/idle-limit), by outcome: evicted;"
    " refused (by a PodDisruptionBudget or by admission; it is tried again).",
    ("outcome",), MetricType.COUNTER,
)  # fmt: skip


class Counts:
    """The numbers of decisions, waits, Bindings and idle evictions since the process started, for the metrics.

    Safe from any thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._placements = [0] * (len(BOUNDS) + 1)
        self._seconds = 0.0
        self._waits = [0] * (len(WAITED) + 1)
        self._waited = 0.0
        self._binds: Counter[str] = Counter()
        self._idle_evictions: Counter[str] = Counter(evicted=0, refused=0)

    def placed(self, seconds: float) -> None:
        """Count a decision of /filter that took `seconds`."""
        with self._lock:
            self._placements[bisect_left(BOUNDS, seconds)] += 1
            self._seconds += seconds

    def bound(self, outcome: str) -> None:
        """Count a /bind by its `outcome`."""
        with self._lock:
            self._binds[outcome] += 1

    def waited(self, seconds: float) -> None:
        """Count a pod that was bound `seconds` after its creation."""
        with self._lock:
            self._waits[bisect_left(WAITED, seconds)] += 1
            self._waited += seconds

    def idle_eviction(self, outcome: str) -> None:
        """Count an eviction of an idle pod by its `outcome`."""
        with self._lock:
            self._idle_evictions[outcome] += 1

    def readings(self) -> Iterator[Reading]:
        """All four metrics of this module, with the values counted so far."""
        with self._lock:
            placements, seconds, binds = list(self._placements), self._seconds, dict(self._binds)
            waits, waited = list(self._waits), self._waited
            idle = dict(self._idle_evictions)
        yield Reading(PLACEMENT, _buckets(BOUNDS, placements), seconds)
        yield Reading(POD_WAITED, _buckets(WAITED, waits), waited)
        yield Reading(IDLE_EVICTIONS, [((outcome,), float(count)) for outcome, count in idle.items()])
        yield Reading(BINDS, [((outcome,), float(count)) for outcome, count in binds.items()])


def _buckets(bounds: Sequence[float], counts: Sequence[int]) -> Sequence[tuple[Sequence[str], float]]:
    """The cumulative samples of a histogram: for each bound, the number of values up to it.

    `counts` holds the number of values between neighbouring bounds; its last entry is for values above all bounds.
    """
    names = [*map(str, bounds), "+Inf"]
    return [((name,), float(count)) for name, count in zip(names, accumulate(counts), strict=True)]
