"""The board of namespaces: the slices that the chosen namespaces hold, use and wait for."""

from hack.generate.monitoring.boards.panels import (
    CONTAINER,
    NO_KERNEL,
    NO_PROGRESS,
    NO_QUOTA,
    SHARE,
    bars,
    card_hours,
    idle_slices,
    lines,
    slices,
    stat,
    widths,
)
from hack.generate.monitoring.grafana import Board, Query, Variable
from hack.generate.monitoring.queries import each, rate, recorded, total
from hack.generate.monitoring.rules import NAMESPACE_CARDS

NAMESPACE = Variable("namespace", "vgpu_namespace_granted_slices")
_POD = "namespace, pod, container"
GRANTED = "Of the chosen namespaces, with reservations that are not bound yet."

_NOW = (
    stat("Memory granted", total("vgpu_namespace_granted_memory_bytes", "namespace"), "bytes", about=GRANTED),
    stat("Core groups granted", total("vgpu_namespace_granted_core_groups", "namespace"), about=GRANTED),
    stat("Slices", total("vgpu_namespace_granted_slices", "namespace"), about=GRANTED),
    stat(
        "Memory used",
        f"sum ({recorded('vgpu:namespace_memory_used:bytes', 'namespace')})",
        "bytes",
        about="As the libraries in the containers count it.",
    ),
    stat(
        "Core groups busy",
        f"sum ({recorded('vgpu:namespace_core_groups_busy:sum', 'namespace')})",
        about="Core groups that run work of the containers.",
        empty=NO_KERNEL,
    ),
    stat(
        "Waiting pods",
        f"{total('vgpu_namespace_unplaced_pods', 'namespace')} or vector(0)",
        about="Pods that ask for a slice and have none: their events say why.",
    ),
)

_GRANTED = (
    lines(
        "Memory granted and used",
        Query(
            total("vgpu_namespace_granted_memory_bytes", "namespace", by="namespace"), "{{namespace}} granted"
        ),
        Query(recorded("vgpu:namespace_memory_used:bytes", "namespace"), "{{namespace}} used"),
        unit="bytes",
        about="Granted with reservations; used as the libraries in the containers count it.",
    ),
    lines(
        "Cards held and used",
        Query(recorded(NAMESPACE_CARDS["granted"], "namespace"), "{{namespace}} granted"),
        Query(recorded(NAMESPACE_CARDS["memory_used"], "namespace"), "{{namespace}} memory used"),
        Query(recorded(NAMESPACE_CARDS["busy"], "namespace"), "{{namespace}} computing", NO_KERNEL),
        about="In cards. A slice counts as the larger of its shares of its card's memory and core groups.",
    ),
    bars(
        "Share of the quota",
        Query(
            recorded("vgpu:namespace_quota_used:ratio", "namespace"), "{{namespace}} {{resource}}", NO_QUOTA
        ),
        "Of each ResourceQuota on our resources, from kube-state-metrics.",
    ),
    card_hours("namespace"),
)

_PROGRAMS = (
    lines(
        "Progress",
        Query(
            f"{each('vgpu_progress_done', 'namespace', by=_POD)} / on ({_POD})"
            f" {each('vgpu_progress_goal', 'namespace', by=_POD)}",
            CONTAINER,
            NO_PROGRESS,
        ),
        unit=SHARE,
        about="Share of their work that the programs say they have done.",
    ),
    widths(
        each("vgpu_job_replicas", "namespace"),
        "The width that the job engine gives each Job of the namespaces.",
    ),
    lines(
        "Jobs without progress",
        Query(
            each("vgpu_job_stuck_seconds", "namespace"),
            "{{namespace}}/{{job}}",
            "a Job must have made no progress for 10 minutes",
        ),
        unit="s",
        about="Time since the progress of a Job that runs last changed.",
    ),
    lines(
        "Refused allocations",
        Query(
            rate("vgpu_slice_denied_allocations_total", "namespace", by="namespace, pod"),
            "{{namespace}}/{{pod}}",
        ),
        unit="ops",
        about="Allocations beyond the limit: the program is told that there is no memory.",
    ),
)

BOARD = Board(
    "namespace",
    "vgpu / Namespace",
    "What the chosen namespaces hold, use and wait for.",
    (NAMESPACE,),
    (
        ("Now", _NOW),
        ("Granted and used", _GRANTED),
        ("Who holds what", (slices("namespace"), idle_slices("namespace"))),
        ("Programs and Jobs", _PROGRAMS),
    ),
)
