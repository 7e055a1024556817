"""hack/hopeless: pods placed in a second beside thousands that fit nowhere, with a real API server and kube-scheduler.

Each round has two parts, in the same kube-scheduler. In the first, thousands of pods of 20 namespaces wait that a
nodeSelector refuses: the allocator never hears of them. In the second as many wait that the allocator refuses, and each
pod that is bound wakes all of them. In both a few good pods are always on their way: each that is bound is deleted, and
the next is created. Attempts are kube-scheduler's, decisions the allocator's answers to /filter.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import urllib3
import yaml

from hack.bench.extender.cluster_model import Workload
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
        """How often kube-scheduler tried to find a node for a pod, and how often the allocator decided for it."""
        return (
            self._counted(f"{self.scheduler}/metrics", ATTEMPTS),
            self._counted(f"{self.allocator}/metrics", DECISIONS),
        )

    def _counted(self, url: str, line: re.Pattern[str]) -> int:
        text = self.http.request("GET", url, headers=_headers()).data.decode()
        return sum(int(float(count)) for count in line.findall(text))

    @contextmanager
    def bindings(self) -> Iterator[Iterator[str]]:
        """The names of good pods, each as soon as it is bound."""
        version = self.call("GET", f"{GOOD}?limit=1")["metadata"]["resourceVersion"]
        answer = self.http.request(
            "GET",
            f"{self.url}{GOOD}?watch=1&resourceVersion={version}",
            headers=_headers(),
            preload_content=False,
        )
        try:
            yield _bound(answer)
        finally:
            answer.close()


def _bound(lines: Iterable[bytes]) -> Iterator[str]:
    seen, rest = set[str](), b""
    for piece in lines:
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            pod = json.loads(line)["object"]
            name = pod["metadata"]["name"]
            if pod.get("spec", {}).get("nodeName") and name not in seen:
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
        # Nobody makes service accounts and quotas here, and no node is ever looked at.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]  # fmt: skip


def _scheduler_config(folder: Path, extender: int, backoff: int | None) -> tuple[Path, str]:
    """The configuration of manifests/ for this machine, and its two backoffs in words."""
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
    for name in ("vgpu-system", "good", *_namespaces()):
        plane.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})


def _namespaces() -> list[str]:
    return [f"tenant-{number:02}" for number in range(NAMESPACES)]


def _make_nodes(plane: Plane, count: int) -> None:
    workload = Workload(count, CARDS, 0.0, seconds=1)
    for name in workload.names():
        inventory = workload.inventory(name)
        units = sum(card.units for card in inventory.cards)
        groups = sum(card.core_groups for card in inventory.cards)
        amounts = {
            "cpu": "1000", "memory": "1000Gi", "pods": "10000",
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


def _pod(name: str, mem: int, **spec: object) -> dict[str, Any]:
    limits = {f"{FAMILY}-mem": str(mem)}
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
            print(
                f"round {number}: beside pods that the {kind} refuses {told[-1][0]:.1f} good pods/s,"
                f" {told[-1][1]:.1f} attempts of kube-scheduler and {told[-1][2]:.1f} decisions of /filter for each",
                flush=True,
            )
        ratios.append(told[1][0] / told[0][0])
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
    return sum(
        any(
            c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable"
            for c in pod["status"].get("conditions", ())
        )
        for pod in pods
    )


def _part(plane: Plane, arguments: argparse.Namespace) -> tuple[float, float, float]:
    """Good pods bound in a second, and for each the attempts of kube-scheduler and the decisions of /filter."""
    bound: list[float] = []
    stop = threading.Event()
    numbers = itertools.count(time.monotonic_ns())

    def create() -> None:
        plane.call("POST", GOOD, _pod(f"good-{next(numbers)}", 1))

    def replace(name: str) -> None:
        plane.call("DELETE", f"{GOOD}/{name}?gracePeriodSeconds=0")
        if not stop.is_set():
            create()

    with ThreadPoolExecutor(WRITERS) as pool, plane.bindings() as names:
        for _ in range(arguments.good):
            pool.submit(create)
        begin = time.monotonic() + arguments.seconds / 3
        before = None
        for name in names:
            now = time.monotonic()
            if before is None and now >= begin:
                before = plane.tries()
            bound.append(now)
            pool.submit(replace, name)
            if now >= begin + arguments.seconds:
                break
        stop.set()
    count = sum(each >= begin for each in bound)
    attempts, decisions = (now - then for now, then in zip(plane.tries(), before or (0, 0), strict=True))
    return count / (bound[-1] - begin), attempts / max(1, count), decisions / max(1, count)


def _empty(plane: Plane) -> None:
    for name in ("good", *_namespaces()):
        plane.call("DELETE", f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")
    while plane.call("GET", "/api/v1/pods?limit=1")["items"]:
        time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
