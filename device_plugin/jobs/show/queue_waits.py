"""The starts of Jobs by queue, and the time that the started Jobs had waited; their quotient is the mean wait.

A tenant names queues as he likes. So beyond MOST_QUEUES queues, the queue whose last start is longest ago is counted
among the others from then on; if it comes back, its counters begin at 0.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from device_plugin.core.contract.metrics import OTHERS, Exporter, Metric, MetricType, Reading
from device_plugin.state.managed import Managed

# Most queues of a metric.
MOST_QUEUES = 400

STARTS = Metric(
    "vgpu_queue_starts_total", Exporter.ENGINE_REPLICA,
    "Jobs of the queue that this replica has started, those that had been stopped too. Of more than"
    f" {MOST_QUEUES} queues those without a start for longest are one, {OTHERS}.",
    ("queue",), MetricType.COUNTER,
)  # fmt: skip
WAITED = Metric(
    "vgpu_queue_start_wait_seconds_total", Exporter.ENGINE_REPLICA,
    "Time for which the Jobs that vgpu_queue_starts_total counts had waited, each since its creation or since it was"
    " stopped.",
    ("queue",), MetricType.COUNTER,
)  # fmt: skip


class QueueWaits:
    """Counts starts and waiting times. One thread calls `started`; any thread may read. `wall`: seconds since 1970."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        # By queue, the one without a start for longest first: its starts, and the seconds that the Jobs waited.
        self._of: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._others = (0, 0.0)

    def started(self, managed: Managed) -> None:
        """Count the start of a Job and the time that it had waited; `managed` is the Job before its start."""
        now = self._wall()
        queue = managed.spec.queue
        waited = max(0.0, now - managed.rests_since(now))
        self._of[queue] = _plus(self._of.get(queue, (0, 0.0)), (1, waited))
        self._of.move_to_end(queue)
        if len(self._of) > MOST_QUEUES:
            self._others = _plus(self._others, self._of.popitem(last=False)[1])

    def __call__(self) -> Iterator[Reading]:
        """The readings of both metrics: starts and waiting times, by queue."""
        found = sorted(self._of.items())
        if self._others[0]:
            found.append((OTHERS, self._others))
        yield Reading(STARTS, [((queue,), float(starts)) for queue, (starts, _) in found])
        yield Reading(WAITED, [((queue,), waited) for queue, (_, waited) in found])


def _plus(one: tuple[int, float], other: tuple[int, float]) -> tuple[int, float]:
    return one[0] + other[0], one[1] + other[1]
