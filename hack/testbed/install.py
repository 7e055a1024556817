"""What the README tells a platform engineer to do, done on the test cluster."""

import json

from hack.testbed.cluster import PROJECT, Cluster, ClusterError

OVERLAY = PROJECT / "manifests/overlays/simulated"
ADMISSION = PROJECT / "manifests/admission"
SYSTEM = "--namespace=vgpu-system"
SIMULATED = "vgpu-simulated-cards"


def product(cluster: Cluster, cards: str = "") -> None:
    """Install everything; `cards` replaces the simulated cards of every node.

    Raises ClusterError if it does not come up.
    """
    _kubectl(cluster, "apply", "--kustomize", str(OVERLAY))
    if cards:
        change = json.dumps({"data": {"cards.yaml": cards}})
        _kubectl(cluster, "patch", "configmap", SIMULATED, "--type=merge", f"--patch={change}", SYSTEM)
    _kubectl(cluster, "label", "nodes", "--all", "vgpu.io/node=true")
    for workload in ("daemonset/vgpu-node", "deployment/vgpu-cluster"):
        _kubectl(cluster, "rollout", "status", workload, SYSTEM, "--timeout=180s")


def admission(cluster: Cluster) -> None:
    """Install the policies alone. Raises ClusterError."""
    _kubectl(cluster, "apply", "--kustomize", str(ADMISSION))


def _kubectl(cluster: Cluster, *arguments: str) -> None:
    status, output = cluster.output(["kubectl", *arguments])
    if status:
        raise ClusterError(f"kubectl {' '.join(arguments)}: {output}")
