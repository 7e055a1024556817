"""Builds kube-scheduler's image, under its official name, with the binary that has all programs of Kubernetes."""

from pathlib import Path

from hack.testbed import programs
from hack.testbed.images import oci, ours
from hack.testbed.images.layers import archive, layer


def build(kube: Path | None = None) -> Path:
    """Build the image, and return the archive.

    `kube` is the binary; None means the binary in the cache, which is built if it is missing.
    """
    binary = kube or programs.installed().kube
    if not binary.exists() and not kube:
        # `ensure` also checks for root and for all programs of a cluster, which this build does not need.
        binary = programs.ensure().kube
    files = {"usr/local/bin/kube-scheduler": binary}
    own = layer("scheduler", lambda root: ours.copy(files, root), binary)
    reference = f"registry.k8s.io/kube-scheduler:{programs.version('k8s.io/kubernetes')}"
    config = {"User": "65532:65532", "Env": ["PATH=/usr/local/bin"]}
    return archive("scheduler", oci.Image(reference, [own], config))
