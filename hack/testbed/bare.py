"""A real API server without nodes, on loopback: etcd, kube-apiserver, and some controllers. It needs no root."""

import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from device_plugin.adapters.http.client import LOST
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import from_kubeconfig
from hack.testbed.certificates import Authority
from hack.testbed.supervisor import Program, Supervisor

READY_SECONDS, LOOK_SECONDS, REQUEST_SECONDS = 600.0, 0.5, 30.0


@dataclass(frozen=True)
class BareCluster:
    """An API server that is ready, with the administrator's kubeconfig and the certificate authority.

    `pids` returns the process ids of its programs, by name.
    """

    url: str
    kubeconfig: Path
    authority: Authority
    pids: Callable[[], Mapping[str, int]] = dict

    def certificate(self) -> Sequence[str]:
        """The flags that give another server on loopback its certificate and key."""
        return (
            f"--tls-cert-file={self.authority.file('kube-apiserver', 'crt')}",
            f"--tls-private-key-file={self.authority.file('kube-apiserver', 'key')}",
        )


@contextmanager
def running(
    folder: Path, binaries: Path, *flags: str, controllers: Sequence[str] = ()
) -> Iterator[BareCluster]:
    """Start the cluster, which ends with the context; its logs stay in `folder`.

    `flags` are further flags of the API server, `controllers` the names of controllers for kube-controller-manager.
    Raises SystemExit if the API server is not ready after READY_SECONDS.
    """
    shutil.rmtree(folder, ignore_errors=True)
    etcd, peer, secure, managing = free_ports(4)
    authority, kubeconfig = Authority(folder / "certificates"), folder / "kubeconfig"
    authority.create()
    authority.issue("kube-apiserver", "kube-apiserver", hosts=["localhost", "127.0.0.1", "10.0.0.1"])
    authority.issue("admin", "admin", "system:masters")
    made = BareCluster(f"https://127.0.0.1:{secure}", kubeconfig, authority)
    authority.kubeconfig("admin", made.url, kubeconfig)
    api_server = [
        f"{binaries}/kube-apiserver",
        *made.certificate(),
        *_api_server(authority, etcd, secure),
        *flags,
    ]
    manager = [
        f"{binaries}/kube-controller-manager", *made.certificate(), f"--kubeconfig={kubeconfig}",
        f"--secure-port={managing}", "--leader-elect=false", f"--controllers={','.join(controllers)}",
    ]  # fmt: skip
    supervisor = Supervisor(
        folder,
        [
            Program("etcd", [f"{binaries}/etcd", *_etcd(etcd, peer)]),
            Program("kube-apiserver", api_server),
            Program("kube-controller-manager", manager),
        ],
    )
    service = Connections(from_kubeconfig(str(kubeconfig)), REQUEST_SECONDS)
    try:
        supervisor.start("etcd")
        supervisor.start("kube-apiserver")
        until("the API server is not ready", READY_SECONDS, lambda: is_ready(service))
        if controllers:
            supervisor.start("kube-controller-manager")
        yield replace(made, pids=supervisor.pids)
    finally:
        service.close()
        supervisor.crash()
        shutil.rmtree(folder / "etcd", ignore_errors=True)


def free_ports(count: int) -> list[int]:
    """Loopback ports on which no program listens now."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def is_ready(service: Connections) -> bool:
    """True if /readyz of the service answers with status 200."""
    try:
        return service.request("GET", "/readyz", {}, None)[0] == 200
    except LOST:
        return False


def until(problem: str, seconds: float, look: Callable[[], bool]) -> None:
    """Wait until `look` returns true. Raises SystemExit with the problem after `seconds`."""
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            raise SystemExit(f"{problem} after {seconds:g} s")
        time.sleep(LOOK_SECONDS)


def _etcd(client: int, peer: int) -> list[str]:
    at, among = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    return [
        "--data-dir=etcd", "--unsafe-no-fsync", "--log-level=warn", f"--listen-client-urls={at}",
        f"--advertise-client-urls={at}", f"--listen-peer-urls={among}",
        f"--initial-advertise-peer-urls={among}", f"--initial-cluster=default={among}",
    ]  # fmt: skip


def _api_server(authority: Authority, etcd: int, secure: int) -> list[str]:
    return [
        f"--etcd-servers=http://127.0.0.1:{etcd}", f"--secure-port={secure}", "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none",
        f"--client-ca-file={authority.certificate}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={authority.file('tokens', 'pub')}",
        f"--service-account-signing-key-file={authority.file('tokens', 'key')}",
        "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC", "--allow-privileged=true",
        # This cluster has no service accounts, and no kubelets that report the conditions of nodes.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
    ]  # fmt: skip
