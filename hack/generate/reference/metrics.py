"""The reference page of all metrics, generated from their declarations in the services' modules."""

import importlib
import pkgutil
from collections.abc import Iterator

import device_plugin
from device_plugin.core.contract.metrics import Exporter, Metric
from hack.generate.reference import tables

# Packages that are skipped: commands for people export no metrics.
APART = ("device_plugin.__main__", "device_plugin.cli")

INTRODUCTION = (
    "All services serve `/metrics` in the text formats of Prometheus and OpenMetrics. Each fact has one exporter, so a"
    " sum over all scraped pods counts nothing twice. A metric whose source is missing has no sample."
    " [Monitoring](../monitoring.md) has rules, alerts and boards."
)
ABOUT = {
    Exporter.AGENT: "Of its own node. `vgpu node`, port 9400.",
    Exporter.LEADER: "Of the whole cluster. `vgpu cluster`, port 9402. A replica that stands by exports none of these.",
    Exporter.REPLICA: "Of the replica's own process; Prometheus tells the replicas apart by the labels of the target.",
    Exporter.ENGINE: "Of all queues. `vgpu job-engine`, port 9403. A replica that stands by exports none of these.",
    Exporter.ENGINE_REPLICA: "Of the replica's own process.",
    Exporter.PROCESS: "Of each agent and of each replica.",
}


def declared() -> Iterator[Metric]:
    """Every metric that is declared in a module of a service, each once."""
    seen = set()
    for module in pkgutil.walk_packages(device_plugin.__path__, "device_plugin."):
        if module.name.startswith(APART):
            continue
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Metric) and value not in seen:
                seen.add(value)
                yield value


def page() -> str:
    """The text of the page: a table for each exporter, sorted by metric name."""
    metrics = sorted(declared(), key=lambda metric: metric.name)
    parts = [INTRODUCTION]
    for exporter in Exporter:
        rows = (
            (f"`{metric.name}`", metric.type.value, ", ".join(metric.labels) or "-", metric.help)
            for metric in metrics
            if metric.exporter is exporter
        )
        title = f"## {exporter.value[0].upper()}{exporter.value[1:]}"
        parts += [title, ABOUT[exporter], tables.table(("metric", "type", "labels", "says"), rows)]
    return tables.page("Metrics", "the declarations in `device_plugin/`", *parts)
