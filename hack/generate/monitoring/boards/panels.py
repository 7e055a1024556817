"""Panels that several boards use, and texts that say what a cluster needs so that a query has a result."""

from hack.generate.monitoring.grafana import Panel, Query
from hack.generate.monitoring.queries import each

NO_KERNEL = "the driver must tell what each process uses"
NO_BUSY = "the driver must tell whether a card computes"
NO_JOBS = "the job engine must be installed, and a Job be in a queue"
NO_QUOTA = "kube-state-metrics must be scraped, and a namespace have a ResourceQuota on our resources"
NO_HCU = "Hygon's hcu-exporter must be scraped"
NO_HYGON = "the cards must be Hygon's, and a process use a slice"
SHARE = "percentunit"
# The legend of a series about a container.
CONTAINER = "{{namespace}}/{{pod}} {{container}}"


def stat(
    title: str, expr: str, unit: str = "short", *, about: str = "", width: int = 4, empty: str = ""
) -> Panel:
    """A panel with one present figure."""
    return Panel(title, "stat", (Query(expr, empty=empty),), unit, width, 4, about)


def bars(title: str, query: Query, about: str = "") -> Panel:
    """A panel with a bar between 0 and 1 for each series."""
    return Panel(title, "bargauge", (query,), SHARE, height=10, about=about)


def lines(title: str, *queries: Query, unit: str = "short", about: str = "", stacked: bool = False) -> Panel:
    """A panel with series over time."""
    return Panel(title, "timeseries", queries, unit, about=about, stacked=stacked)


def slices(*chosen: str) -> Panel:
    """A panel with a table of the slices of the chosen objects, and of their use by containers."""
    return Panel(
        "Slices",
        "table",
        (
            Query(each("vgpu_slice_memory_limit_bytes", *chosen), "memory"),
            Query(each("vgpu_slice_memory_used_bytes", *chosen), "used"),
            Query(each("vgpu_slice_memory_used_ratio", *chosen), "used of it"),
            Query(each("vgpu_slice_core_groups", *chosen), "core groups"),
            Query(each("vgpu_slice_compute_ratio", *chosen), "computing", NO_KERNEL),
        ),
        width=24,
        height=10,
        about="Who holds what, and how much of it the container uses, as the library in it counts.",
        keys=("node", "card", "namespace", "pod", "container"),
        units={"memory": "bytes", "used": "bytes", "used of it": SHARE, "computing": SHARE},
        links={"node": "node", "card": "card", "namespace": "namespace"},
    )
