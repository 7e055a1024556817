"""`vgpu waste`: slices that are idle, or of which little is used, by the owner of their pods, the worst first.

    vgpu waste                    # of your namespace: idle for at least 30 minutes
    vgpu waste -A --idle 2h       # of all namespaces, for at least 2 hours
    vgpu waste -A --by namespace  # one row for each namespace
    vgpu waste --prometheus URL   # use is asked of a Prometheus; without it, of the agents, as `vgpu top` does

The rows are sorted by WASTED, memory times hours. An idle slice wastes all of its memory, for as long as it has been
idle. A slice that never used half of its memory wastes the part that it never used, for as long as its agent has
observed it. A slice is idle while it neither computes nor allocates. If the driver does not count busy compute units,
it is not known whether a slice is idle.
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from device_plugin.cli.access import caller
from device_plugin.cli.pods import BOUND, HOLDING_PODS, HoldingPod, asked_back_text, holding
from device_plugin.cli.printing import output
from device_plugin.cli.printing.follow import follow_list
from device_plugin.cli.printing.output import Column, Listing, ListPrinter, age, in_gib
from device_plugin.cli.reading import slice_use
from device_plugin.cli.reading.durations import duration
from device_plugin.cli.reading.held_use import SliceKey, SliceUse, slice_figures, whole_bytes
from device_plugin.cli.reading.slice_use import FRESH_SECONDS, SliceUseReader
from device_plugin.cli.reading.waste import (
    GIB_HOUR,
    LITTLE,
    Waste,
    WastedSlice,
    amount,
    by_namespace,
    by_owner,
)
from device_plugin.core.contract.units import MIB
from device_plugin.core.counted import counted
from device_plugin.core.idle import IDLE_SECONDS
from device_plugin.kube.api import Where

_GROUPED = {"owner": by_owner, "namespace": by_namespace}
# Lines below a row; the slices of further pods are in -o json.
MOST_LINES = 10


def _owner(row: Waste) -> str:
    return f"{row.owner.kind}/{row.owner.name}" if row.owner else output.NONE


def _gib(size: float | None) -> str:
    return "?" if size is None else f"{in_gib(size / MIB)} GiB"


def _below(row: Waste) -> Iterator[str]:
    if row.owner is None:
        return
    for each in row.slices[:MOST_LINES]:
        use, part = each.use, each.part
        said = f"holds {_gib(part.mem_mib * MIB)}, {len(part.cores)} core groups, uses {_gib(use.used)}"
        if use.peak is not None and use.observed is not None:
            said += f", at most {_gib(use.peak)} in {age(use.observed)}"
        if each.idle:
            said += f", idle for {age(use.idle or 0)}"
            said += f", {asked_back_text(each.asked_back)}" if each.asked_back is not None else ""
        yield f"    {each.pod} {each.container} on {each.node}: {said}"
    if len(row.slices) > MOST_LINES:
        yield f"    and {len(row.slices) - MOST_LINES} more slices: see -o json"


def _object(row: Waste) -> Mapping[str, Any]:
    return {
        "namespace": row.namespace, "owner": row.owner._asdict() if row.owner else None,
        "heldBytes": row.held, "usedBytes": whole_bytes(row.used), "idleSeconds": row.idle,
        "wastedGiBHours": row.wasted / GIB_HOUR, "slices": [_slice_object(each) for each in row.slices],
    }  # fmt: skip


def _slice_object(each: WastedSlice) -> Mapping[str, Any]:
    return {
        "pod": each.pod, "container": each.container, "node": each.node, "card": each.part.card,
        "memMiB": each.part.mem_mib, "cores": [*each.part.cores], "idle": each.idle,
        **slice_figures(each.use), "askedBackSeconds": each.asked_back, "wastedGiBHours": each.wasted / GIB_HOUR,
    }  # fmt: skip


def _slices_alone(found: Mapping[str, Any]) -> Any:
    """Returns the parts of a row's JSON object that --watch compares: the names of its slices, and which are idle.

    Times and amounts are left out, because they change all the time.
    """
    return [(each["pod"], each["container"], each["card"], each["idle"]) for each in found["slices"]]


_NAMESPACE: Column[Waste] = Column("NAMESPACE", lambda row: row.namespace)
_OWNER: Column[Waste] = Column("OWNER", _owner)
LISTING: Listing[Waste] = Listing(
    "waste",
    (
        _NAMESPACE,
        _OWNER,
        Column("SLICES", lambda row: str(len(row.slices)), key=lambda row: len(row.slices)),
        Column("HELD", lambda row: _gib(row.held), key=lambda row: row.held),
        Column("USED", lambda row: _gib(row.used), key=lambda row: row.used or 0.0),
        Column("IDLE", lambda row: output.NONE if row.idle is None else age(row.idle), key=lambda row: row.idle or 0.0),
        Column("WASTED", lambda row: f"{row.wasted / GIB_HOUR:.1f} GiB h", key=lambda row: row.wasted),
    ),
    name=lambda row: f"waste/{row.namespace}" + (f"/{_owner(row)}" if row.owner else ""),
    object=_object,
    below=_below,
    watched=_slices_alone,
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu waste`."""
    parser.add_argument(
        "--idle", type=duration, default=IDLE_SECONDS, metavar="TIME",
        help=f"slices that have been idle for this time (default: {IDLE_SECONDS / 60:.0f}m)",
    )  # fmt: skip
    parser.add_argument("--by", choices=_GROUPED, default="owner", help="the rows (default: owner)")
    caller.add_namespaces(parser)
    slice_use.add_arguments(parser)
    output.add_arguments(parser, LISTING)
    output.add_selector(parser, "pods")
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the slices that are idle or little used, with --watch at each change.

    Raises ListForbiddenError, ApiError, EndpointError, SortError, PrometheusError.
    """
    namespace = "" if args.all_namespaces else caller.namespace(args)
    hidden = [_NAMESPACE] if not args.all_namespaces and args.by == "owner" else []
    hidden += [_OWNER] if args.by == "namespace" else []
    listing, grouped = LISTING.without(*hidden), _GROUPED[args.by]
    empty = (
        f"no slice is known to have been idle for {age(args.idle)}, or to have used less than {LITTLE:.0%} of its"
        " memory for as long; --idle TIME asks for another time"
    )
    with caller.connected(args) as client:
        reader = SliceUseReader(client, args, namespace)
        unknown = 0

        def rows(pods: Sequence[HoldingPod]) -> tuple[Sequence[Waste], Sequence[str]]:
            nonlocal unknown
            found, faults = holding(pods)
            uses = reader.read({pod.node for pod in found})
            unknown = _unmeasured(found, uses)
            return grouped(_wasted(found, uses, args.idle)), faults

        return follow_list(
            args, ListPrinter(args, listing), client, HOLDING_PODS, Where(namespace, args.selector, BOUND), rows, empty,
            notes=lambda: [*reader.notes, *_said(unknown)], every=FRESH_SECONDS,
        )  # fmt: skip


def _wasted(
    pods: Sequence[HoldingPod], uses: Mapping[SliceKey, SliceUse], seconds: float
) -> Iterator[WastedSlice]:
    for pod in pods:
        for key, part in pod.keyed():
            if (use := uses.get(key)) is not None and (wasted := amount(part, use, seconds)) > 0:
                yield WastedSlice(
                    pod.namespace, pod.owner, pod.name, key[2], pod.node, part, use, use.is_idle(seconds), wasted,
                    pod.left(uses),
                )  # fmt: skip


def _unmeasured(pods: Sequence[HoldingPod], uses: Mapping[SliceKey, SliceUse]) -> int:
    """Returns the number of slices whose use of memory is known, but for which computing is not measured."""
    found = [uses.get(key) for pod in pods for key, _ in pod.keyed()]
    return sum(use is not None and use.idle is None for use in found)


def _said(unknown: int) -> Sequence[str]:
    if not unknown:
        return []
    slices = counted(unknown, "slice")
    return [
        f"the driver does not count busy compute units for {slices}: only little memory use is found there"
    ]
