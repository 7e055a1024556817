"""The page of all metrics, from their declarations in the modules of both services."""

import importlib
import pkgutil
from collections.abc import Iterator

import device_plugin
from device_plugin.core.metrics import Exporter, Metric

# Packages that are skipped: commands for people export no metrics.
APART = ("device_plugin.__main__", "device_plugin.cli")

_TABLE = ("| metric | type | labels | says |", "|---|---|---|---|")
HEAD = """\
# Metrics

Written by `make docs` from the declarations in the code: change those, not this page.

Both services serve `/metrics` in Prometheus' text format. Each fact has one exporter, so a sum over all scraped pods
counts nothing twice. A metric whose source is missing has no sample. `manifests/components/monitoring` scrapes both.
"""
ABOUT = {
    Exporter.AGENT: "Of its own node. `vgpu node`, port 9400.",
    Exporter.LEADER: "Of the whole cluster. `vgpu cluster`, port 9402. A replica that stands by exports none of these.",
    Exporter.REPLICA: "Of the replica's own process; Prometheus tells the replicas apart by the labels of the target.",
}


def declared() -> Iterator[Metric]:
    """Every metric that a module of a service assigns to a name, once."""
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
    parts = [HEAD]
    for exporter in Exporter:
        rows = [_row(metric) for metric in metrics if metric.exporter is exporter]
        title = f"## {exporter.value[0].upper()}{exporter.value[1:]}"
        parts.append("\n".join([title, "", ABOUT[exporter], "", *_TABLE, *rows, ""]))
    return "\n".join(parts)


def _row(metric: Metric) -> str:
    labels = ", ".join(metric.labels) or "-"
    said = metric.help.replace("|", "\\|")
    return f"| `{metric.name}` | {metric.type.value} | {labels} | {said} |"
