"""A real API server, a real kube-scheduler and the allocator, on loopback: nodes are objects on which nothing runs.

The scheduler's configuration is the one in manifests/. The logs stay in a folder until the next run. No root is needed.
"""

import re
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

import yaml

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import from_kubeconfig
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.claims import CORES, MEMORY, device_class
from device_plugin.core.contract.resource_slices import resource_slice
from device_plugin.kube.api import NODES, Kind
from device_plugin.wiring.scheduler_config import filled
from device_plugin.wiring.settings import ClusterSettings
from hack.bench.extender.cluster_model import FAMILY, ClusterModel
from hack.embedded.claims.uses import CLAIMS, claim_spec
from hack.embedded.kubelet.drivers import SLICES
from hack.measure.process_cost import cpu_seconds
from hack.testbed import bare
from hack.testbed.cluster import PROJECT
from hack.testbed.supervisor import Program, Supervisor

CARDS = 8
LEASE_NAMESPACE = "vgpu-system"
SCHEDULER = "vgpu-scheduler"
ALLOCATOR, KUBE_SCHEDULER = "allocator", "kube-scheduler"
REQUEST_SECONDS = 60.0
WRITERS = 8
# kube-scheduler's own defaults.
BACKOFFS = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10}
ATTEMPTS = re.compile(rb"^scheduler_schedule_attempts_total\{[^}]*\} (\S+)", re.MULTILINE)
DECISIONS = re.compile(rb"^vgpu_placement_seconds_count (\S+)", re.MULTILINE)
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", dict)
CLASSES = Kind(CLAIMS.group, CLAIMS.version, "deviceclasses", "DeviceClass", dict)
# Where kube-scheduler answers anybody on this machine.
OPEN_PATHS = "/metrics,/debug/pprof/*"
Item = TypeVar("Item")


class Asking(StrEnum):
    """How pods ask for their slices, and so which program chooses the cards."""

    LIMITS = "limits"
    CLAIMS = "claims"
    """By ResourceClaims, which the allocator allocates."""
    PLUGIN = "plugin"
    """By ResourceClaims, which kube-scheduler's own plugin allocates: the allocator is not asked."""


@dataclass(frozen=True)
class ScheduledCluster:
    """Clients of the API server, of kube-scheduler and of the allocator, and a text about the scheduler's backoffs."""

    api: KubeClient
    scheduler: Connections
    allocator: Connections
    backoff: str
    asking: Asking
    pids: Callable[[], Mapping[str, int]]
    """The process ids of all programs, by name."""

    def tries(self) -> tuple[int, int]:
        """The number of kube-scheduler's attempts for pods, and of the allocator's decisions."""
        return _counted(self.scheduler, ATTEMPTS), _counted(self.allocator, DECISIONS)

    def cpu(self) -> Mapping[str, float]:
        """The CPU seconds of each program so far, by its name."""
        return {name: cpu_seconds(pid) for name, pid in self.pids().items()}


def _counted(service: Connections, line: re.Pattern[bytes]) -> int:
    _, text = service.request("GET", "/metrics", {}, None)
    return sum(int(float(count)) for count in line.findall(text))


@contextmanager
def running(
    folder: Path, binaries: Path, namespaces: Sequence[str], backoff: int | None = None,
    asking: Asking = Asking.LIMITS,
) -> Iterator[ScheduledCluster]:  # fmt: skip
    """Start API server, allocator and kube-scheduler; they end with the context, and their logs stay in `folder`."""
    with bare.running(folder, binaries) as cluster:
        extender, http, scheduler = bare.free_ports(3)
        config, seconds = _scheduler_config(cluster.kubeconfig, extender, backoff, asking)
        (folder / "scheduler.yaml").write_text(yaml.safe_dump(config))
        # kube-scheduler's identity in the Lease begins with the machine's name; the allocator next to it leads.
        allocator = (
            sys.executable, "-m", "device_plugin", "cluster", f"--kube-kubeconfig={cluster.kubeconfig}",
            f"--pod-name={socket.gethostname()}", f"--lease-namespace={LEASE_NAMESPACE}",
            f"--extender-listen=127.0.0.1:{extender}",
            f"--http-listen=127.0.0.1:{http}", f"--claims={'true' if asking is Asking.CLAIMS else 'false'}",
        )  # fmt: skip
        kube_scheduler = (
            f"{binaries}/kube-scheduler", *cluster.certificate(), "--config=scheduler.yaml",
            f"--secure-port={scheduler}", f"--authorization-always-allow-paths={OPEN_PATHS}",
        )  # fmt: skip
        supervisor = Supervisor(
            folder, [Program(ALLOCATOR, allocator), Program(KUBE_SCHEDULER, kube_scheduler)]
        )
        endpoint = from_kubeconfig(str(cluster.kubeconfig))
        plane = ScheduledCluster(
            KubeClient(endpoint, "hack", timeout=REQUEST_SECONDS),
            Connections(replace(endpoint, url=f"https://127.0.0.1:{scheduler}"), REQUEST_SECONDS),
            Connections(replace(endpoint, url=f"http://127.0.0.1:{http}"), REQUEST_SECONDS),
            seconds,
            asking,
            lambda: {**cluster.pids(), **supervisor.pids()},
        )
        try:
            supervisor.start(ALLOCATOR)
            for name in (LEASE_NAMESPACE, *namespaces):
                plane.api.create(NAMESPACE, {"metadata": {"name": name}})
            supervisor.start(KUBE_SCHEDULER)
            bare.until(
                "the allocator is not ready", bare.READY_SECONDS, lambda: bare.is_ready(plane.allocator)
            )
            yield plane
        finally:
            supervisor.crash()


def _scheduler_config(
    kubeconfig: Path, extender: int, backoff: int | None, asking: Asking
) -> tuple[dict[str, Any], str]:
    """The scheduler configuration of manifests/ for this machine, and a text about its two backoffs."""
    template = yaml.safe_load((PROJECT / "manifests/base/cluster/scheduler.yaml").read_text())
    settings = ClusterSettings(
        prefixes=[FAMILY], scheduler_name=SCHEDULER, lease_namespace=LEASE_NAMESPACE,
        claims=asking is Asking.CLAIMS,
    )  # fmt: skip
    config = filled(template, settings)
    config.setdefault("clientConnection", {})["kubeconfig"] = str(kubeconfig)
    config["extenders"][0]["urlPrefix"] = f"http://127.0.0.1:{extender}"
    if asking is Asking.PLUGIN:
        del config["extenders"]
    if backoff is not None:
        config |= dict.fromkeys(BACKOFFS, backoff)
    return config, " and ".join(f"{name} {config.get(name, default)}" for name, default in BACKOFFS.items())


def show_devices(api: KubeClient, count: int) -> None:
    """Create the DeviceClass, and the ResourceSlices of the nodes that `make_nodes` creates."""
    driver = device_class(FAMILY)
    selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
    api.create(CLASSES, {"metadata": {"name": driver}, "spec": {"selectors": [selector]}})
    workload = ClusterModel(count, CARDS, 0.0, seconds=1)
    all_at_once(
        lambda name: api.create(SLICES, resource_slice(name, FAMILY, workload.inventory(name).cards, 1)),
        workload.names(),
    )


def make_nodes(api: KubeClient, count: int) -> None:
    """Create nodes with the cards of a bench's cluster."""
    workload = ClusterModel(count, CARDS, 0.0, seconds=1, claims=True)
    all_at_once(lambda name: make_node(api, name, workload.inventory(name)), workload.names())


def make_node(api: KubeClient, name: str, inventory: Inventory) -> None:
    """Create a node that is ready and has these cards."""
    units = sum(card.units for card in inventory.cards)
    groups = sum(card.core_groups for card in inventory.cards)
    amounts = {
        "cpu": "1000", "memory": "1000Gi", "pods": "10000", FAMILY: str(len(inventory.cards)),
        f"{FAMILY}-mem": str(units), f"{FAMILY}-cores": str(groups),
    }  # fmt: skip
    node = {
        "metadata": {"name": name, "annotations": {annotations.CARDS: inventory.encode()}},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip
    api.create(NODES, node)


def pod_body(name: str, mem: int = 0, **spec: object) -> dict[str, Any]:
    """A pod that asks for a slice of `mem` units, or for a whole card."""
    limits = {f"{FAMILY}-mem": str(mem)} if mem else {FAMILY: "1"}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": SCHEDULER, "containers": [container], **spec},
    }


def claiming_pod(api: KubeClient, name: str, namespace: str, mem: int) -> dict[str, Any]:
    """Create a ResourceClaim of `mem` GiB and one core group; returns a pod that asks by it."""
    spec = claim_spec(device_class(FAMILY), {MEMORY: f"{mem}Gi", CORES: "1"})
    api.create(CLAIMS, {"metadata": {"name": name}, "spec": spec}, namespace)
    container = {"name": "main", "image": "none", "resources": {"claims": [{"name": "slice"}]}}
    used = [{"name": "slice", "resourceClaimName": name}]
    return pod_body(name, containers=[container], resourceClaims=used)


def all_at_once(act: Callable[[Item], object], items: Iterable[Item]) -> None:
    """Call `act` with each item, in WRITERS threads."""
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(act, items))
