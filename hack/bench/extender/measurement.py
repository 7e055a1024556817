"""Measure the real cluster service: pods per second, latency, memory and CPU.

    vgpu bench extender --nodes 1213 --fill 0.5

The service runs as with `vgpu cluster`, in a process of its own that speaks HTTP with a stub API server, which is a
process too, and a stub kube-scheduler. Cards are filled to the given share first; then, for each pod that is bound, a
random one is deleted. The API server answers at once: a real one adds its own time to each Binding, not to a filter.
A refusal is received and not read: to read its thousands of texts is kube-scheduler's work. Calls of /filter follow one
another: at each of them the load and the service wake each other, which takes longer on a busy machine. So the rate
with hopeless pods depends on the machine's other work, and the service's CPU does not. The measurement begins once
the service has learnt the workload from the pods that are there; from fewer than 64 it learns nothing, and its policy
is `pack`. With --seconds 150 it learns again meanwhile, and the cost of that is printed.
"""

import argparse
import gc
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import Ledger
from hack.bench.extender import api_server, api_store
from hack.bench.extender.cluster_model import ClusterModel
from hack.bench.extender.load import SchedulerLoad
from hack.bench.report import BenchError, Report, table
from hack.embedded.services import ServiceError, ServiceProcess
from hack.measure import process_cost

# Seconds to wait for the stub: it makes the objects of thousands of nodes before it serves.
STUB_SECONDS = 900.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `vgpu bench extender`."""
    parser.add_argument("--nodes", type=int, default=500, metavar="N", help="default: 500")
    parser.add_argument("--cards", type=int, default=8, metavar="N", help="of each node (default: 8)")
    parser.add_argument(
        "--fill",
        type=float,
        default=0.5,
        metavar="F",
        help="share of all memory granted before (default: 0.5)",
    )
    parser.add_argument(
        "--seconds", type=float, default=10.0, metavar="S", help="measured, after a warm-up (default: 10)"
    )
    parser.add_argument(
        "--seed", type=int, default=42, metavar="N", help="of what the pods ask for (default: 42)"
    )
    parser.add_argument(
        "--hopeless",
        type=int,
        default=0,
        metavar="N",
        help="measure again beside N pods that fit nowhere, each asked for again before each pod (default: 0)",
    )
    parser.add_argument(
        "--claims", action="store_true", help="the pods ask by ResourceClaims, not in their limits"
    )


def run(args: argparse.Namespace) -> Report:
    """Measure, and return the report. SIGTERM ends all processes and removes all files, as Ctrl-C does.

    Raises BenchError.
    """
    workload = ClusterModel(
        args.nodes, args.cards, args.fill, args.seconds, args.seed, args.hopeless, args.claims
    )
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        figures = measure(workload)
    finally:
        signal.signal(signal.SIGTERM, before)
    return Report(figures, _shown(figures))


def _shown(figures: Mapping[str, Any]) -> str:
    cells = {
        "nodes": f"{figures['nodes']}",
        "cards": f"{figures['cards']}",
        "slices held": f"{figures['slices']}",
        "pods/s": f"{figures['pods_per_s']:.0f}",
        "filter p50": f"{figures['filter_p50_ms']:.2f} ms",
        "p99": f"{figures['filter_p99_ms']:.2f} ms",
        "service RSS": f"{figures['rss_mib']:.0f} MiB",
        "CPU a pod": f"{figures['cpu_ms_per_pod']:.2f} ms",
        "rebuild": f"{figures['rebuild_s']:.2f} s",
    }
    lines = [table(list(cells), [list(cells.values())])]
    if figures["refused"]:
        lines.append(f"{figures['refused']} pods fit nowhere")
    if figures["learning_p99_ms"] is not None:
        times = f"{figures['lessons']} times" if figures["lessons"] > 1 else "once"
        lines.append(
            f"a target workload learnt {times} meanwhile: filter p99 then {figures['learning_p99_ms']:.2f} ms"
        )
    if not figures["learnt"]:
        lines.append("the service has learnt no target workload: these are the figures of the policy pack")
    if "hopeless" in figures:
        lines.append(
            f"beside {figures['hopeless']} pods that fit nowhere for each: {figures['beside_pods_per_s']:.0f} pods/s,"
            f" {figures['beside_pods_per_s'] / figures['pods_per_s']:.2f} of the rate alone; CPU a pod"
            f" {figures['beside_cpu_ms_per_pod']:.2f} ms,"
            f" by which it is {figures['cpu_ms_per_pod'] / figures['beside_cpu_ms_per_pod']:.2f}"
        )
    return "\n".join(lines)


def measure(workload: ClusterModel) -> Mapping[str, float | None]:
    """Start all processes, measure, and end them; returns the figures. Raises BenchError, also for overlapping grants.

    `slices` are held before the load; `rss_mib` is the service's memory after the load. `cpu_ms_per_pod` hardly depends
    on other work of the machine. `rebuild_s` is the time in which a new leader builds a ledger from the texts of these
    grants. `beside_pods_per_s` and `beside_cpu_ms_per_pod` are measured while hopeless pods wait. LoadFigures describes
    the other figures.
    """
    grants = workload.grants()
    rebuild = _rebuild_seconds(workload, grants)
    with running(workload, grants) as (api, service, scheduler):
        try:
            alone, beside = scheduler.run()
        except BenchError as error:
            raise BenchError(f"{error}; the service's log ends with:\n{service.log_tail()}") from None
        rss = process_cost.rss_mib(service.pid)
        wrong, bindings = bound(api)
    wrong += api_store.overlaps(workload, grants, bindings)
    if wrong:
        raise BenchError(f"{len(wrong)} calls or grants were wrong: {'; '.join(wrong[:5])}")
    held = {"nodes": workload.nodes, "cards": workload.nodes * workload.cards, "slices": len(grants)}
    found = {**held, **asdict(alone), "rss_mib": round(rss, 1), "rebuild_s": round(rebuild, 5)}
    if beside is not None:
        found |= {
            "hopeless": workload.hopeless,
            "beside_pods_per_s": beside.pods_per_s,
            "beside_cpu_ms_per_pod": beside.cpu_ms_per_pod,
        }
    return found


def _rebuild_seconds(workload: ClusterModel, grants: list[Grant]) -> float:
    inventories = {name: workload.inventory(name) for name in workload.names()}
    texts = [grant.encode() for grant in grants]
    start = time.perf_counter()
    ledger = Ledger()
    for name, inventory in inventories.items():
        ledger.set_node(name, inventory)
    for text in texts:
        ledger.hold(Grant.decode(text))
    return time.perf_counter() - start


@contextmanager
def running(
    workload: ClusterModel, grants: list[Grant]
) -> Iterator[tuple[Connection, ServiceProcess, SchedulerLoad]]:
    """Start the stub API server, the service and the load; end them when the context ends. Raises BenchError."""
    with (
        tempfile.TemporaryDirectory(prefix="vgpu-bench-") as folder,
        child(api_server.serve, workload, grants) as api,
    ):
        log = Path(folder) / "service.log"
        service = _service(heard(api), log, claims=workload.claims)
        try:
            service.start()
            service.wait()
            # The garbage collector would otherwise visit the grants' objects again and again during the load.
            gc.freeze()
            yield api, service, SchedulerLoad(workload, len(grants), service, log)
        except ServiceError as error:
            raise BenchError(str(error)) from None
        finally:
            gc.unfreeze()
            service.kill()


def _service(api_port: int, log: Path, *, claims: bool) -> ServiceProcess:
    flags = {
        "pod-name": api_server.POD_NAME, "kube-server": f"http://127.0.0.1:{api_port}",
        "extender-listen": "127.0.0.1:0", "http-listen": "127.0.0.1:0",
        # Flags have priority over the caller's environment, which may name a real cluster.
        "kube-kubeconfig": "", "kube-token-file": "", "kube-ca-file": "", "claims": str(claims).lower(),
    }  # fmt: skip
    words = [word for flag, value in flags.items() for word in (f"--{flag}", value)]
    return ServiceProcess("cluster service", ["cluster", *words], log, {"VGPU_CONFIG": ""})


@contextmanager
def child(target: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A pipe to `target(pipe, *arguments)` in a process of its own, which is killed at the end."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=target, args=(theirs, *arguments), daemon=True)
    with ours:
        with theirs:
            process.start()
        try:
            yield ours
        finally:
            process.kill()
            process.join()


def heard(api: Connection) -> Any:
    """The next message of the stub API server. Raises BenchError if it ended or is silent."""
    try:
        if api.poll(STUB_SECONDS):
            return api.recv()
    except (EOFError, OSError):
        raise BenchError("the stub API server ended") from None
    raise BenchError(f"the stub API server said nothing for {STUB_SECONDS:.0f} s")


def bound(api: Connection) -> tuple[list[str], list[api_store.Binding]]:
    """The calls that the stub API server found wrong so far, and all Bindings."""
    api.send(None)
    wrong, bindings = heard(api)
    return wrong, bindings
