"""The metric with the version of a process."""

from collections.abc import Callable, Iterable, Iterator

from device_plugin.core.contract.metrics import Exporter, Metric, Reading
from device_plugin.wiring.commands import VERSION

BUILD = Metric(
    "vgpu_build_info", Exporter.PROCESS,
    "Always 1. The labels say which service this process is (node, cluster, jobs, ui), and its version.",
    ("service", "version"),
)  # fmt: skip


def with_build_info(service: str, read: Callable[[], Iterable[Reading]]) -> Callable[[], Iterator[Reading]]:
    """Returns a function that yields a metric with the version of `service`, then the readings of `read`."""

    def readings() -> Iterator[Reading]:
        yield Reading(BUILD, [((service, VERSION), 1.0)])
        yield from read()

    return readings
