"""The board of pods: the slices of the chosen pods, their use over time, and what their programs report."""

from hack.generate.monitoring.boards.namespace import NAMESPACE
from hack.generate.monitoring.boards.panels import (
    CONTAINER,
    NO_CHECKPOINT,
    NO_KERNEL,
    NO_PROGRESS,
    SHARE,
    computing,
    lines,
    refused,
    slices,
    stat,
)
from hack.generate.monitoring.grafana import Board, Query, Variable
from hack.generate.monitoring.queries import each, total

POD = Variable("pod", 'vgpu_slice_memory_limit_bytes{namespace=~"$namespace"}')
_CHOSEN = ("namespace", "pod")
_POD = "namespace, pod, container"

_NOW = (
    stat(
        "Memory granted",
        total("vgpu_slice_memory_limit_bytes", *_CHOSEN),
        "bytes",
        about="To the chosen pods.",
    ),
    stat(
        "Memory used",
        total("vgpu_slice_memory_used_bytes", *_CHOSEN),
        "bytes",
        about="As the libraries in the containers count it.",
    ),
    stat("Core groups granted", total("vgpu_slice_core_groups", *_CHOSEN), about="To the chosen pods."),
    stat(
        "Core groups busy",
        f"sum ({each('vgpu_slice_compute_ratio', *_CHOSEN)} * {each('vgpu_slice_core_groups', *_CHOSEN)})",
        about="Core groups that run work of the containers.",
        empty=NO_KERNEL,
    ),
    stat(
        "Processes",
        total("vgpu_slice_processes", *_CHOSEN),
        about="Processes that have opened the containers' cards.",
    ),
    stat(
        "Refused allocations",
        total("vgpu_slice_denied_allocations_total", *_CHOSEN),
        about="Since the containers started.",
    ),
)

_USE = (
    lines(
        "Memory used and granted",
        Query(each("vgpu_slice_memory_used_bytes", *_CHOSEN), f"{CONTAINER} used"),
        Query(each("vgpu_slice_memory_limit_bytes", *_CHOSEN), f"{CONTAINER} granted"),
        unit="bytes",
        about="As the library in the container counts it.",
    ),
    computing(*_CHOSEN),
    lines(
        "Idle for",
        Query(each("vgpu_slice_idle_seconds", *_CHOSEN), CONTAINER, NO_KERNEL),
        unit="s",
        about="Time since the container last computed on its slice or changed its memory there.",
    ),
    refused(*_CHOSEN),
    lines(
        "Progress",
        Query(
            f"{each('vgpu_progress_done', *_CHOSEN, by=_POD)} / on ({_POD})"
            f" {each('vgpu_progress_goal', *_CHOSEN, by=_POD)}",
            CONTAINER,
            NO_PROGRESS,
        ),
        unit=SHARE,
        about="Share of their work that the programs say they have done.",
    ),
    lines(
        "Checkpoints",
        Query(each("vgpu_checkpoints_total", *_CHOSEN, by=_POD), CONTAINER, NO_CHECKPOINT),
        about="Checkpoints that the programs say they have saved since their containers started.",
    ),
)

BOARD = Board(
    "pod",
    "vgpu / Pod",
    "What the chosen pods hold and use, and what their programs report.",
    (NAMESPACE, POD),
    (("Now", _NOW), ("Slices", (slices(*_CHOSEN),)), ("Over time", _USE)),
)
