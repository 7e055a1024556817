"""The board of nodes: the granted and used parts of each card, and the state of the agents."""

from hack.generate.monitoring.boards.panels import (
    CONTAINER,
    NO_BUSY,
    NO_HCU,
    NO_HYGON,
    NO_KERNEL,
    SHARE,
    bars,
    heatmap,
    lines,
    slices,
    stat,
)
from hack.generate.monitoring.grafana import Board, Query, Variable
from hack.generate.monitoring.queries import each, hcu, recorded, total

NODE = Variable("node", "vgpu_inventory_age_seconds")
_CARD = "{{node}} {{card}}"

_NOW = (
    stat("Cards", f"count ({each('vgpu_card_healthy', 'node')})", about="Of the chosen nodes.", width=6),
    stat(
        "Slices", total("vgpu_card_granted_slices", "node"), about="Granted slices of their cards.", width=6
    ),
    stat(
        "Oldest inventory",
        f"max ({each('vgpu_inventory_age_seconds', 'node')})",
        "s",
        about="Below 1 s while each agent's inventory is up to date.",
        width=6,
    ),
    stat(
        "Room for containers",
        f"min ({each('vgpu_writable_spare_containers', 'node')})",
        about="Containers whose usage region and progress file still fit on a node's tmpfs.",
        width=6,
    ),
)

_CARDS = (
    bars("Memory granted", Query(recorded("vgpu:card_memory_granted:ratio", "node"), _CARD), "Of each card."),
    bars(
        "Core groups granted",
        Query(recorded("vgpu:card_core_groups_granted:ratio", "node"), _CARD),
        "Of each card.",
    ),
    heatmap(
        "Memory granted over time",
        Query(recorded("vgpu:card_memory_granted:ratio", "node"), _CARD),
        about="A row for each card: the granted share of its memory.",
    ),
    heatmap(
        "Memory used over time",
        Query(recorded("vgpu:card_memory_used:ratio", "node"), _CARD),
        about="A row for each card: the share of its memory that all processes use, as the driver reports it.",
    ),
    lines(
        "Memory used",
        Query(recorded("vgpu:card_memory_used:ratio", "node"), _CARD),
        unit=SHARE,
        about="By all processes, ours or not, as the driver reports it.",
    ),
    lines(
        "Busy",
        Query(recorded("vgpu:card_busy:ratio", "node"), _CARD, NO_BUSY),
        unit=SHARE,
        about="Share of the last moment in which the card computed, as the driver reports it.",
    ),
    lines(
        "Memory used by node",
        Query(recorded("vgpu:node_memory_used:ratio", "node"), "{{node}}"),
        unit=SHARE,
        about="Of the memory of all cards of the node.",
    ),
    lines(
        "Busy by node",
        Query(recorded("vgpu:node_busy:ratio", "node"), "{{node}}", NO_BUSY),
        unit=SHARE,
        about="The mean of the node's cards, each weighted by its core groups.",
    ),
    lines(
        "Memory that no library counts",
        Query(each("vgpu_card_memory_unaccounted_bytes", "node"), _CARD, NO_KERNEL),
        unit="bytes",
        about="The driver's own use is in it.",
    ),
    lines(
        "Reported slices",
        Query(each("vgpu_reported_slices", "node"), "{{node}} {{state}}"),
        about="Containers that outlive their pod, or whose limits may not hold.",
    ),
)

# With metrics of github.com/HYGON-AI/hcu-exporter: its names and labels are those of its pkg/util/metrics_define.go.
_HYGON = (
    lines(
        "Memory used, by Hygon's exporter and by ours",
        Query(f"{hcu('hcu_usedmemory_bytes', 'node')}", f"{_CARD} hcu-exporter", NO_HCU),
        Query(each("vgpu_card_memory_used_bytes", "node"), f"{_CARD} vgpu"),
        unit="bytes",
        about="Two readings of one driver: they differ only by the time at which they were taken.",
    ),
    lines(
        "Memory limit of slices, by the driver and by the grant",
        Query(each("vgpu_slice_driver_limit_bytes", "node"), f"{CONTAINER} driver", NO_HYGON),
        Query(each("vgpu_slice_memory_limit_bytes", "node"), f"{CONTAINER} grant"),
        unit="bytes",
        about="Of Hygon's cards, while a process uses the slice: both are equal.",
    ),
    lines(
        "Temperature",
        Query(hcu("hcu_temp", "node"), _CARD, NO_HCU),
        unit="celsius",
        about="By Hygon's exporter.",
    ),
    lines(
        "Power",
        Query(hcu("hcu_power_usage", "node"), _CARD, NO_HCU),
        unit="watt",
        about="By Hygon's exporter.",
    ),
)

BOARD = Board(
    "node",
    "vgpu / Node",
    "What is granted and what is used of the cards of the chosen nodes.",
    (NODE,),
    (("Now", _NOW), ("Cards", _CARDS), ("Hygon's cards", _HYGON), ("Who holds what", (slices("node"),))),
)
