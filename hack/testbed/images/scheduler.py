"""kube-scheduler's image under its official name, around the binary that is all of Kubernetes' programs."""

from pathlib import Path

from hack.testbed import programs
from hack.testbed.images import oci, ours
from hack.testbed.images.layers import archive, layer


def build(kube: Path | None = None) -> Path:
    """The archive of the image.

    `kube` is the binary; without it the one in the cache is used, and built if it is missing.
    """
    binary = kube or programs.installed().kube
    if not binary.exists() and not kube:
        # Its check asks for more than a build needs: root, and the programs of a cluster.
        binary = programs.ensure().kube
    files = {"usr/local/bin/kube-scheduler": binary}
    own = layer("scheduler", lambda root: ours.copy(files, root), binary)
    reference = f"registry.k8s.io/kube-scheduler:{programs.version('k8s.io/kubernetes')}"
    config = {"User": "65532:65532", "Env": ["PATH=/usr/local/bin"]}
    return archive("scheduler", oci.Image(reference, [own], config))
