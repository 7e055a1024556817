"""hack/hopeless: pods placed in a second beside thousands that fit nowhere, with a real API server and kube-scheduler.

Each round has two parts, in the same kube-scheduler. In the first, thousands of pods of 20 namespaces wait that a
nodeSelector refuses: the allocator never hears of them. In the second as many wait that the allocator refuses, and each
pod that is bound wakes all of them. In both a few good pods are always on their way: each that is bound is deleted, and
the next is created. Attempts are kube-scheduler's, decisions the allocator's answers to /filter.
Beside this load, one after another, pods wait for a card that another pod has reserved and, waiting for a volume, does
not bind; then that reservation ends. Printed is the time from that to the binding, and from a touch where one was
needed.
The last line is the median of the rounds' ratios, second part to first: `ratio 0.93`.

Nodes are objects with an inventory; nothing runs on them, and no root is needed. The scheduler's configuration is the
one in manifests/; --backoff sets both of its backoffs.
"""

import argparse
import itertools
import json
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import urllib3
import yaml

from device_plugin.core.cards import Inventory
from hack.bench.extender.cluster_model import ClusterModel
from hack.testbed import programs
from hack.testbed.certificates import Authority
from hack.testbed.cluster import PROJECT

FAMILY, CARDS, NAMESPACES = "hygon.com/dcu", 8, 20
SCHEDULER = "vgpu-scheduler"
TOKEN = "hopeless"  # noqa: S105 - of a cluster on loopback that ends with this program
READY_SECONDS, SETTLE_SECONDS, LOOK_SECONDS = 60.0, 600.0, 1.0
WRITERS = 8
# kube-scheduler's own defaults.
BACKOFFS = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10}
ATTEMPTS = re.compile(r"^scheduler_schedule_attempts_total\{[^}]*\} (\S+)", re.MULTILINE)
DECISIONS = re.compile(r"^vgpu_placement_seconds_count (\S+)", re.MULTILINE)
GOOD = "/api/v1/namespaces/good/pods"
# The namespace of pods that are touched, and their node, whose one card has a model of its own; and a storage class
# whose volumes never become ready.
PROBES, PROBE_NODE, PROBE_MODEL = "probes", "probe-node", "Probe"
VOLUMES = "no-volumes"
SELECTED_NODE, MODEL, TOUCHED = "volume.kubernetes.io/selected-node", "vgpu.io/card-model", "vgpu.io/touched"
PROBE_SECONDS = 120.0


def main() -> int:
    """Run the rounds on a control plane of their own; 0 if they could be run."""
    parser = argparse.ArgumentParser(
        prog="hack/hopeless", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pods", type=int, default=4000, help="pods that wait (default: 4000)")
    parser.add_argument("--nodes", type=int, default=100, help=f"of {CARDS} cards each (default: 100)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of two parts (default: 3)")
    parser.add_argument("--seconds", type=float, default=30.0, help="measured in each part (default: 30)")
    parser.add_argument("--good", type=int, default=32, help="good pods that exist at a time (default: 32)")
    parser.add_argument("--backoff", type=int, help=f"{' and '.join(BACKOFFS)} (default: as in manifests/)")
    arguments = parser.parse_args()
    try:
        found = programs.ensure()
    except programs.MissingError as error:
        print(error, file=sys.stderr)
        return 1
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vgpu-hopeless-")))
        plane = stack.enter_context(_running(folder, found, arguments.backoff))
        _make_nodes(plane, arguments.nodes)
        plane.call("POST", "/apis/storage.k8s.io/v1/storageclasses", _storage_class())
        _measure(plane, arguments)
    return 0


@dataclass(frozen=True)
class Plane:
    """The API server, and where the allocator answers."""

    url: str
    http: urllib3.PoolManager
    allocator: str
    scheduler: str
    backoff: str

    def call(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        """Send a request and return the decoded answer. Raises SystemExit for one that is no success."""
        headers = {**_headers(), "Content-Type": content}
        text = None if body is None else json.dumps(body)
        answer = self.http.request(method, self.url + path, body=text, headers=headers)
        if answer.status >= 300 and answer.status != 404:
            raise SystemExit(f"{method} {path}: {answer.status} {answer.data[:300]!r}")
        return answer.json()

    def tries(self) -> tuple[int, int]:
        """The number of kube-scheduler's attempts for pods, and of the allocator's decisions."""
        return (
            self._counted(f"{self.scheduler}/metrics", ATTEMPTS),
            self._counted(f"{self.allocator}/metrics", DECISIONS),
        )

    def _counted(self, url: str, line: re.Pattern[str]) -> int:
        text = self.http.request("GET", url, headers=_headers()).data.decode()
        return sum(int(float(count)) for count in line.findall(text))

    @contextmanager
    def watch(self, path: str, selector: str = "") -> Iterator[Iterator[dict[str, Any]]]:
        """The objects of a collection, each as soon as it changes."""
        version = self.call("GET", f"{path}?limit=1")["metadata"]["resourceVersion"]
        query = f"watch=1&resourceVersion={version}&fieldSelector={selector}"
        answer = self.http.request(
            "GET",
            f"{self.url}{path}?{query}",
            headers=_headers(),
            preload_content=False,
            timeout=PROBE_SECONDS,
        )
        try:
            yield _objects(answer)
        finally:
            answer.close()


def _objects(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    rest = b""
    for piece in lines:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            yield json.loads(line)["object"]


def _bound(pods: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield the name of each pod as soon as it is bound."""
    seen = set[str]()
    for pod in pods:
        name = pod["metadata"]["name"]
        if pod["spec"].get("nodeName") and name not in seen:
            seen.add(name)
            yield name


def _headers() -> dict[str, str]:
    return {"Authorization": f"Bearer {TOKEN}"}


@contextmanager
def _running(folder: Path, found: programs.Programs, backoff: int | None) -> Iterator[Plane]:
    """etcd, API server, allocator and kube-scheduler; they end with the block."""
    ports = _free_ports(6)
    etcd, peer, secure, extender, http, scheduler = ports
    authority = Authority(folder / "certificates")
    authority.create()
    authority.issue("kube-apiserver", "kube-apiserver", hosts=["localhost", "127.0.0.1", "10.0.0.1"])
    authority.issue("admin", "admin", "system:masters")
    url = f"https://127.0.0.1:{secure}"
    authority.kubeconfig("admin", url, folder / "kubeconfig")
    (folder / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n")
    (folder / "token").write_text(TOKEN)
    config, seconds = _scheduler_config(folder, extender, backoff)
    # kube-scheduler's identity in the Lease begins with the machine's name, and the allocator leads beside it.
    allocator = [
        sys.executable, "-m", "device_plugin", "cluster", f"--kube-server={url}",
        f"--kube-token-file={folder / 'token'}", f"--kube-ca-file={authority.certificate}",
        f"--pod-name={socket.gethostname()}", f"--extender-listen=127.0.0.1:{extender}",
        f"--http-listen=127.0.0.1:{http}",
    ]  # fmt: skip
    with ExitStack() as stack:
        for name, command in (
            ("etcd", _etcd(etcd, peer)),
            ("kube-apiserver", _api_server(authority, folder, etcd, secure)),
        ):
            stack.enter_context(_program(folder, name, [str(found.kubernetes / name), *command]))
        client = urllib3.PoolManager(maxsize=2 * WRITERS, block=True, ca_certs=str(authority.certificate))
        plane = Plane(url, client, f"http://127.0.0.1:{http}", f"https://127.0.0.1:{scheduler}", seconds)
        _await(plane, f"{url}/readyz")
        stack.enter_context(_program(folder, "allocator", allocator))
        _make_namespaces(plane)
        command = [
            str(found.kubernetes / "kube-scheduler"),
            f"--config={config}",
            f"--secure-port={scheduler}",
            f"--tls-cert-file={authority.file('kube-apiserver', 'crt')}",
            f"--tls-private-key-file={authority.file('kube-apiserver', 'key')}",
            "--authorization-always-allow-paths=/metrics",
        ]
        stack.enter_context(_program(folder, "kube-scheduler", command))
        _await(plane, f"{plane.allocator}/readyz")
        yield plane


def _etcd(client: int, peer: int) -> list[str]:
    at, among = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        "--data-dir=etcd", "--unsafe-no-fsync", "--log-level=warn", f"--listen-client-urls={at}",
        f"--advertise-client-urls={at}", f"--listen-peer-urls={among}",
        f"--initial-advertise-peer-urls={among}", f"--initial-cluster=default={among}",
    ]  # fmt: skip


def _api_server(authority: Authority, folder: Path, etcd: int, secure: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={secure}", "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
        f"--tls-cert-file={authority.file('kube-apiserver', 'crt')}",
        f"--tls-private-key-file={authority.file('kube-apiserver', 'key')}",
        f"--client-ca-file={authority.certificate}", f"--token-auth-file={folder / 'tokens.csv'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={authority.file('tokens', 'pub')}",
        f"--service-account-signing-key-file={authority.file('tokens', 'key')}",
        "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
        # There are no service accounts here, and no kubelets that report the conditions of nodes.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]  # fmt: skip


def _scheduler_config(folder: Path, extender: int, backoff: int | None) -> tuple[Path, str]:
    """The scheduler configuration of manifests/ for this machine, and a text about its two backoffs."""
    config = yaml.safe_load((PROJECT / "manifests/base/cluster/scheduler.yaml").read_text())
    config["clientConnection"] = {
        **config.get("clientConnection", {}),
        "kubeconfig": str(folder / "kubeconfig"),
    }
    config["profiles"] = [{"schedulerName": SCHEDULER}]
    managed = [{"name": FAMILY + suffix, "ignoredByScheduler": False} for suffix in ("", "-mem", "-cores")]
    config["extenders"][0] |= {"urlPrefix": f"http://127.0.0.1:{extender}", "managedResources": managed}
    if backoff is not None:
        config |= dict.fromkeys(BACKOFFS, backoff)
    path = folder / "scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    return path, " and ".join(f"{name} {config.get(name, default)}" for name, default in BACKOFFS.items())


@contextmanager
def _program(folder: Path, name: str, command: Sequence[str]) -> Iterator[None]:
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder if name == "etcd" else PROJECT,
        )
    try:
        yield
    except BaseException:
        shutil.copy(folder / f"{name}.log", Path(tempfile.gettempdir()) / f"hopeless-{name}.log")
        raise
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def _await(plane: Plane, url: str) -> None:
    """Return once this URL answers 200. Raises SystemExit after READY_SECONDS."""
    end = time.monotonic() + READY_SECONDS
    while time.monotonic() < end:
        try:
            if plane.http.request("GET", url, headers=_headers(), retries=False).status == 200:
                return
        except urllib3.exceptions.HTTPError:
            pass
        time.sleep(LOOK_SECONDS)
    raise SystemExit(f"{url} is not ready after {READY_SECONDS:g} s")


def _make_namespaces(plane: Plane) -> None:
    for name in ("vgpu-system", "good", PROBES, *_namespaces()):
        plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})


def _namespaces() -> list[str]:
    return [f"tenant-{number:02}" for number in range(NAMESPACES)]


def _make_nodes(plane: Plane, count: int) -> None:
    workload = ClusterModel(count, CARDS, 0.0, seconds=1)
    for name in workload.names():
        _make_node(plane, name, workload.inventory(name))
    probe = replace(workload.inventory(PROBE_NODE).cards[0], model=PROBE_MODEL)
    _make_node(plane, PROBE_NODE, Inventory((probe,)))


def _make_node(plane: Plane, name: str, inventory: Inventory) -> None:
    units = sum(card.units for card in inventory.cards)
    groups = sum(card.core_groups for card in inventory.cards)
    amounts = {
        "cpu": "1000", "memory": "1000Gi", "pods": "10000", FAMILY: str(len(inventory.cards)),
        f"{FAMILY}-mem": str(units), f"{FAMILY}-cores": str(groups),
    }  # fmt: skip
    node = {
        "metadata": {"name": name, "annotations": {"vgpu.io/cards": inventory.encode()}},
        "status": {
            "capacity": amounts, "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }  # fmt: skip
    plane.call("POST", "/api/v1/nodes", node)


def _pod(name: str, mem: int = 0, **spec: object) -> dict[str, Any]:
    """A pod that asks for a slice of `mem` units, or for a whole card."""
    limits = {f"{FAMILY}-mem": str(mem)} if mem else {FAMILY: "1"}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {
        "metadata": {"name": name},
        "spec": {"schedulerName": SCHEDULER, "containers": [container], **spec},
    }


def _measure(plane: Plane, arguments: argparse.Namespace) -> None:
    print(
        f"{arguments.pods} pods of {NAMESPACES} namespaces wait, {arguments.nodes} nodes, {plane.backoff}",
        flush=True,
    )
    ratios = []
    for number in range(1, arguments.rounds + 1):
        told = []
        for kind, selector in (("nodeSelector", {"no": "node"}), ("allocator", None)):
            _fill(plane, arguments.pods, selector)
            told.append(_part(plane, arguments))
            _empty(plane)
            print(f"round {number}: beside pods that the {kind} refuses {told[-1]}", flush=True)
        ratios.append(told[1].good / told[0].good)
    print(f"ratio {statistics.median(ratios):.2f}")


def _fill(plane: Plane, count: int, selector: object) -> None:
    """Create the pods that wait, and return once kube-scheduler has refused each of them."""
    names = _namespaces()
    more = {"nodeSelector": selector} if selector else {}

    def create(number: int) -> None:
        # A card has 16 units, a node has enough of them.
        body = _pod(f"waits-{number}", 17 + number % 100, **more)
        plane.call("POST", f"/api/v1/namespaces/{names[number % NAMESPACES]}/pods", body)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(create, range(count)))
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end and (left := count - _refused(plane)):
        time.sleep(LOOK_SECONDS)
    if left:
        raise SystemExit(f"{left} pods were not refused within {SETTLE_SECONDS:g} s")


def _refused(plane: Plane) -> int:
    pods = plane.call("GET", f"/api/v1/pods?fieldSelector=spec.schedulerName={SCHEDULER}")["items"]
    return sum(map(_is_refused, pods))


def _is_refused(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in conditions)


@dataclass(frozen=True)
class Probe:
    """Seconds until a pod was bound: since there is room for it, and since its touch if it needed one."""

    room: float
    touch: float | None

    def __str__(self) -> str:
        """As it is printed."""
        return (
            f"{self.room:.2f}"
            if self.touch is None
            else f"{self.room:.2f} ({self.touch:.2f} after its touch)"
        )


@dataclass(frozen=True)
class Part:
    """The figures of one part: good pods bound per second, attempts and decisions for each, and the probes."""

    good: float
    attempts: float
    decisions: float
    probes: Sequence[Probe]

    def __str__(self) -> str:
        """The figures in one line."""
        return (
            f"{self.good:.1f} good pods/s, {self.attempts:.1f} attempts of kube-scheduler and {self.decisions:.1f}"
            f" decisions of /filter for each; seconds from room to binding: {', '.join(map(str, self.probes))}"
        )


def _part(plane: Plane, arguments: argparse.Namespace) -> Part:
    bound: list[float] = []
    stop = threading.Event()
    numbers = itertools.count(time.monotonic_ns())

    def create() -> None:
        plane.call("POST", GOOD, _pod(f"good-{next(numbers)}", 1))

    def replace_pod(name: str) -> None:
        plane.call("DELETE", f"{GOOD}/{name}?gracePeriodSeconds=0")
        if not stop.is_set():
            create()

    with ThreadPoolExecutor(WRITERS + 1) as pool, plane.watch(GOOD) as pods:
        for _ in range(arguments.good):
            pool.submit(create)
        begin = time.monotonic() + arguments.seconds / 3
        end = begin + arguments.seconds
        probes = pool.submit(_probes, plane, end)
        before = None
        for name in _bound(pods):
            now = time.monotonic()
            if before is None and now >= begin:
                before = plane.tries()
            bound.append(now)
            pool.submit(replace_pod, name)
            if now >= end and probes.done():
                break
        stop.set()
    count = sum(each >= begin for each in bound)
    attempts, decisions = (now - then for now, then in zip(plane.tries(), before or (0, 0), strict=True))
    good = count / (bound[-1] - begin)
    return Part(good, attempts / max(1, count), decisions / max(1, count), probes.result())


def _probes(plane: Plane, end: float) -> list[Probe]:
    """Pods that room appears for, one after another, the last begun before `end`."""
    found = []
    while time.monotonic() < end:
        name = f"probe-{time.monotonic_ns()}"
        plane.call("POST", f"/api/v1/namespaces/{PROBES}/persistentvolumeclaims", _claim(name))
        try:
            found.append(_probe(plane, name))
        finally:
            for path in (f"pods/{name}", f"pods/{name}-holder", f"persistentvolumeclaims/{name}"):
                plane.call("DELETE", f"/api/v1/namespaces/{PROBES}/{path}?gracePeriodSeconds=0")
    return found


def _probe(plane: Plane, name: str) -> Probe:
    pods, claims = (f"/api/v1/namespaces/{PROBES}/{kind}" for kind in ("pods", "persistentvolumeclaims"))
    # By units alone, which kube-scheduler counts, there is room for both.
    holder, waiting = _pod(f"{name}-holder"), _pod(name, 16)
    for pod in (holder, waiting):
        pod["metadata"]["annotations"] = {MODEL: PROBE_MODEL}
    holder["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    with plane.watch(claims, f"metadata.name={name}") as seen:
        plane.call("POST", pods, holder)
        # kube-scheduler assumes the holder on its node, and waits for the volume before it binds it.
        next(claim for claim in seen if SELECTED_NODE in claim["metadata"].get("annotations", {}))
    with plane.watch(pods, f"metadata.name={name}") as seen:
        plane.call("POST", pods, waiting)
        next(pod for pod in seen if _is_refused(pod))
        # Its request differs now, so its reservation ends, and no event of that wakes a refused pod.
        changed = {"metadata": {"annotations": {MODEL: "none"}}}
        room, touched = time.monotonic(), None
        plane.call("PATCH", f"{pods}/{name}-holder", changed, "application/merge-patch+json")
        for pod in seen:
            now = time.monotonic()
            if touched is None and TOUCHED in pod["metadata"]["annotations"]:
                touched = now
            if pod["spec"].get("nodeName"):
                return Probe(now - room, now - touched if touched is not None else None)
    raise SystemExit(f"{name} was not bound within {PROBE_SECONDS:g} s")


def _storage_class() -> dict[str, Any]:
    return {
        "metadata": {"name": VOLUMES},
        "provisioner": "example.com/nobody",
        "volumeBindingMode": "WaitForFirstConsumer",
    }


def _claim(name: str) -> dict[str, Any]:
    amount = {"requests": {"storage": "1Mi"}}
    return {
        "metadata": {"name": name},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": VOLUMES, "resources": amount},
    }


def _empty(plane: Plane) -> None:
    for name in ("good", PROBES, *_namespaces()):
        plane.call("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
    while plane.call("GET", "/api/v1/pods?limit=1")["items"]:
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
