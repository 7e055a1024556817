"""The board of cards: the pods with slices of the chosen cards, and the use of these slices."""

from hack.generate.monitoring.boards.node import NODE
from hack.generate.monitoring.boards.panels import (
    CONTAINER,
    NO_KERNEL,
    SHARE,
    computing,
    lines,
    refused,
    slices,
    stat,
)
from hack.generate.monitoring.grafana import Board, Query, Variable
from hack.generate.monitoring.queries import each, recorded, total

CARD = Variable("card", 'vgpu_card_info{node=~"$node"}')
_CHOSEN = ("node", "card")

_NOW = (
    stat(
        "Memory granted",
        f"avg ({recorded('vgpu:card_memory_granted:ratio', *_CHOSEN)})",
        SHARE,
        about="Of the chosen cards, to bound pods.",
    ),
    stat(
        "Core groups granted",
        f"avg ({recorded('vgpu:card_core_groups_granted:ratio', *_CHOSEN)})",
        SHARE,
        about="Of the chosen cards, to bound pods.",
    ),
    stat("Slices", total("vgpu_card_granted_slices", *_CHOSEN), about="Granted slices of the chosen cards."),
    stat(
        "Slices at most",
        total("vgpu_card_max_slices", *_CHOSEN),
        about="Slices that the chosen cards can have.",
    ),
    stat(
        "Memory used",
        f"avg ({recorded('vgpu:card_memory_used:ratio', *_CHOSEN)})",
        SHARE,
        about="By all processes, ours or not, as the driver reports it.",
    ),
    stat(
        "Healthy cards",
        total("vgpu_card_healthy", *_CHOSEN),
        about="Chosen cards without a fault that the driver reports.",
    ),
)

_USE = (
    lines(
        "Memory used by container",
        Query(each("vgpu_slice_memory_used_bytes", *_CHOSEN), CONTAINER),
        unit="bytes",
        about="As the library in the container counts it.",
        stacked=True,
    ),
    lines(
        "Memory held by container, by the kernel's figures",
        Query(each("vgpu_slice_kernel_memory_bytes", *_CHOSEN), CONTAINER, NO_KERNEL),
        unit="bytes",
        about="More than the library counts for long: a program bypasses the library.",
        stacked=True,
    ),
    computing(*_CHOSEN),
    refused(*_CHOSEN),
)  # fmt: skip

BOARD = Board(
    "card",
    "vgpu / Card",
    "Who holds the chosen cards, and what their containers use.",
    (NODE, CARD),
    (("Now", _NOW), ("Who holds what", (slices(*_CHOSEN),)), ("Use", _USE)),
)
