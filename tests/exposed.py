"""Metrics as a test declares, scrapes and reads them."""

from collections.abc import Iterable, Mapping, Sequence

from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from device_plugin.core.contract.metrics import Exporter, Metric, MetricType, Reading
from hack.generate.reference.metrics import declared

DECLARED = {metric.name: metric for metric in declared()}
Samples = Iterable[tuple[Sequence[str], float]]


def reading(
    name: str, samples: Samples, labels: tuple[str, ...] = ("node",), kind: MetricType = MetricType.GAUGE
) -> Reading:
    """A reading of a metric that only a test knows."""
    return Reading(Metric(name, Exporter.AGENT, "What it says.", labels, kind), samples)


def values(readings: Iterable[Reading]) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    """By name the value for each set of label values."""
    return {r.metric.name: {tuple(labels): value for labels, value in r.samples} for r in readings}


def families(text: str) -> Mapping[str, Family]:
    """What one process exports, by the names that are declared."""
    parsed = list(text_string_to_metric_families(text))
    found = {family.name + "_total" * (family.type == "counter"): family for family in parsed}
    assert len(found) == len(parsed), "a name is exported twice by one process"
    return found


def exporters(found: Mapping[str, Family]) -> set[Exporter]:
    """The exporters of the scraped metrics. Asserts that type and help of each are as declared."""
    for name, family in found.items():
        metric = DECLARED[name]
        assert (family.type, family.documentation) == (metric.type.value, metric.help), name
        for sample in family.samples:
            buckets = {"le"} if metric.type is MetricType.HISTOGRAM else set()
            assert sample.labels.keys() - buckets == set(metric.labels), sample
    return {DECLARED[name].exporter for name in found}


def facts(found: Mapping[str, Family]) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """What of a scrape is said of the cluster, not of the process itself: sample names with their labels."""
    return {
        (sample.name, frozenset(sample.labels.items()))
        for name, family in found.items()
        for sample in family.samples
        if DECLARED[name].exporter not in (Exporter.REPLICA, Exporter.PROCESS)
    }
