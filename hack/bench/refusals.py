"""Measure what /filter costs at thousands of nodes: placements, first refusals, and refusals asked again.

    vgpu bench refusals --nodes 5000

The cluster service's own /filter over HTTP, on nodes of eight cards that are nearly full. The column `in all` is the
processor's time from the request, with the names of all nodes, to the last byte of the answer, which has a text for
each of them: reading, deciding, writing and sending. `lock` is the part in which the lock is held. The names come in
another order each time, as kube-scheduler sends them. No request comes twice, but each refused pod is asked for once
more: `again`. Other work on the machine slows all of them alike: compare ratios of one run.
"""

import argparse
import json
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import chain, cycle, product
from types import TracebackType

import msgspec
from msgspec.structs import replace

from device_plugin.adapters import extender
from device_plugin.adapters.http.server import Server
from device_plugin.adapters.kube import structs
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.kube.pods import as_pod
from device_plugin.allocator.allocator import Allocator
from device_plugin.allocator.service import Shared
from device_plugin.allocator.waiting.refusals import MOST_OF_NAMESPACE
from device_plugin.cluster.app import early_filter_app, filter_app
from device_plugin.cluster.counts import Counts
from device_plugin.cluster.filter import Filter
from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import Calls
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.placement.policies import NODE_SCORE
from device_plugin.core.pods import Container, ContainerKind, Node, Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, all_resource_names
from device_plugin.kube.leases import Lease
from device_plugin.state.view import ClusterView
from hack.bench.extender import api_objects
from hack.bench.extender.cluster_model import ClusterModel
from hack.bench.extender.load import orders
from hack.bench.report import BenchError, Report, table

NODES, CARDS, REQUESTS = 5000, 8, 1000
FAMILY = DEFAULT_PREFIXES[0]
# Most free units of each card, so that a slice of more units fits nowhere.
LEFT_UNITS, LEFT_CORES = 3, 12
# Seconds in which a call must be answered.
CALL_SECONDS = 60.0
PLACEMENT, ALL = "placement", "refusal: all of these"
# The number of pods in the group that some requests name, and its name.
CROWD, GROUP = 1900, "crowd"


@dataclass(frozen=True, slots=True)
class FilterCost:
    """The CPU time of one /filter in milliseconds: with the lock held, in total, and in total when asked again.

    `again_p50_ms` is None for placements. `answer_kib` is the length of the longest answer.
    """

    locked_p50_ms: float
    locked_p99_ms: float
    all_p50_ms: float
    again_p50_ms: float | None
    answer_kib: int


@dataclass(frozen=True, slots=True)
class _Took:
    """The CPU seconds of one /filter, with the lock held and in total, and the bytes of the answer."""

    locked: float
    whole: float
    length: int


class _TimedLock:
    """A re-entrant lock that measures: `held` is the CPU time, in seconds, that its holders have used so far."""

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
    """Add the arguments of `vgpu bench refusals`."""
    parser.add_argument(
        "--nodes", type=int, default=NODES, metavar="N", help=f"of {CARDS} cards (default: {NODES})"
    )
    parser.add_argument(
        "--requests", type=int, default=REQUESTS, metavar="N", help=f"all different (default: {REQUESTS})"
    )


def run(args: argparse.Namespace) -> Report:
    """Run the benchmark and return its report. Raises BenchError if it cannot run."""
    most = MOST_OF_NAMESPACE * len(_REFUSED)
    if args.nodes < 1 or not len(_REFUSED) <= args.requests <= most:
        raise BenchError(f"write --nodes of at least 1, --requests from {len(_REFUSED)} to {most}")
    workload = ClusterModel(args.nodes, CARDS, 0.0, seconds=1)
    found = costs(*nearly_full(workload), workload, args.requests)
    placed, refused = found[PLACEMENT], found[ALL]
    ratios = refused.all_p50_ms / placed.all_p50_ms, (refused.again_p50_ms or 0.0) / placed.all_p50_ms
    return Report(
        {name: asdict(cost) for name, cost in found.items()},
        f"{args.nodes} nodes of {CARDS} cards; ms of the processor for one /filter\n"
        + table(
            ["", "lock p50", "p99", "in all p50", "again p50", "KiB"],
            [[name, *_cells(cost)] for name, cost in found.items()],
        )
        + f"\na refusal costs {ratios[0]:.2f} placements, and {ratios[1]:.2f} when it is asked for again",
    )


def _cells(cost: FilterCost) -> Iterator[str]:
    for ms in (cost.locked_p50_ms, cost.locked_p99_ms, cost.all_p50_ms, cost.again_p50_ms):
        yield "" if ms is None else f"{ms:.3f}"
    yield str(cost.answer_kib)


def nearly_full(workload: ClusterModel) -> tuple[ClusterView, Allocator]:
    """The state (view) and the allocator of a service; on all its cards one slice leaves a small random part free."""
    view = ClusterView(DEFAULT_PREFIXES, time.monotonic)
    allocator = Allocator(view, 3600.0, time.monotonic)
    rng = random.Random(workload.seed)
    view.pod_news.sync(())
    view.job_news.sync(())
    for name in workload.names():
        inventory = workload.inventory(name)
        view.node_news.see(Node(name, inventory.encode()))
        for card in inventory.cards:
            mib = card.mem_mib - card.mib(rng.randint(0, LEFT_UNITS))
            cores = range(card.core_groups - rng.randint(0, LEFT_CORES))
            view.ledger.hold(Grant(f"on-{card.uuid}", name, {"main": (Slice(card.uuid, mib, tuple(cores)),)}))
    view.listed.add("nodes")
    return view, allocator


def costs(
    view: ClusterView, allocator: Allocator, workload: ClusterModel, requests: int
) -> Mapping[str, FilterCost]:
    """The costs of placements and of refusals, by kind; the last entry is for all refusals together."""
    for n in range(CROWD):
        view.pod_news.see(_grouped(f"crowd-{n}", {"-mem": 1}), watched=True)
    kinds = [_pod(f"a-{n}", {"-mem": 1 + n % LEFT_UNITS, "-cores": 1 + n // LEFT_UNITS}) for n in range(16)]
    with _serving(view, allocator, workload) as scheduler:
        found = {
            "placement, the first of its kind": _cost([scheduler.asked(pod, placed=True) for pod in kinds])
        }
        placed, refused = list[_Took](), {name: (list[_Took](), list[_Took]()) for name in _REFUSED}
        # The kinds take turns, so that other work on the machine slows all of them equally.
        for n in range(requests // len(_REFUSED)):
            placed.append(scheduler.asked(_pod(f"b-{n}", {"-mem": 1, "-cores": 1}), placed=True))
            hopeless = {name: make(n) for name, make in _REFUSED.items()}
            for again, (name, pod) in product((0, 1), hopeless.items()):
                refused[name][again].append(scheduler.asked(pod, placed=False))
    found[PLACEMENT] = _cost(placed)
    found |= {f"refusal: {name}": _cost(*took) for name, took in refused.items()}
    found[ALL] = _cost(*(list(chain(*took)) for took in zip(*refused.values(), strict=True)))
    return found


class _Caller:
    """Calls /filter as kube-scheduler does, and reads the CPU time of the threads that answer."""

    def __init__(self, view: ClusterView, lock: _TimedLock, workload: ClusterModel, server: Server) -> None:
        self._view = view
        self._lock = lock
        self._names = cycle(orders(workload))
        self._connections = Connections(Endpoint(f"http://{server.address}", lambda: None), CALL_SECONDS)
        self._threads = f"http-{server.port}"

    def close(self) -> None:
        self._connections.close()

    def asked(self, pod: Pod, *, placed: bool) -> _Took:
        """The cost of one /filter. Raises BenchError if the pod is refused though `placed`, or the other way round."""
        text = api_objects.pending(pod)
        body = b'{"Pod":%b,"Nodes":null,"NodeNames":%b}' % (text, next(self._names))
        # As the watch shows it: the amounts of its host are those that kube-scheduler sends.
        self._view.pod_news.see(as_pod(msgspec.json.decode(text, type=structs.RawPod)), watched=True)
        began, held = self._busy(), self._lock.held
        status, answer = self._connections.request(
            "POST", "/filter", {"Content-Type": "application/json"}, body
        )
        # Wait until the thread waits for the next request: its time is complete then.
        time.sleep(0.001)
        took = _Took(self._lock.held - held, self._busy() - began, len(answer))
        result = json.loads(answer) if status == 200 else {"Error": f"status {status}"}
        if bool(result.get("NodeNames")) is not placed or result["Error"] or b" is gone" in answer:
            raise BenchError(f"{pod.name} is not what it was made to be: {result['Error'] or 'see the code'}")
        return took

    def _busy(self) -> float:
        """The CPU seconds that the server's threads have used so far."""
        threads = [thread for thread in threading.enumerate() if thread.name == self._threads]
        return sum(
            time.clock_gettime(time.pthread_getcpuclockid(thread.ident)) for thread in threads if thread.ident
        )


@contextmanager
def _serving(view: ClusterView, allocator: Allocator, workload: ClusterModel) -> Iterator[_Caller]:
    """Start the server of /filter as a replica that leads; yields its caller."""
    lock = _TimedLock(view.lock)
    view.lock = lock  # type: ignore[assignment]
    leader = Leader("bench", lambda: 0.0)
    for renewed in ("1", "2"):
        leader.observe(Lease("bench_", renewed), 0.0)
    leader.begin()
    resources = all_resource_names(DEFAULT_PREFIXES)
    filter_calls = extender.FilterCalls(resources)
    calls = Calls(
        filter_calls, extender.read_bind, extender.read_preempt, filter_calls.begun,
        extender.FilterAnswers(lambda: True),  # as on Kubernetes 1.33 and later
    )  # fmt: skip
    place = Filter(Shared(view, allocator, leader.why_not, time.monotonic), Counts())
    with (
        Server(filter_app(place, calls), "127.0.0.1:0", early=early_filter_app(place, calls)) as server,
        closing(_Caller(view, lock, workload, server)) as caller,
    ):
        yield caller


def _cost(once: Sequence[_Took], again: Sequence[_Took] = ()) -> FilterCost:
    locked = sorted(took.locked for took in once)
    return FilterCost(
        _median_ms(locked), round(1000 * locked[len(locked) * 99 // 100], 3),
        _median_ms([took.whole for took in once]),
        _median_ms([took.whole for took in again]) if again else None,
        max(took.length for took in once) >> 10,
    )  # fmt: skip


def _median_ms(seconds: Sequence[float]) -> float:
    return round(1000 * statistics.median(seconds), 3)


def _pod(name: str, *containers: Mapping[str, int], family: str = FAMILY, **written: str) -> Pod:
    asking = tuple(
        Container(f"c{number}", ContainerKind.MAIN, {family + suffix: str(n) for suffix, n in limits.items()})
        for number, limits in enumerate(containers)
    )
    # Each kind of pods has its own namespace, because the remembered refusals of a namespace are limited.
    return Pod(f"bench-{name[0]}", name, name, containers=asking, annotations=written)


def _grouped(name: str, *containers: Mapping[str, int]) -> Pod:
    """A pod of the large group with `node-score`, where the order of the roles decides the nodes."""
    made = _pod(name, *containers, **{annotations.POLICY: NODE_SCORE})
    return replace(
        made, namespace=GROUP, labels={annotations.GROUP: GROUP, annotations.ROLE: f"worker-{name}"}
    )


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
