"""`make e2e`: build what is missing, start a cluster, install the project from its manifests, test, tear down.

With --kubeconfig the tests run on that cluster instead, which must have the overlay `simulated`.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hack.testbed import images, layout, previous, programs
from hack.testbed.cluster import PROJECT, Cluster, ClusterError

OVERLAY = "manifests/overlays/simulated"
NODES = 3
SYSTEM = "--namespace=vgpu-system"
SIMULATED = "vgpu-simulated-cards"


def main() -> int:
    """The exit status of the tests."""
    parser = argparse.ArgumentParser(prog="make e2e", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, help="run on this cluster")
    parser.add_argument("--keep", action="store_true", help="leave the cluster up")
    arguments, rest = parser.parse_known_args()
    tests = [sys.executable, "-m", "pytest", "tests/e2e", *rest]
    os.environ["VGPU_E2E"] = "true"
    if arguments.kubeconfig:
        environment = {**os.environ, "KUBECONFIG": str(arguments.kubeconfig.resolve())}
        return subprocess.run(tests, env=environment, cwd=PROJECT, check=False).returncode
    try:
        return _on_own_cluster(tests, keep=arguments.keep)
    except (programs.MissingError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1


def _on_own_cluster(tests: Sequence[str], *, keep: bool) -> int:
    found = programs.ensure()
    archives = images.build_all()
    earlier = previous.prepare()
    os.environ["VGPU_E2E_PREVIOUS"] = f"{earlier.source}:{earlier.archive}"
    cluster = Cluster(layout.here(), found)
    cluster.up(NODES, archives)
    try:
        install(cluster)
        return cluster.run(tests)
    finally:
        if keep:
            print("the cluster is left up: hack/cluster kubectl get pods -A; hack/cluster down")
        else:
            cluster.down()


def install(cluster: Cluster, cards: str = "") -> None:
    """Do what the README tells a platform engineer to do; `cards` replaces the simulated cards of every node.

    Raises ClusterError if it does not come up.
    """
    _kubectl(cluster, "apply", "--kustomize", str(PROJECT / OVERLAY))
    if cards:
        change = json.dumps({"data": {"cards.yaml": cards}})
        _kubectl(cluster, "patch", "configmap", SIMULATED, "--type=merge", f"--patch={change}", SYSTEM)
    _kubectl(cluster, "label", "nodes", "--all", "vgpu.io/node=true")
    for workload in ("daemonset/vgpu-node", "deployment/vgpu-cluster"):
        _kubectl(cluster, "rollout", "status", workload, SYSTEM, "--timeout=120s")


def _kubectl(cluster: Cluster, *arguments: str) -> None:
    if cluster.run(["kubectl", *arguments]):
        raise ClusterError(f"kubectl {' '.join(arguments)} failed; see hack/cluster logs")


if __name__ == "__main__":
    sys.exit(main())
