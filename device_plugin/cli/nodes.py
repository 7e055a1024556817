"""`vgpu nodes`: the nodes with cards, and how much of each is granted.

    vgpu nodes
    vgpu nodes -l rack=3 --sort-by=-memory    # the fullest first
    vgpu nodes -n team-a                      # those on which pods of this namespace hold slices
    vgpu nodes -w                             # and again as they change

A bar shows the granted part of the memory, and of the core groups, of all cards of a node, and in it the part that is
in use. UNUSED is the memory that is granted and not used, all memory of idle slices included. Use is read as `vgpu top`
does it.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from device_plugin.cli.access import caller
from device_plugin.cli.cards import (
    granted_alone,
    groups_text,
    memory_text,
    memory_used,
    nothing,
    share,
    share_of,
    unused_text,
    use_object,
)
from device_plugin.cli.printing import follow, output
from device_plugin.cli.printing.output import Column, Listing
from device_plugin.cli.reading import slice_use
from device_plugin.cli.reading.cluster import CardReading, ClusterReading, NodeReading
from device_plugin.cli.reading.garbage import uncollected
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.cli.reading.slice_use import SliceUseReader, is_shown


def _sum(amount: Callable[[CardReading], int]) -> Callable[[NodeReading], int]:
    return lambda node: sum(map(amount, node.cards))


_held_mib, _held_groups = _sum(lambda card: card.held_mib), _sum(lambda card: card.held_groups)
_slices, _most_slices = _sum(lambda card: len(card.holders)), _sum(lambda card: card.max_slices)


def _all(amount: Callable[[CardReading], int]) -> Callable[[NodeReading], int]:
    """Returns a function that sums `amount` over the cards of a node.

    The sum is 0 (unknown) if the amount of one of the cards is 0.
    """
    return lambda node: 0 if any(amount(card) == 0 for card in node.cards) else sum(map(amount, node.cards))


_mem_mib, _core_groups = _all(lambda card: card.mem_mib), _all(lambda card: card.core_groups)


def state(node: NodeReading) -> str:
    """Returns the reasons why the node or some of its cards get no new slices; empty if there are none."""
    shown = [card.card for card in node.cards if card.card is not None]
    found = ["its inventory cannot be read"] if node.fault else []
    found += ["agent does not serve"] if node.serving is False else []
    for what, count in (
        ("unhealthy", sum(not card.healthy for card in shown)),
        ("cordoned", sum(card.cordoned for card in shown)),
    ):
        found += [f"{count} {what}"] if count else []
    return ", ".join(found)


def _models(node: NodeReading) -> str:
    return ",".join(sorted({card.card.model for card in node.cards if card.card is not None})) or output.NONE


def _object(node: NodeReading) -> Mapping[str, Any]:
    shown = [card.card for card in node.cards if card.card is not None]
    return {
        "name": node.name, "serving": node.serving, "fault": node.fault or None,
        "models": sorted({card.model for card in shown}), "cards": len(node.cards),
        "unhealthy": sum(not card.healthy for card in shown), "cordoned": sum(card.cordoned for card in shown),
        "memMiB": _mem_mib(node) or None, "heldMiB": _held_mib(node),
        "coreGroups": _core_groups(node) or None, "heldCoreGroups": _held_groups(node),
        "slices": _slices(node), "maxSlices": _most_slices(node) or None,
        **use_object(node.use),
    }  # fmt: skip


LISTING: Listing[NodeReading] = Listing(
    "nodes",
    (
        Column("NODE", lambda node: node.name),
        Column("MODEL", _models),
        Column("CARDS", lambda node: str(len(node.cards)), key=lambda node: len(node.cards)),
        Column("MEMORY", lambda node: memory_text(_held_mib(node), _mem_mib(node)),
               key=lambda node: share(_held_mib(node), _mem_mib(node)) or 0.0,
               share=lambda node: share(_held_mib(node), _mem_mib(node)),
               used=lambda node: memory_used(node.use, _mem_mib(node))),
        Column("CORE GROUPS", lambda node: groups_text(_held_groups(node), _core_groups(node)),
               key=lambda node: share(_held_groups(node), _core_groups(node)) or 0.0,
               share=lambda node: share(_held_groups(node), _core_groups(node)),
               used=lambda node: share_of(node.use.busy, _core_groups(node))),
        Column("SLICES", lambda node: groups_text(_slices(node), _most_slices(node)), key=_slices),
        Column("UNUSED", lambda node: unused_text(node.use), key=lambda node: node.use.unused or 0.0, extra=True),
        Column("STATE", state, warning=lambda node: bool(state(node))),
    ),
    name=lambda node: f"node/{node.name}",
    object=_object,
    watched=granted_alone,
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu nodes`."""
    slice_use.add_arguments(parser)
    output.add_arguments(parser, LISTING)
    output.add_selector(parser, "nodes")
    caller.add_namespace(parser, default="all namespaces")
    caller.add_arguments(parser)


@uncollected
def run(args: argparse.Namespace) -> int:
    """Print the nodes. Raises ListForbiddenError, ApiError, EndpointError, SortError, PrometheusError."""
    scope = Scope(own=caller.namespace(args), node_labels=args.selector)
    namespace = args.namespace or ""
    empty = nothing(namespace, args.selector)
    with caller.connected(args) as client:
        use = SliceUseReader(client, args, "", wanted=is_shown(args, "unused"))
        return follow.show_reading(
            args, LISTING, ClusterReader(client, scope),
            lambda reading: _rows(use.shown_in(reading, namespace), namespace), empty, notes=lambda: use.notes,
        )  # fmt: skip


def _rows(reading: ClusterReading, namespace: str) -> Sequence[NodeReading]:
    """Returns the nodes; with a namespace, only nodes on which pods of that namespace hold slices."""
    nodes = reading.nodes.values()
    if not namespace:
        return [*nodes]
    holding = {pod.node for pod in reading.pods if pod.namespace == namespace}
    return [node for node in nodes if node.name in holding]
