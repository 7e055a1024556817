"""Measure the time for which /filter holds the lock, for placements and for refusals.

    vgpu bench refusals --nodes 5000

The cluster service's own /filter, without HTTP, on nodes of eight cards that are nearly full. No request
comes twice: each refusal is a first one. CPU time is counted, which other work on the machine hardly changes. Texts are
computed after the lock is released, and count in the last column only.
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from types import TracebackType

from device_plugin.cluster.lead.leader import Leader
from device_plugin.cluster.place.counts import Counts
from device_plugin.cluster.place.filter import Filter, Verdict
from device_plugin.cluster.place.reservations import Reservations
from device_plugin.cluster.place.service import Shared
from device_plugin.cluster.watch.view import ClusterView
from device_plugin.core import annotations
from device_plugin.core.grants import Grant, Slice
from device_plugin.core.placement.policies import NODE_SCORE
from device_plugin.core.pods import Container, ContainerKind, Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.leases import Lease
from hack.bench.extender.cluster_model import ClusterModel
from hack.bench.report import BenchError, Report, table

NODES, CARDS, REQUESTS = 5000, 8, 1000
FAMILY = DEFAULT_PREFIXES[0]
# Most free units of each card, so that a slice of more units fits nowhere.
LEFT_UNITS, LEFT_CORES = 3, 12
# The number of pods in the group that some requests name, and its name.
CROWD, GROUP = 1900, "crowd"


@dataclass(frozen=True, slots=True)
class FilterCost:
    """Milliseconds of the processor for one /filter, while the lock was held and in all."""

    locked_p50_ms: float
    locked_p99_ms: float
    all_p50_ms: float


class _TimedLock:
    """Around a re-entrant lock: `held` is the processor's time, in seconds, that its holder has spent so far."""

    def __init__(self, lock: AbstractContextManager[bool]) -> None:
        self._lock = lock
        self._depth = 0
        self._since = 0.0
        self.held = 0.0

    def __enter__(self) -> bool:
        self._lock.__enter__()
        if not self._depth:
            self._since = time.thread_time()
        self._depth += 1
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if not self._depth:
            self.held += time.thread_time() - self._since
        self._lock.__exit__(kind, error, trace)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that follow `vgpu bench refusals`."""
    parser.add_argument(
        "--nodes", type=int, default=NODES, metavar="N", help=f"of {CARDS} cards (default: {NODES})"
    )
    parser.add_argument(
        "--requests", type=int, default=REQUESTS, metavar="N", help=f"all different (default: {REQUESTS})"
    )


def run(args: argparse.Namespace) -> Report:
    """Run the benchmark. Raises BenchError for what cannot be run."""
    if args.nodes < 1 or not len(_REFUSED) <= args.requests <= 10_000:
        raise BenchError(f"write --nodes of at least 1, --requests from {len(_REFUSED)} to 10000")
    workload = ClusterModel(args.nodes, CARDS, 0.0, seconds=1)
    found = costs(*nearly_full(workload), workload.names(), args.requests)
    rows = [
        [name, *(f"{ms:.3f}" for ms in (cost.locked_p50_ms, cost.locked_p99_ms, cost.all_p50_ms))]
        for name, cost in found.items()
    ]
    return Report(
        {name: asdict(cost) for name, cost in found.items()},
        f"{args.nodes} nodes of {CARDS} cards; ms of the processor for one /filter\n"
        + table(["", "lock p50", "p99", "in all p50"], rows),
    )


def nearly_full(workload: ClusterModel) -> tuple[ClusterView, Reservations]:
    """The memory of a service on whose nodes every card holds a slice that leaves a little, more or less."""
    view = ClusterView(DEFAULT_PREFIXES, time.monotonic)
    reservations = Reservations(view, 3600.0, time.monotonic)
    rng = random.Random(workload.seed)
    view.sync_pods(())
    view.sync_jobs(())
    for name in workload.names():
        inventory = workload.inventory(name)
        view.see_node(Node(name, inventory.encode()))
        for card in inventory.cards:
            mib = card.mem_mib - card.mib(rng.randint(0, LEFT_UNITS))
            cores = range(card.core_groups - rng.randint(0, LEFT_CORES))
            view.ledger.hold(Grant(f"on-{card.uuid}", name, {"main": (Slice(card.uuid, mib, tuple(cores)),)}))
    view.nodes_listed = True
    return view, reservations


def costs(
    view: ClusterView, reservations: Reservations, nodes: Sequence[str], requests: int
) -> Mapping[str, FilterCost]:
    """The costs of placements and of first refusals, by kind; the last entry is for all refusals together."""
    lock = _TimedLock(view.lock)
    view.lock = lock  # type: ignore[assignment]
    leader = Leader("bench", lambda: 0.0)
    for renewed in ("1", "2"):
        leader.observe(Lease("bench_", renewed), 0.0)
    leader.begin()
    ask = Filter(Shared(view, reservations, leader, time.monotonic, Counts()))

    def timed(pods: Iterable[Pod], *, placed: bool) -> list[tuple[float, float]]:
        times = []
        for pod in pods:
            view.see_pod(pod, watched=True)
            started, held = time.thread_time(), lock.held
            verdict: Verdict = ask(pod, nodes)
            times.append((1000 * (lock.held - held), 1000 * (time.thread_time() - started)))
            if bool(verdict.nodes) is not placed or verdict.error:
                raise BenchError(
                    f"{pod.name} is not what it was made to be: {verdict.error or 'see the code'}"
                )
            view.forget_pod(pod.uid)
        return times

    for n in range(CROWD):
        view.see_pod(_grouped(f"crowd-{n}", {"-mem": 1}), watched=True)
    first = (_pod(f"a-{n}", {"-mem": 1 + n % LEFT_UNITS, "-cores": 1 + n // LEFT_UNITS}) for n in range(16))
    again = (_pod(f"b-{n}", {"-mem": 1, "-cores": 1}) for n in range(requests))
    found = {
        "placement, the first of its kind": timed(first, placed=True),
        "placement": timed(again, placed=True),
    }
    refused = {
        name: timed((make(n) for n in range(requests // len(_REFUSED))), placed=False)
        for name, make in _REFUSED.items()
    }
    found |= {f"refusal: {name}": times for name, times in refused.items()}
    found["refusal: all of these"] = [each for times in refused.values() for each in times]
    return {name: _cost(times) for name, times in found.items()}


def _cost(times: Sequence[tuple[float, float]]) -> FilterCost:
    locked, whole = (sorted(column) for column in zip(*times, strict=True))
    return FilterCost(
        round(statistics.median(locked), 3), round(locked[len(locked) * 99 // 100], 3),
        round(statistics.median(whole), 3),
    )  # fmt: skip


def _pod(name: str, *containers: Mapping[str, int], family: str = FAMILY, **written: str) -> Pod:
    asking = tuple(
        Container(f"c{number}", ContainerKind.MAIN, {family + suffix: str(n) for suffix, n in limits.items()})
        for number, limits in enumerate(containers)
    )
    return Pod("bench", name, name, containers=asking, annotations=written)


def _grouped(name: str, *containers: Mapping[str, int]) -> Pod:
    """A pod of the large group whose pods go to different nodes in the order of their roles."""
    made = _pod(name, *containers, **{annotations.POLICY: NODE_SCORE})
    return replace(made, labels={annotations.GROUP: GROUP, annotations.ROLE: f"worker-{name}"})


_REFUSED: Mapping[str, Callable[[int], Pod]] = {
    "larger than any card": lambda n: _pod(f"c-{n}", {"-mem": 1000 + n}),
    "more memory than is free": lambda n: _pod(f"d-{n}", {"-mem": 4 + n % 12, "-cores": 1 + n // 12}),
    "more core groups than are free": lambda n: _pod(f"e-{n}", {"-mem": 1 + n % 3, "-cores": 13 + n // 3}),
    "whole cards": lambda n: _pod(f"f-{n}", {"": 1 + n % 16}, **{annotations.CARD_UUID: f"!none-{n}"}),
    "a model that no card has": lambda n: _pod(f"g-{n}", {"-mem": 1}, **{annotations.CARD_MODEL: f"none-{n}"}),
    "a card that does not exist": lambda n: _pod(f"h-{n}", {"-mem": 1}, **{annotations.CARD_UUID: f"none-{n}"}),
    "64 cards excluded, and too much memory": lambda n: _pod(
        f"i-{n}", {"-mem": 4},
        **{annotations.CARD_UUID: ",".join(f"!n-{n * 64 + m}" for m in range(64))},
    ),
    "node-score, in a large group": lambda n: _grouped(f"k-{n}", {"-mem": 4 + n % 12, "-cores": 1 + n // 12}),
    "another family": lambda n: _pod(f"j-{n}", {"-mem": 1 + n}, family=DEFAULT_PREFIXES[1]),
}  # fmt: skip
