"""Measure the time to decide a whole gang at once.

    vgpu bench gang --pods 512 --nodes 1213 --fill 0.5

The cluster service's own decisions, without HTTP: all pods of the gang exist, and /filter is asked for one of
them. This call places all of them or none. Then it is asked for the others, which find their reservations.
"""

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from device_plugin.allocator.allocator import Allocator
from device_plugin.core.contract import annotations
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import Reservation
from device_plugin.core.pods import Container, ContainerKind, Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, MAX_GANG, Request
from device_plugin.state.view import ClusterView
from hack.bench.extender.cluster_model import CONTAINER, ClusterModel
from hack.bench.report import BenchError, Report

PODS, NODES, CARDS, FILL = 512, 1213, 8, 0.5
HOST, ASKED = HostAmounts(128_000, 1 << 20), HostAmounts(1000, 4096)


@dataclass(frozen=True, slots=True)
class Decided:
    """Seconds until the whole gang has its reservations, and milliseconds of each later call.

    `decided_cpu_s` is the CPU time of the decision, which hardly depends on other work of the machine.
    """

    decided_s: float
    decided_cpu_s: float
    later_ms: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu bench gang`."""
    parser.add_argument("--pods", type=int, default=PODS, metavar="N", help=f"of the gang (default: {PODS})")
    parser.add_argument(
        "--nodes", type=int, default=NODES, metavar="N", help=f"of {CARDS} cards (default: {NODES})"
    )
    parser.add_argument(
        "--fill", type=float, default=FILL, metavar="F", help=f"share granted before (default: {FILL})"
    )
    parser.add_argument(
        "--asks", type=int, default=1, metavar="N", help="how many different slices they ask for (default: 1)"
    )


def run(args: argparse.Namespace) -> Report:
    """Run the benchmark and return its report. Raises VgpuError if it cannot run."""
    if not 2 <= args.pods <= MAX_GANG or not 1 <= args.asks <= args.pods:
        raise BenchError(f"write --pods from 2 to {MAX_GANG}, --asks from 1 to as many")
    workload = ClusterModel(args.nodes, CARDS, args.fill, seconds=1)
    kinds = list(dict.fromkeys(workload.requests()))[: args.asks]
    asked = [kinds[number % len(kinds)] for number in range(args.pods)]
    found = decided(*filled(workload), workload.names(), asked)
    return Report(
        {"pods": args.pods, "nodes": args.nodes, "fill": args.fill, "asks": len(kinds), **asdict(found)},
        f"{args.pods} pods on {args.nodes} nodes of {CARDS} cards: decided in {found.decided_s:.3f} s"
        f" ({found.decided_cpu_s:.3f} s of the processor), each later call {found.later_ms:.2f} ms",
    )


def filled(workload: ClusterModel) -> tuple[ClusterView, Allocator]:
    """The state (view) and the allocator of a service that has learnt the requests of the pods with slices."""
    view = ClusterView(DEFAULT_PREFIXES, time.monotonic)
    allocator = Allocator(view, 3600.0, time.monotonic)
    for name in workload.names():
        view.node_news.see(Node(name, workload.inventory(name).encode(), room=HOST))
    kinds = workload.requests()
    for number, grant in enumerate(workload.grants()):
        carried = {annotations.GRANT: grant.encode()}
        view.pod_news.see(
            _pod(grant.pod, kinds[number % len(kinds)], node=grant.node, annotations=carried), watched=True
        )
    allocator.learning.count(time.monotonic())
    allocator.placer.learn(allocator.learning.target.frequent())
    return view, allocator


def decided(
    view: ClusterView, allocator: Allocator, nodes: Sequence[str], asked: Sequence[Request]
) -> Decided:
    """Create a gang whose pods have these requests, and measure the decision for its last pod, then for the others."""
    labels = {annotations.GROUP: "gang", annotations.GROUP_SIZE: str(len(asked))}
    pods = [_pod(f"gang-{number}", one, labels=labels) for number, one in enumerate(asked)]
    for pod in pods:
        view.pod_news.see(pod, watched=True)
    last, *others = reversed(pods)
    decided_s, decided_cpu_s = _asked_for(view, allocator, [last], nodes)
    later_s, _ = _asked_for(view, allocator, others, nodes)
    return Decided(decided_s, decided_cpu_s, 1000 * later_s / len(others))


def _asked_for(
    view: ClusterView, allocator: Allocator, pods: Sequence[Pod], nodes: Sequence[str]
) -> tuple[float, float]:
    started, cpu = time.perf_counter(), time.process_time()
    for pod in pods:
        request = view.pods.request_of(pod)
        answer = allocator.reserve(pod, request, nodes) if request else None
        if not isinstance(answer, Reservation):
            raise BenchError(f"{answer().text if answer else 'nothing is asked for'}: write a lower --fill")
    return time.perf_counter() - started, time.process_time() - cpu


def _pod(
    uid: str, request: Request, *, node: str = "", annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Pod:  # fmt: skip
    amounts = {"-mem": request.mem, "-cores": request.cores}
    limits = {
        request.family + suffix: str(amount) for suffix, amount in amounts.items() if amount is not None
    }
    return Pod(
        "bench", uid, uid, node, created="2026-01-01T00:00:00Z", annotations=annotations, labels=labels,
        containers=(Container(CONTAINER, ContainerKind.MAIN, limits),), host=ASKED,
    )  # fmt: skip
