"""`vgpu top`: what pods use of their slices: memory and compute units.

    vgpu top                                      # of your namespace, most memory first
    vgpu top -A --sort-by=-compute                # of all namespaces, busiest first
    vgpu top -l app=notebook -w                   # and again as it changes
    vgpu top -A --live                            # on the whole screen: s sorts, n chooses a namespace, q quits
    vgpu top --prometheus http://localhost:9090   # asks a Prometheus that scrapes the node agents

Without --prometheus the agents of the pods' nodes are asked through the API server, for which you need the right to
`get` pods/proxy in their namespace. Without that right, granted memory is shown, and that its use is not known.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.cli.access import caller
from device_plugin.cli.live import loop
from device_plugin.cli.live.feed import LiveFeed
from device_plugin.cli.live.screen import LiveError, Screen
from device_plugin.cli.live.view import LiveView
from device_plugin.cli.printing import follow, output
from device_plugin.cli.printing.output import Column, Listing, in_gib, in_percent
from device_plugin.cli.reading import slice_use
from device_plugin.cli.reading.cluster import ClusterReading
from device_plugin.cli.reading.garbage import uncollected
from device_plugin.cli.reading.held_use import SliceUse, slice_figures, whole_bytes
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.cli.reading.slice_use import FRESH_SECONDS, SliceUseReader
from device_plugin.core.contract.units import MIB


def _memory(use: SliceUse) -> str:
    used = in_gib(use.used / MIB) if use.used is not None else "?"
    return f"{used}/{in_gib(use.limit / MIB) if use.limit else '?'} GiB"


def _memory_share(use: SliceUse) -> float | None:
    return min(use.used / use.limit, 1.0) if use.used is not None and use.limit else None


def _object(use: SliceUse) -> Mapping[str, Any]:
    """Returns a slice's use as an object for -o json; figures have the same keys as in `vgpu cards`."""
    return {
        "namespace": use.namespace, "pod": use.pod, "container": use.container, "node": use.node, "card": use.card,
        "limitBytes": whole_bytes(use.limit), **slice_figures(use),
    }  # fmt: skip


_NAMESPACE: Column[SliceUse] = Column("NAMESPACE", lambda use: use.namespace)
LISTING: Listing[SliceUse] = Listing(
    "slices",
    (
        _NAMESPACE,
        Column("POD", lambda use: use.pod),
        Column("CONTAINER", lambda use: use.container, wide=True),
        Column("NODE", lambda use: use.node),
        Column("CARD", lambda use: use.card, wide=True),
        Column("MEMORY", _memory, key=lambda use: use.used or 0.0, share=_memory_share),
        Column(
            "COMPUTE",
            lambda use: in_percent(use.compute),
            key=lambda use: use.compute or 0.0,
            share=lambda use: use.compute,
        ),
    ),
    name=lambda use: f"pod/{use.namespace}/{use.pod}/{use.container}/{use.card}",
    object=_object,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu top`."""
    caller.add_namespaces(parser)
    slice_use.add_arguments(parser)
    output.add_arguments(parser, LISTING)
    output.add_selector(parser, "pods")
    parser.add_argument("--live", action="store_true", help="on the whole screen, drawn each second; q quits")
    caller.add_arguments(parser)


@uncollected
def run(args: argparse.Namespace) -> int:
    """Print the use of slices once, with --watch at each change, or with --live as a live table.

    Raises ListForbiddenError, LiveError, ApiError, EndpointError, SortError, PrometheusError.
    """
    if args.live and (args.output or args.watch):
        raise LiveError("--live has no -o and no -w: leave them out, or leave out --live")
    own = caller.namespace(args)
    namespace = "" if args.all_namespaces else own
    listing = LISTING if args.all_namespaces else LISTING.without(_NAMESPACE)
    args.sort_by = args.sort_by or "-memory"
    where = f"of namespace {namespace} " if namespace else ""
    with caller.connected(args) as client:
        use = SliceUseReader(client, args, namespace)
        reader = ClusterReader(client, Scope(namespace, own, args.selector, nodes=False))
        empty = f"no container {where}holds a slice"
        if args.live:
            return _live(args, listing, reader, use, empty)
        return follow.show_reading(
            args, listing, reader, lambda reading: _rows(reading, use), empty,
            notes=lambda: use.notes, every=FRESH_SECONDS,
        )  # fmt: skip


def _live(
    args: argparse.Namespace,
    listing: Listing[SliceUse],
    reader: ClusterReader,
    use: SliceUseReader,
    empty: str,
) -> int:
    """Show the use of slices on the whole screen until a person ends the display; returns the exit status.

    Raises ListForbiddenError, LiveError, SortError, ApiError.
    """
    screen, order = Screen(), listing.named(args.sort_by.lstrip("-"))
    reading = reader.read()
    if reader.forbidden:
        raise follow.forbidden(reading.missing)

    def read() -> tuple[Sequence[SliceUse], str]:
        known = reader.reading()
        rows = _rows(known, use)
        return rows, "; ".join([*follow.lacking(known), *use.notes])

    feed = LiveFeed(read)
    of = (lambda row: row.namespace) if args.all_namespaces else None
    view = LiveView("vgpu top", listing, order, empty, of)
    # Without a first reading, the screen would begin with the text for no rows.
    feed.step()
    with reader.following(lambda _: None, feed.heard), feed.running():
        return loop.show(screen, view, feed)


def _rows(reading: ClusterReading, reader: SliceUseReader) -> Sequence[SliceUse]:
    """Returns every slice of the pods with its use; if the use is not known, only with the granted memory."""
    found = reader.read({pod.node for pod in reading.pods})
    return [
        found.get((pod.namespace, pod.name, container, part.card))
        or SliceUse(pod.namespace, pod.name, container, pod.node, part.card, None, part.mem_mib * MIB, None)
        for pod in reading.pods
        for container, slices in pod.grant.containers.items()
        for part in slices
    ]
