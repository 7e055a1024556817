"""Kueue for the test cluster: the image of its controller, built from its Go module, and its own manifests.

The controller runs as a pod behind the Service of its webhooks, as in a usual installation.
"""

import json
import os
from pathlib import Path

from hack.testbed import programs
from hack.testbed.images import oci, ours
from hack.testbed.images.layers import archive, layer

MODULE = "sigs.k8s.io/kueue"
NAMESPACE = "kueue-system"
DEPLOYMENT = "kueue-controller-manager"


def image() -> Path:
    """The archive of the controller's image. Raises MissingError, CalledProcessError."""
    binary = programs.kueue() / "kueue"
    own = layer("kueue", lambda root: ours.copy({"manager": binary}, root), binary)
    config = {"User": "65532:65532", "Entrypoint": ["/manager"]}
    return archive("kueue", oci.Image(_reference(), [own], config))


def write_overlay(folder: Path) -> None:
    """Write a folder for `kubectl apply --server-side -k`: Kueue's default manifests with this image."""
    ours_instead = [
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": _reference()},
        {"op": "replace", "path": "/spec/template/spec/containers/0/imagePullPolicy", "value": "Never"},
    ]
    target = {"kind": "Deployment", "name": "controller-manager"}
    content = {
        "resources": [os.path.relpath(programs.kueue() / "config/default", folder.resolve())],
        "patches": [{"target": target, "patch": json.dumps(ours_instead)}],
    }
    (folder / "kustomization.yaml").write_text(json.dumps(content), encoding="utf-8")


def _reference() -> str:
    return f"vgpu.io/kueue:{programs.version(MODULE)}"
