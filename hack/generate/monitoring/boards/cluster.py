"""The board of the cluster: the room on cards, the waiting pods, the slices by namespace, and problems."""

from hack.generate.monitoring.boards.panels import (
    NO_BUSY,
    NO_JOBS,
    NO_WAITING,
    SHARE,
    bars,
    card_hours,
    heatmap,
    idle_slices,
    lines,
    stat,
    widths,
)
from hack.generate.monitoring.grafana import Board, Panel, Query
from hack.generate.monitoring.queries import each, quantile, rate, total

MOST = 40  # most nodes or namespaces in a panel

_NOW = (
    stat("Cards", f"count ({each('vgpu_card_healthy')})", about="Of all nodes whose agent is scraped."),
    stat("Memory granted", "vgpu:cluster_memory_granted:ratio", SHARE, about="Of all cards, to bound pods."),
    stat("Core groups granted", "vgpu:cluster_core_groups_granted:ratio", SHARE, about="Of all cards, to bound pods."),
    stat("Memory used", "vgpu:cluster_memory_used:ratio", SHARE, about="By all processes, ours or not."),
    stat("Waiting pods", total("vgpu_unplaced_pods"), about="Pods that ask for a slice and have none."),
    stat("Leaders", "sum (vgpu_leader)", about="Replicas of the cluster service that lead: 1 while all is well."),
)  # fmt: skip


def _cards_by(title: str, rule: str, share: str) -> Panel:
    """A panel with a row for each tenth of a share of cards: how many cards were there at each moment."""
    return heatmap(
        title,
        Query(f'count_values ("share", round ({rule}, 0.1))', "{{share}}"),
        "short",
        about=f"A row for each {share}, rounded to a tenth; the colour is the number of cards.",
        rows=SHARE,
    )


_MODELS = Panel(
    "Models",
    "table",
    (
        Query(f"count by (family, model) ({each('vgpu_card_info')})", "cards"),
        Query(each("vgpu_free_cards"), "whole cards free"),
        Query(each("vgpu_largest_free_slice_memory_units"), "largest: memory units"),
        Query(each("vgpu_largest_free_slice_core_groups"), "largest: core groups"),
        Query(each("vgpu_largest_free_slice_ratio"), "largest: share of a card"),
        Query("vgpu:model_memory_granted:ratio", "memory granted"),
        Query("vgpu:model_core_groups_granted:ratio", "core groups granted"),
        Query("vgpu:model_memory_used:ratio", "memory used"),
        Query("vgpu:model_busy:ratio", "busy", NO_BUSY),
    ),
    width=24,
    about="The largest slice that a card of the model can give now; then what is granted and used of all its cards.",
    keys=("family", "model"),
    units=dict.fromkeys(
        ("largest: share of a card", "memory granted", "core groups granted", "memory used", "busy"), SHARE
    ),
)

_ROOM = (
    _MODELS,
    bars(
        "Nodes with the most memory free",
        Query(f"bottomk ({MOST}, vgpu:node_memory_granted:ratio)", "{{node}}"),
        "Granted share of the memory of the node's cards.",
    ),
    bars(
        "Nodes with the most core groups free",
        Query(f"bottomk ({MOST}, vgpu:node_core_groups_granted:ratio)", "{{node}}"),
        "Granted share of the core groups of the node's cards.",
    ),
    _cards_by("Cards by memory granted", "vgpu:card_memory_granted:ratio", "granted share of their memory"),
    _cards_by("Cards by memory used", "vgpu:card_memory_used:ratio", "share of their memory that is used"),
    lines(
        "Granted and used",
        Query("vgpu:cluster_memory_granted:ratio", "memory granted"),
        Query("vgpu:cluster_core_groups_granted:ratio", "core groups granted"),
        Query("vgpu:cluster_memory_used:ratio", "memory used"),
        Query("vgpu:cluster_busy:ratio", "busy", NO_BUSY),
        unit=SHARE,
        about="Shares of all cards.",
    ),
    lines(
        "Idle and of no use",
        Query(each("vgpu_fragmentation_ratio"), "of all cards", "64 pods must have come"),
        unit=SHARE,
        about="Share of all cards that is idle and that none of the pods to be expected can use.",
    ),
)

_STARTS, _WAITED = (
    f"sum by (queue) (increase({metric}[$__range]))"
    for metric in ("vgpu_queue_starts_total", "vgpu_queue_start_wait_seconds_total")
)
_WAITS = Panel(
    "Waits by queue",
    "table",
    (
        Query(_STARTS, "starts", NO_JOBS),
        Query(f"{_WAITED} / {_STARTS}", "mean wait"),
        Query(each("vgpu_queue_longest_wait_seconds", by="queue"), "longest wait now", NO_WAITING),
    ),
    about="Starts in the time that the board shows, and how long the Jobs had waited for them, since they were created"
    " or stopped; beside it the Job that waits now.",
    keys=("queue",),
    units={"mean wait": "s", "longest wait now": "s"},
)

_WAITING = (
    lines(
        "Waiting pods by reason",
        Query(each("vgpu_unplaced_pods"), "{{reason}}"),
        stacked=True,
        about="docs/reference/reasons.md says what each reason means.",
    ),
    lines(
        "Oldest waiting pod by reason",
        Query(each("vgpu_unplaced_oldest_seconds"), "{{reason}}"),
        unit="s",
        about="Time since the oldest pod that waits for this reason was created.",
    ),
    lines(
        "From creation to Binding",
        Query(quantile(0.5, "vgpu_pod_bind_wait_seconds"), "half of the pods"),
        Query(quantile(0.95, "vgpu_pod_bind_wait_seconds"), "95 % of the pods"),
        unit="s",
        about="Time from a pod's creation until it is bound to its node.",
    ),
    lines(
        "Bindings",
        Query(rate("vgpu_binds_total", by="outcome"), "{{outcome}}"),
        unit="ops",
        about="Calls of /bind in a second, by their outcome.",
    ),
    lines(
        "Time of a placement",
        Query(quantile(0.95, "vgpu_placement_seconds"), "95 % of the placements"),
        unit="s",
        about="From a call of /filter to its answer.",
    ),
    lines(
        "Longest wait by queue",
        Query(each("vgpu_queue_longest_wait_seconds", by="queue"), "{{queue}}", NO_WAITING),
        unit="s",
        about="Time for which a Job of the queue has waited for room, since it was created or stopped.",
    ),
    _WAITS,
    lines(
        "Jobs in queues",
        Query(total("vgpu_jobs", by="queue, phase"), "{{queue}} {{phase}}", NO_JOBS),
        stacked=True,
        about="Jobs of each queue, by their phase.",
    ),
    widths(
        f"topk ({MOST}, {each('vgpu_job_replicas')})", f"The {MOST} widest Jobs at each moment."
    ),
)  # fmt: skip

_HOLDERS = (
    lines(
        "Memory granted by namespace",
        Query(
            f"topk ({MOST}, {total('vgpu_namespace_granted_memory_bytes', by='namespace')})", "{{namespace}}"
        ),
        unit="bytes",
        about=f"The {MOST} namespaces that hold the most, with reservations.",
        stacked=True,
    ),
    lines(
        "Core groups granted by namespace",
        Query(
            f"topk ({MOST}, {total('vgpu_namespace_granted_core_groups', by='namespace')})", "{{namespace}}"
        ),
        about=f"The {MOST} namespaces that hold the most, with reservations.",
        stacked=True,
    ),
    card_hours(),
    idle_slices(),
)

_HEALTH = (
    stat(
        "Cards unhealthy",
        "count (min by (node, card) (vgpu_card_healthy) == 0) or vector(0)",
        about="Cards with a fault that the driver reports.",
    ),
    stat(
        "Agents not serving",
        each("vgpu_nodes", where='serving="no"'),
        about="Nodes whose agent says so, or is not ready: pods with slices cannot start there.",
    ),
    stat(
        "Crowded cards",
        total("vgpu_crowded_cards"),
        about="Two grants conflict, or the card reports less than was granted of it.",
    ),
    stat(
        "Reported slices",
        total("vgpu_reported_slices"),
        about="Containers that outlive their pod, or whose limits may not hold.",
    ),
    stat(
        "Annotations ignored",
        total("vgpu_faulty_annotations"),
        about="Inventories and grants that cannot be read: vgpu check names them.",
    ),
    stat(
        "Oldest inventory",
        "max (vgpu_inventory_age_seconds)",
        "s",
        about="Below 1 s while each agent's inventory is up to date.",
    ),
    Panel(
        "Versions",
        "table",
        (Query("count by (service, version) (vgpu_build_info)", "processes"),),
        width=24,
        height=6,
        about="More than one version of a service: an upgrade is under way, or has stopped.",
        keys=("service", "version"),
    ),
)

BOARD = Board(
    "cluster",
    "vgpu / Cluster",
    "Where room is, who waits, who holds what, and what is wrong.",
    (),
    (
        ("Now", _NOW),
        ("Where room is", _ROOM),
        ("Waiting", _WAITING),
        ("Who holds what", _HOLDERS),
        ("Health", _HEALTH),
    ),
)
