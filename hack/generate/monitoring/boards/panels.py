"""Panels that several boards use, and texts that say what a cluster needs so that a query has a result."""

from device_plugin.core.idle import IDLE_SECONDS
from hack.generate.monitoring.grafana import Panel, Query
from hack.generate.monitoring.queries import SLICE, each, rate, recorded
from hack.generate.monitoring.rules import IDLE, NAMESPACE_CARDS

NO_KERNEL = "the driver must tell what each process uses"
NO_BUSY = "the driver must tell whether a card computes"
NO_JOBS = "the job engine must be installed, and a Job be in a queue"
NO_WAITING = "a Job in a queue must wait for room"
NO_PROGRESS = "a program must tell its progress"
NO_CHECKPOINT = "a program must tell its checkpoints"
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


def heatmap(title: str, query: Query, unit: str = SHARE, *, about: str, rows: str = "") -> Panel:
    """A panel with a row for each series, and a cell for each moment whose colour is the value."""
    return Panel(title, "heatmap", (query,), unit, height=10, about=about, rows=rows)


def widths(query: str, about: str) -> Panel:
    """A panel with a row for each Job, and in it a bar for each time in which the Job had one width."""
    return Panel(
        "Widths of Jobs",
        "state-timeline",
        (Query(query, "{{namespace}}/{{job}}", NO_JOBS),),
        width=24,
        height=10,
        about=f"{about} The number in a bar is the number of pods; a Job that waits or is stopped has no bar.",
    )


def card_hours(*chosen: str) -> Panel:
    """A panel with a table of the card-hours of the chosen namespaces in the board's time, as `vgpu usage` counts."""

    def hours(rule: str) -> str:
        return f"sum_over_time({recorded(rule, *chosen)}[$__range:$__interval]) * $__interval_ms / 3600000"

    return Panel(
        "Card-hours by namespace",
        "table",
        (
            Query(hours(NAMESPACE_CARDS["granted"]), "granted"),
            Query(hours(NAMESPACE_CARDS["memory_used"]), "memory used"),
            Query(hours(NAMESPACE_CARDS["busy"]), "computed", NO_KERNEL),
        ),
        width=24,
        about="In the time that the board shows. A slice counts as the larger of its shares of its card's memory and"
        " core groups; then the part of it whose memory was used, and whose core groups computed. `vgpu usage` has the"
        " same by owner, and as CSV.",
        keys=("namespace",),
        units=dict.fromkeys(("granted", "memory used", "computed"), "h"),
    )


def computing(*chosen: str) -> Panel:
    """A panel with the computing of the chosen slices over time."""
    return lines(
        "Computing",
        Query(each("vgpu_slice_compute_ratio", *chosen), CONTAINER, NO_KERNEL),
        unit=SHARE,
        about="Share of the slice's compute units that run work of the container.",
    )


def refused(*chosen: str) -> Panel:
    """A panel with the refused allocations of the chosen slices over time."""
    return lines(
        "Refused allocations",
        Query(
            rate("vgpu_slice_denied_allocations_total", *chosen, by="namespace, pod, container"), CONTAINER
        ),
        unit="ops",
        about="Allocations beyond the limit: the program is told that there is no memory.",
    )


def slices(*chosen: str) -> Panel:
    """A panel with a table of the slices of the chosen objects, and of their use by containers."""
    return Panel(
        "Slices",
        "table",
        (
            Query(each("vgpu_slice_memory_limit_bytes", *chosen), "memory"),
            Query(each("vgpu_slice_memory_used_bytes", *chosen), "used"),
            Query(each("vgpu_slice_memory_used_ratio", *chosen), "used of it"),
            Query(each("vgpu_slice_memory_peak_bytes", *chosen), "most used"),
            Query(each("vgpu_slice_observed_seconds", *chosen), "followed for"),
            Query(each("vgpu_slice_core_groups", *chosen), "core groups"),
            Query(each("vgpu_slice_compute_ratio", *chosen), "computing", NO_KERNEL),
            Query(each("vgpu_slice_idle_seconds", *chosen), "idle for", NO_KERNEL),
        ),
        width=24,
        height=10,
        about="Who holds what, and how much of it the container uses, as the library in it counts. The most that it has"
        " used is of the time for which the agent has followed it.",
        keys=("node", "card", "namespace", "pod", "container"),
        units={
            "memory": "bytes",
            "used": "bytes",
            "used of it": SHARE,
            "most used": "bytes",
            "followed for": "s",
            "computing": SHARE,
            "idle for": "s",
        },
    )


def idle_slices(*chosen: str) -> Panel:
    """A panel with a table of the idle slices of the chosen objects, by their owner."""
    by = "namespace, owner_kind, owner_name"
    idle = f"({recorded(IDLE, *chosen)} >= {IDLE_SECONDS:.0f})"
    # To the power of 0: the labels of the idle slices with the value 1.
    owned = f"on ({SLICE}) group_left (owner_kind, owner_name) {idle} ^ 0"
    held = f"{each('vgpu_slice_memory_limit_bytes', *chosen)} * {owned}"
    return Panel(
        "Idle slices by owner",
        "table",
        (
            Query(f"count by ({by}) ({idle})", "slices", NO_KERNEL),
            Query(f"sum by ({by}) ({held})", "memory"),
            Query(f"max by ({by}) ({idle})", "longest"),
        ),
        width=24,
        about=f"Slices that have neither computed nor changed their memory for {IDLE_SECONDS / 60:.0f} minutes, by the"
        " controller of their pod: `vgpu waste` lists them. Controllers are from kube-state-metrics.",
        keys=("namespace", "owner_kind", "owner_name"),
        units={"memory": "bytes", "longest": "s"},
    )
