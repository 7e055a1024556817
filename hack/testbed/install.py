"""Installs the product on the test cluster as in docs/install.md, with kustomize or with its chart."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from hack.testbed.cluster import PROJECT, Cluster, ClusterError
from hack.testbed.layout import Layout

OVERLAY = PROJECT / "manifests/overlays/simulated"
CHART = PROJECT / "manifests/chart"
RELEASE = ("vgpu", "--namespace=vgpu-system")
SYSTEM = "--namespace=vgpu-system"
SIMULATED = "vgpu-simulated-cards"


def product(cluster: Cluster, overlay: Path = OVERLAY, cards: str = "") -> None:
    """Install the product with kustomize; `cards` replaces the simulated cards of every node.

    Raises ClusterError if the product does not become ready.
    """
    _kubectl(cluster, "apply", "--kustomize", str(overlay))
    if cards:
        change = json.dumps({"data": {"cards.yaml": cards}})
        _kubectl(cluster, "patch", "configmap", SIMULATED, "--type=merge", f"--patch={change}", SYSTEM)
    _serve(cluster)


def chart(cluster: Cluster, values: Mapping[str, object]) -> None:
    """Install the product with its chart and simulated cards. Raises ClusterError if it does not become ready."""
    file = cluster.layout.root / "values.json"
    file.write_text(json.dumps({"simulatedCards": {"enabled": True}, **values}), encoding="utf-8")
    _done(cluster, "helm", "install", *RELEASE, "--create-namespace", str(CHART), f"--values={file}")
    _serve(cluster)


def _serve(cluster: Cluster) -> None:
    """Label all nodes, and wait until all installed workloads are ready."""
    _kubectl(cluster, "label", "nodes", "--all", "vgpu.io/node=true")
    # A DaemonSet without nodes counts as rolled out, so first wait until its controller has seen the labels.
    wanted = f"--for=jsonpath={{.status.desiredNumberScheduled}}={len(cluster.nodes())}"
    _kubectl(cluster, "wait", wanted, "daemonset/vgpu-node", SYSTEM, "--timeout=300s")
    workloads = _kubectl(cluster, "get", "daemonset,deployment", SYSTEM, "--output=name").split()
    for workload in workloads:
        _kubectl(cluster, "rollout", "status", workload, SYSTEM, "--timeout=300s")


def overlay(
    where: Layout,
    base: str,
    components: Sequence[str],
    *,
    images: Sequence[Mapping[str, str]] = (),
    patches: Sequence[Mapping[str, object]] = (),
) -> Path:
    """Write a folder for `kubectl apply -k`, with the overlay `base` and further components; returns the folder."""
    folder = overlay_folder(where)
    folder.mkdir(parents=True, exist_ok=True)
    manifests = os.path.relpath(PROJECT / "manifests", folder.resolve())
    content = {
        "resources": [f"{manifests}/overlays/{base}"],
        "components": [f"{manifests}/components/{name}" for name in components],
        "images": images,
        "patches": patches,
    }
    (folder / "kustomization.yaml").write_text(json.dumps(content), encoding="utf-8")
    return folder


def overlay_folder(where: Layout) -> Path:
    """The folder to which `overlay` writes the overlay of this cluster."""
    return where.root.parent / f"{where.root.name}-overlay"


def admission(cluster: Cluster, overlay: Path = OVERLAY) -> None:
    """Install only the admission policies of the overlay. Raises ClusterError."""
    objects = yaml.safe_load_all(_kubectl(cluster, "kustomize", str(overlay)))
    policies = [item for item in objects if item["kind"] == "Namespace" or "Admission" in item["kind"]]
    file = cluster.layout.root / "admission.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": policies}), encoding="utf-8")
    _kubectl(cluster, "apply", f"--filename={file}")


def _kubectl(cluster: Cluster, *arguments: str) -> str:
    return _done(cluster, "kubectl", *arguments)


def _done(cluster: Cluster, *command: str) -> str:
    status, output = cluster.output(command)
    if status:
        raise ClusterError(f"{' '.join(command)}: {output}")
    return output
