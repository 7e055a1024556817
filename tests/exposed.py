"""Metrics as a test declares and reads them."""

from collections.abc import Iterable, Mapping, Sequence

from device_plugin.core.metrics import Exporter, Metric, MetricType, Reading

Samples = Iterable[tuple[Sequence[str], float]]


def reading(
    name: str, samples: Samples, labels: tuple[str, ...] = ("node",), kind: MetricType = MetricType.GAUGE
) -> Reading:
    """A reading of a metric that only a test knows."""
    return Reading(Metric(name, Exporter.AGENT, "What it says.", labels, kind), samples)


def values(readings: Iterable[Reading]) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    """By name the value for each set of label values."""
    return {r.metric.name: {tuple(labels): value for labels, value in r.samples} for r in readings}
