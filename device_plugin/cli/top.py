"""`vgpu top`: what pods use of their slices: memory and compute units.

    vgpu top                                      # of your namespace, most memory first
    vgpu top -A --sort-by=-compute                # of all namespaces, busiest first
    vgpu top --prometheus http://localhost:9090   # asks a Prometheus that scrapes the node agents

Without --prometheus the node agents are asked through the API server, for which you need the right to `get` pods/proxy
in their namespace. Without that right, granted memory is shown, and that its use is not known.
"""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, prometheus
from device_plugin.cli.access.prometheus import Prometheus
from device_plugin.cli.printing import output
from device_plugin.cli.printing.output import Column, Listing, ListPrinter, in_gib
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.cli.reading.slice_use import SliceUse, UseUnknownError, from_agents, from_prometheus

_MIB = 2**20


def _memory(use: SliceUse) -> str:
    used = in_gib(use.used / _MIB) if use.used is not None else "?"
    return f"{used}/{in_gib(use.limit / _MIB) if use.limit else '?'} GiB"


def _memory_share(use: SliceUse) -> float | None:
    return min(use.used / use.limit, 1.0) if use.used is not None and use.limit else None


def _compute(use: SliceUse) -> str:
    return "?" if use.compute is None else f"{use.compute * 100:.0f}%"


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
        Column("COMPUTE", _compute, key=lambda use: use.compute or 0.0, share=lambda use: use.compute),
    ),
    name=lambda use: f"pod/{use.namespace}/{use.pod}/{use.container}/{use.card}",
    object=lambda use: use._asdict(),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `vgpu top`."""
    caller.add_namespaces(parser)
    prometheus.add_argument(parser)
    parser.add_argument(
        "--agents-namespace",
        default="vgpu-system",
        metavar="NAMESPACE",
        help="of the agents (default: vgpu-system)",
    )
    output.add_arguments(parser, LISTING, watch=False)
    caller.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Print the use of slices. Raises ApiError, EndpointError, SortError, PrometheusError."""
    namespace = "" if args.all_namespaces else caller.namespace(args)
    listing = LISTING if args.all_namespaces else LISTING.without(_NAMESPACE)
    args.sort_by = args.sort_by or "-memory"
    printer = ListPrinter(args, listing)
    notes: list[str] = []
    if args.prometheus:
        found: Sequence[SliceUse] = from_prometheus(Prometheus(args.prometheus), namespace)
    else:
        with caller.connected(args) as client:
            try:
                found, notes = from_agents(client, args.agents_namespace, namespace)
            except UseUnknownError as error:
                found, notes = granted(client, namespace), [str(error)]
    beside: Mapping[str, Any] = {"notes": notes}
    where = f"of namespace {namespace} " if namespace else ""
    printer.show(found, beside, f"no container {where}holds a slice")
    if args.output not in output.OBJECTS:
        output.note(notes)
    return 0


def granted(client: KubeClient, namespace: str) -> Sequence[SliceUse]:
    """The slices without their use. Raises ApiError."""
    reading = ClusterReader(client, Scope(namespace)).read()
    return [
        SliceUse(pod.namespace, pod.name, container, pod.node, part.card, None, part.mem_mib * _MIB, None)
        for pod in reading.pods
        for container, slices in pod.grant.containers.items()
        for part in slices
    ]
