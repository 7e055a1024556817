"""Names, addresses and folders of one cluster.

The control plane and every node are a machine each: a supervisor with its programs, in namespaces of its own below one
pid namespace. They meet on a bridge, 10.99.0.0/24; the pods of node i have 10.88.i.0/24.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from vgpu_runtime.sim.hip import default_cache

CONTROL_PLANE = "control-plane"
GATEWAY = "10.99.0.1"
POD_NETWORK = "10.88.0.0/16"
SERVICE_NETWORK = "10.96.0.0/24"
KUBERNETES_SERVICE, DNS_SERVICE = "10.96.0.1", "10.96.0.10"
API_SERVER = f"https://{GATEWAY}:6443"
MOST_NODES = 50
# Images on every node; the second is the sandbox of pods.
PAUSE = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True)
class Layout:
    """The cluster below `root`, on local disk. Short paths: the folders hold sockets."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file of the administrator."""
        return self.root / "kubeconfig"

    @property
    def certificates(self) -> Path:
        """Keys and certificates of all identities."""
        return self.root / "certificates"

    @property
    def audit(self) -> Path:
        """The path of the audit log: requests of our services to the API server, one JSON event in each line."""
        return self.root / CONTROL_PLANE / "audit.log"

    @property
    def cgroup(self) -> str:
        """The folder of the nodes in each cgroup tree of the machine; another cluster has another."""
        return f"vgpu-testbed-{hashlib.sha256(str(self.root).encode()).hexdigest()[:8]}"

    def machine(self, name: str) -> Path:
        """Logs, settings and the control socket of one machine."""
        return self.root / name

    def control(self, name: str) -> Path:
        """The socket that its supervisor listens on."""
        return self.root / name / "control"


def here() -> Layout:
    """The one cluster of this machine and user."""
    folder = os.environ.get("VGPU_TESTBED")
    return Layout(Path(folder) if folder else default_cache() / "testbed")


def node_names(count: int) -> list[str]:
    """The names of this many nodes: n1, n2, ..."""
    return [f"n{number}" for number in range(1, count + 1)]


def number(node: str) -> int:
    """The number of a node: 1 for n1."""
    return int(node.removeprefix("n"))


def address(node: str) -> str:
    """The node's address on the bridge."""
    return f"10.99.0.{100 + number(node)}"


def pods(node: str) -> str:
    """The network of the node's pods."""
    return f"10.88.{number(node)}.0/24"
