"""Names, addresses and folders of one cluster.

The control plane and each node are machines: a machine is a supervisor with its programs, in separate namespaces within
one pid namespace. A bridge, 10.99.0.0/24, connects the machines; the pods of node i have 10.88.i.0/24.
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
# The image of pods' sandboxes, which every node has.
PAUSE = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True)
class Layout:
    """The folders of a cluster below `root`, a short path on a local disk, because the folders have sockets."""

    root: Path

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig file of the administrator."""
        return self.root / "kubeconfig"

    @property
    def certificates(self) -> Path:
        """The folder with the keys and certificates of all users and servers."""
        return self.root / "certificates"

    @property
    def audit(self) -> Path:
        """The path of the audit log: requests of our services to the API server, one JSON event in each line."""
        return self.root / CONTROL_PLANE / "audit.log"

    @property
    def cgroup(self) -> str:
        """The name of this cluster's folder in each cgroup tree of the machine; it differs between clusters."""
        return f"vgpu-testbed-{hashlib.sha256(str(self.root).encode()).hexdigest()[:8]}"

    def machine(self, name: str) -> Path:
        """The folder with the logs, settings and control socket of one machine."""
        return self.root / name

    def control(self, name: str) -> Path:
        """The path of the socket on which a machine's supervisor listens."""
        return self.root / name / "control"


def here() -> Layout:
    """The layout of this user's cluster; $VGPU_TESTBED can name another folder."""
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
