"""Other projects' controllers on the test cluster: their images, built from their Go modules, and their own manifests.

Each runs as a pod, behind the Service of its webhooks if it has some, as in a usual installation. Their resource
definitions, roles and webhooks are the files of the modules.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from hack.testbed import programs
from hack.testbed.images import oci, ours
from hack.testbed.images.layers import archive, layer

# A patch that removes a resource definition of its name.
_DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "$patch": "delete",
}  # fmt: skip


@dataclass(frozen=True)
class Controller:
    """A controller of another project: its Go module, and what its manifests install.

    `name` is the folder of hack/testbed with its go.mod, which pins the version. `program` is the name of its built
    program. `overlay` is the folder of the module for `kubectl apply -k`. `flags`, if any, are the arguments of its
    container. `left_out` names resource definitions of its manifests that are not installed.
    """

    name: str
    module: str
    program: str
    overlay: str
    namespace: str
    deployment: str
    flags: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def version(self) -> str:
        """The pinned version of the module."""
        return programs.pinned(self.name, self.module)

    def image(self) -> Path:
        """The archive of the controller's image. Raises MissingError, CalledProcessError."""
        binary = self._folder() / self.program
        own = layer(self.name, lambda root: ours.copy({"manager": binary}, root), binary)
        config = {"User": "65532:65532", "Entrypoint": ["/manager"]}
        return archive(self.name, oci.Image(self._reference(), [own], config))

    def write_overlay(self, folder: Path) -> None:
        """Write a folder for `kubectl apply --server-side -k`: the module's manifests with this image."""
        container = "/spec/template/spec/containers/0"
        changes: list[dict[str, object]] = [
            {"op": "add", "path": f"{container}/image", "value": self._reference()},
            {"op": "add", "path": f"{container}/imagePullPolicy", "value": "Never"},
        ]
        if self.flags:
            changes.append({"op": "add", "path": f"{container}/args", "value": [*self.flags]})
        content = {
            "resources": [os.path.relpath(self._folder() / self.overlay, folder.resolve())],
            "patches": [
                {"target": {"kind": "Deployment"}, "patch": json.dumps(changes)},
                *(
                    {"patch": json.dumps({**_DEFINITION, "metadata": {"name": name}})}
                    for name in self.left_out
                ),
            ],
        }
        (folder / "kustomization.yaml").write_text(json.dumps(content), encoding="utf-8")

    def _folder(self) -> Path:
        manifests, _, _ = self.overlay.partition("/")
        return programs.controller(self.name, self.module, manifests)

    def _reference(self) -> str:
        return f"vgpu.io/{self.name}:{self.version}"


KUEUE = Controller(
    "kueue", "sigs.k8s.io/kueue", "kueue", "config/default", "kueue-system", "kueue-controller-manager"
)
JOB_SET = Controller(
    "jobset", "sigs.k8s.io/jobset", "jobset", "config/default", "jobset-system", "jobset-controller-manager"
)
# Only PyTorchJobs: MPIJobs are those of the MPI operator.
TRAINING_OPERATOR = Controller(
    "training-operator", "github.com/kubeflow/training-operator", "training-operator.v1",
    "manifests/overlays/standalone", "kubeflow", "training-operator", ("--enable-scheme=pytorchjob",),
    ("mpijobs.kubeflow.org",),
)  # fmt: skip
MPI_OPERATOR = Controller(
    "mpi-operator", "github.com/kubeflow/mpi-operator", "mpi-operator", "manifests/overlays/standalone",
    "mpi-operator", "mpi-operator",
)  # fmt: skip
KINDS = (JOB_SET, TRAINING_OPERATOR, MPI_OPERATOR)
"""The controllers of kinds that the job engine starts."""
