"""Three processes, one measurement: the stub API server, the cluster service itself, and the load."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger
from hack import process_cost
from hack.bench.extender import api_server, load
from hack.bench.extender.child import Child
from hack.bench.extender.cluster_model import ClusterModel, ExtenderBenchError
from hack.bench.extender.timing import LoadTiming
from hack.embedded.services import ServiceError, ServiceProcess

# Seconds to wait for the stub: it makes the objects of thousands of nodes before it serves, and checks every Binding at
# the end.
STUB_SECONDS = 120.0


@dataclass(frozen=True)
class Figures:
    """The measured figures; `slices` are held before the load, `rss_mib` is the service's memory after it.

    `cpu_ms_per_pod` is the service's CPU time for each bound pod, which hardly depends on other work of the machine.
    `rebuild_s` is the time that a new leader needs for a ledger of these slices, from the texts of their grants.
    `lessons` counts how often a workload was learnt meanwhile; `learning_p99_ms` is that of filters at these times.
    """

    nodes: int
    cards: int
    slices: int
    pods_per_s: float
    filter_p50_ms: float
    filter_p99_ms: float
    rss_mib: float
    cpu_ms_per_pod: float
    rebuild_s: float
    refused: int
    lessons: int
    learning_p99_ms: float | None


def measure(workload: ClusterModel) -> Figures:
    """Run all of it and end all of it. Raises ExtenderBenchError, also if two pods were given the same."""
    grants = workload.grants()
    rebuild = _rebuild_seconds(workload, grants)
    with running(workload, grants) as (api, service, scheduler):
        patience = load.LEADER_SECONDS + load.LESSON_SECONDS + 2 * workload.seconds + STUB_SECONDS
        timing = scheduler.hear(patience, lambda: check(service))
        if not isinstance(timing, LoadTiming):
            raise ExtenderBenchError(f"{timing}; the service's log ends with:\n{service.log_tail()}")
        rss = process_cost.rss_mib(service.pid)
        if wrongs := api.ask("wrongs", STUB_SECONDS):
            raise ExtenderBenchError(f"{len(wrongs)} calls or grants were wrong: {'; '.join(wrongs[:5])}")
    filters, learning = timing.filters_ms, timing.learning_ms
    return Figures(
        workload.nodes, workload.nodes * workload.cards, len(grants), round(timing.pods_per_s, 1),
        round(filters[len(filters) // 2], 3), _p99(filters), round(rss, 1),
        round(timing.cpu_ms_per_pod, 3), round(rebuild, 5), timing.refused,
        timing.lessons, _p99(learning) if learning else None,
    )  # fmt: skip


def _p99(sorted_ms: list[float]) -> float:
    return round(sorted_ms[len(sorted_ms) * 99 // 100], 3)


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
def running(workload: ClusterModel, grants: list[Grant]) -> Iterator[tuple[Child, ServiceProcess, Child]]:
    """Stub API server, service and load, of which nothing is left afterwards. Raises ExtenderBenchError."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="vgpu-bench-"))
        api = stack.enter_context(Child("stub API server", api_server.serve, workload, grants))
        log = Path(folder) / "service.log"
        service = _service(api.hear(STUB_SECONDS), log)
        stack.callback(service.kill)
        _start(service)
        host, port = service.addresses["extender"].rsplit(":", 1)
        scheduler = Child("load", load.drive, workload, len(grants), (host, int(port)), log, service.pid)
        yield api, service, stack.enter_context(scheduler)


def check(service: ServiceProcess) -> None:
    """Raise ExtenderBenchError if the service ended."""
    if not service.running:
        raise ExtenderBenchError(f"the cluster service ended; its log ends with:\n{service.log_tail()}")


def _service(api_port: int, log: Path) -> ServiceProcess:
    flags = {
        "pod-name": api_server.POD_NAME, "kube-server": f"http://127.0.0.1:{api_port}",
        "extender-listen": "127.0.0.1:0", "http-listen": "127.0.0.1:0",
        # Flags have priority over the caller's environment, which may name a real cluster.
        "kube-kubeconfig": "", "kube-token-file": "", "kube-ca-file": "",
    }  # fmt: skip
    words = [word for flag, value in flags.items() for word in (f"--{flag}", value)]
    return ServiceProcess("cluster service", ["cluster", *words], log, {"VGPU_CONFIG": ""})


def _start(service: ServiceProcess) -> None:
    try:
        service.start()
        service.wait()
    except ServiceError as error:
        raise ExtenderBenchError(str(error)) from None
