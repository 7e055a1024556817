"""`vgpu cards`: every card with its free room, and the pods that hold slices of it and what they use of them.

    vgpu cards                      # of all nodes
    vgpu cards gpu-1                # of one node
    vgpu cards -n team-a            # those that pods of this namespace hold slices of
    vgpu cards --sort-by=-memory    # the fullest first; -o wide: model, free percent, PCI address, family

A bar shows the granted part of the memory and of the core groups, and in it the part that is in use. UNUSED is the
memory that is granted and not used, all memory of idle slices included. Use is read as `vgpu top` does it.

Without the right to list nodes, cards are those that your pods' grants name, and a card's other slices are not known.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller
from device_plugin.cli.printing import follow, output
from device_plugin.cli.printing.output import Column, Listing, age, age_since, in_gib, in_percent
from device_plugin.cli.reading import slice_use
from device_plugin.cli.reading.cluster import CardHolder, CardReading, ClusterReading, NodeReading
from device_plugin.cli.reading.garbage import uncollected
from device_plugin.cli.reading.held_use import HeldUse, SliceUse, slice_figures, whole_bytes
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.cli.reading.slice_use import SliceUseReader, is_shown
from device_plugin.cli.reading.targets import CardError
from device_plugin.core.contract.cards import SliceState
from device_plugin.core.contract.cordons import CordonNote
from device_plugin.core.contract.grants import ranges
from device_plugin.core.contract.units import MIB
from device_plugin.kube.api import NODES, Ref
from device_plugin.kube.errors import ForbiddenError, GoneError

STATES = {
    SliceState.OUTLIVING: "its pod has ended, its processes have not",
    SliceState.COVERED: "something covers the files that limit it",
    SliceState.UNENFORCED: "bypasses the library that limits it",
    SliceState.REFUSED: "cannot start: another pod's container runs on its slice",
}


class CardRow(NamedTuple):
    """A row of the table: a card and its node.

    `mib` is the granted memory of the card in MiB, and `groups` is the number of its granted core groups.
    """

    node: NodeReading
    card: CardReading
    mib: int
    groups: int


@lru_cache(4096)
def memory_text(held: int, total: int) -> str:
    """Returns the granted and the total memory, given in MiB, as text such as `4/16 GiB`.

    A total of 0 is unknown: then the text has a question mark for it.
    """
    return f"{in_gib(held)}/{in_gib(total) if total else '?'} GiB"


@lru_cache(4096)
def groups_text(held: int, total: int) -> str:
    """Returns a granted number and its total as text such as `15/60`; a total of 0 is unknown, as in `15/?`."""
    return f"{held}/{total or '?'}"


def share(held: int, total: int) -> float | None:
    """Returns the granted share of the total; None if the total is not known."""
    return held / total if total else None


def memory_used(use: HeldUse, total_mib: int) -> float | None:
    """Returns the used share of `total_mib` MiB of memory; None if the use or the total is not known."""
    return share_of(use.used, total_mib * MIB)


def share_of(part: float | None, total: float) -> float | None:
    """Returns a part's share of the total, at most 1; None if one of them is not known."""
    return min(part / total, 1.0) if part is not None and total else None


def unused_text(use: HeldUse) -> str:
    """Returns the memory that is granted and not in use, as text."""
    return "?" if use.unused is None else f"{in_gib(use.unused / MIB)} GiB"


def use_object(use: HeldUse) -> Mapping[str, Any]:
    """Returns the summed use of the slices of one card or node, as keys and values for -o json."""
    return {
        "usedBytes": whole_bytes(use.used), "busyCoreGroups": use.busy, "unusedBytes": whole_bytes(use.unused),
        "idleSlices": use.idle,
    }  # fmt: skip


def state(row: CardRow) -> str:
    """Returns the reason why the card gets no new slices; empty if the card may get some."""
    card, found = row.card.card, list[str]()
    if card is not None:
        if card.open and row.node.serving:
            return ""
        found += [] if card.healthy else ["unhealthy"]
        found += ["cordoned"] if card.cordoned else []
    elif row.node.serving is not None:
        found.append("not shown by its node")
    if row.node.serving is False:
        found.append("agent does not serve")
    return ", ".join(found)


def holder_line(card: CardReading, holder: CardHolder, now: int) -> str:
    """Returns the line about a container's slice: `    default/notebook main: 25 %, 4 GiB, core groups 0-14, 2h`.

    The line has a percentage only if the pod asked for a percentage. After the pod's age (`2h`) it names the slice's
    use, if that is known, and the slice's state, if that is unusual. `now` is in seconds since 1970.
    """
    part = holder.slice
    held = "all of it" if card.whole(holder) else _amounts(part.mem_mib, part.cores, part.percent)
    since = f", {_age(holder.created, now)}" if holder.created else ""
    since += _use_text(holder.use)
    marks = ", ends" if holder.deleting else ""
    if holder.state is not None:
        marks += f", {STATES[holder.state]}"
    elif not holder.running:
        marks += ", does not run"
    return f"    {holder.namespace}/{holder.pod} {holder.container}: {held}{since}{marks}"


def _use_text(use: SliceUse | None) -> str:
    """Returns a slice's use as text such as `, uses 0.3 GiB and 12%, idle for 2h`; empty if the use is not known."""
    if use is None:
        return ""
    known = ["?" if use.used is None else f"{in_gib(use.used / MIB)} GiB"]
    known += [] if use.compute is None else [in_percent(use.compute)]
    idle = f", idle for {age(use.idle or 0)}" if use.is_idle() else ""
    return f", uses {' and '.join(known)}{idle}"


# Cached: most slices of a cluster have one of a few sizes and sets of core groups, and many pods have the same age.
@lru_cache(4096)
def _amounts(mem_mib: int, cores: tuple[int, ...], percent: int) -> str:
    asked = f"{percent} %, " if percent else ""
    return f"{asked}{in_gib(mem_mib)} GiB, core groups {ranges(cores)}"


_age = lru_cache(4096)(age_since)


def _below(row: CardRow) -> list[str]:
    now, card = int(time.time()), row.card
    lines = [holder_line(card, holder, now) for holder in card.holders]
    if card.card is not None and card.card.cordoned and (note := row.node.notes.get(card.uuid)):
        return [f"    cordoned {age_since(note.at, now)} ago: {note}", *lines]
    return lines


def card_object(node: NodeReading, card: CardReading) -> Mapping[str, Any]:
    """Returns the card as an object for -o json."""
    shown = card.card
    return {
        "node": card.node, "uuid": card.uuid,
        "family": shown.family if shown else None, "model": shown.model if shown else None,
        "pci": shown.pci if shown else None, "healthy": shown.healthy if shown else None,
        "cordoned": shown.cordoned if shown else None, "serving": node.serving,
        "cordonNote": _note_object(node.notes.get(card.uuid)),
        "memMiB": card.mem_mib or None, "coreGroups": card.core_groups or None, "maxSlices": card.max_slices or None,
        "heldMiB": card.held_mib, "heldCoreGroups": card.held_groups, "freePercent": card.free_percent,
        **use_object(card.use),
        "holders": [_holder_object(card, holder) for holder in card.holders],
    }  # fmt: skip


def _note_object(note: CordonNote | None) -> Mapping[str, str] | None:
    return {"reason": note.reason, "by": note.by, "at": note.at} if note is not None else None


def _holder_object(card: CardReading, holder: CardHolder) -> Mapping[str, Any]:
    return {
        "namespace": holder.namespace, "pod": holder.pod, "container": holder.container,
        "memMiB": holder.slice.mem_mib, "cores": [*holder.slice.cores], "percent": holder.slice.percent or None,
        "whole": card.whole(holder),
        "created": holder.created or None, "running": holder.running, "deleting": holder.deleting,
        "state": holder.state.value if holder.state is not None else None,
        **slice_figures(holder.use),
    }  # fmt: skip


def granted_alone(found: Mapping[str, Any]) -> Any:
    """Returns the JSON object of a card or node without the keys about use.

    --watch compares such objects, so it prints nothing if only the use has changed.
    """
    used = use_object(HeldUse()).keys() | slice_figures(None).keys()
    holders = [{key: each[key] for key in each.keys() - used} for each in found.get("holders", ())]
    return {**{key: found[key] for key in found.keys() - used}, "holders": holders}


def _free_percent(row: CardRow) -> str:
    free = row.card.free_percent
    return "?" if free is None else str(free)


def _full(held: int, total: int) -> float:
    return share(held, total) or 0.0


LISTING: Listing[CardRow] = Listing(
    "cards",
    (
        Column("NODE", lambda row: row.card.node),
        Column("CARD", lambda row: row.card.uuid),
        Column("MODEL", lambda row: row.card.card.model if row.card.card else output.NONE, wide=True),
        Column("MEMORY", lambda row: memory_text(row.mib, row.card.mem_mib),
               key=lambda row: _full(row.mib, row.card.mem_mib),
               share=lambda row: share(row.mib, row.card.mem_mib),
               used=lambda row: memory_used(row.card.use, row.card.mem_mib)),
        Column("CORE GROUPS", lambda row: groups_text(row.groups, row.card.core_groups),
               key=lambda row: _full(row.groups, row.card.core_groups),
               share=lambda row: share(row.groups, row.card.core_groups),
               used=lambda row: share_of(row.card.use.busy, row.card.core_groups)),
        Column("SLICES", lambda row: groups_text(len(row.card.holders), row.card.max_slices),
               key=lambda row: len(row.card.holders)),
        Column("UNUSED", lambda row: unused_text(row.card.use), key=lambda row: row.card.use.unused or 0.0, extra=True),
        Column("FREE PERCENT", _free_percent, key=lambda row: row.card.free_percent or 0, wide=True),
        Column("PCI", lambda row: row.card.card.pci if row.card.card else output.NONE, wide=True),
        Column("FAMILY", lambda row: row.card.card.family if row.card.card else output.NONE, wide=True),
        Column("STATE", state, warning=lambda row: bool(state(row))),
    ),
    name=lambda row: f"card/{row.card.node}/{row.card.uuid}",
    object=lambda row: card_object(row.node, row.card),
    below=_below,
    watched=granted_alone,
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu cards`."""
    parser.add_argument("node", nargs="?", default="", metavar="NODE", help="only the cards of this node")
    caller.add_namespace(parser, default="all namespaces")
    slice_use.add_arguments(parser)
    output.add_arguments(parser, LISTING)
    output.add_selector(parser, "nodes")
    caller.add_arguments(parser)


@uncollected
def run(args: argparse.Namespace) -> int:
    """Print the cards. Raises CardError, ListForbiddenError, ApiError, EndpointError, SortError, PrometheusError."""
    scope = Scope(own=caller.namespace(args), node_labels=args.selector, node=args.node)
    empty = nothing(args.namespace or "", args.selector, args.node)
    with caller.connected(args) as client:
        if args.node:
            _check_node(client, args.node)
        reader, use = (
            ClusterReader(client, scope),
            SliceUseReader(client, args, "", wanted=is_shown(args, "unused")),
        )
        namespace = args.namespace or ""
        return follow.show_reading(
            args, LISTING, reader, lambda reading: _rows(use.shown_in(reading, namespace), namespace), empty,
            notes=lambda: use.notes,
        )  # fmt: skip


def _check_node(client: KubeClient, name: str) -> None:
    """Raise CardError if there is no such node. Does nothing if the caller may not read nodes."""
    try:
        client.get(NODES.metadata, Ref(name))
    except GoneError:
        raise CardError(f"there is no node {name}: see `kubectl get nodes`") from None
    except ForbiddenError:
        return


def nothing(namespace: str, labels: str, node: str = "") -> str:
    """Returns the text that is printed if the list is empty; it names the chosen namespace, labels or node."""
    if namespace:
        where = f" on node {node}" if node else f" on a node with the labels {labels}" if labels else ""
        return f"no pod of namespace {namespace} holds a slice{where}"
    if node:
        return f"node {node} has no cards"
    return f"no node with the labels {labels} has cards" if labels else "no node has cards"


def _rows(reading: ClusterReading, namespace: str) -> Sequence[CardRow]:
    """Returns a row for each card; with a namespace, only for cards of which pods of that namespace hold slices."""
    return [
        CardRow(node, card, card.held_mib, card.held_groups)
        for node in reading.nodes.values()
        for card in node.cards
        if not namespace or any(holder.namespace == namespace for holder in card.holders)
    ]
