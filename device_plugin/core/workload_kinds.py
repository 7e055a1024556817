"""The kinds of objects that the job engine starts by their field `suspend`, as one table.

The fields, labels and conditions are those of the kinds' own API references: batch/v1, JobSet v1alpha2, KubeRay v1,
Kubeflow's training operator v1, MPI operator v2beta1 and Trainer v1alpha1.
"""

from dataclasses import dataclass
from typing import Any

# Labels by which controllers name, on a pod, the workload that it belongs to.
JOB_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"
RAY_LABEL = "ray.io/cluster"
TRAINING_LABEL = "training.kubeflow.org/job-name"
POD_LABELS = (JOB_SET_LABEL, RAY_LABEL, TRAINING_LABEL)


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A kind of object with a field `suspend`, which its controller obeys.

    `suspend` is the path of that field below `spec`. `pod_label` is the label by which the pods name the object; it is
    empty for Jobs, whose pods name their owner. `complete` and `failed` are the types of the conditions that an object
    has after its end.
    """

    group: str
    version: str
    plural: str
    name: str
    suspend: tuple[str, ...] = ("suspend",)
    pod_label: str = ""
    complete: str = "Complete"
    failed: str = "Failed"

    @property
    def prefix(self) -> str:
        """The word before the name of an object in texts, `jobset/`; empty for Jobs."""
        return f"{self.name.lower()}/" if self.pod_label else ""

    @property
    def resource(self) -> str:
        """The word by which kubectl knows the kind: `job`, or `jobsets.jobset.x-k8s.io`."""
        return f"{self.plural}.{self.group}" if self.pod_label else self.name.lower()

    def suspension(self, *, suspend: bool) -> dict[str, Any]:
        """The spec with the field `suspend` alone, for a merge patch."""
        spec: Any = suspend
        for field in reversed(self.suspend):
            spec = {field: spec}
        return dict(spec)


JOB = WorkloadKind("batch", "v1", "jobs", "Job")
JOB_SET = WorkloadKind(
    "jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", pod_label=JOB_SET_LABEL, complete="Completed"
)
RAY_JOB = WorkloadKind("ray.io", "v1", "rayjobs", "RayJob", pod_label=RAY_LABEL)
RAY_CLUSTER = WorkloadKind("ray.io", "v1", "rayclusters", "RayCluster", pod_label=RAY_LABEL)
# The pods of a TrainJob are those of a JobSet of its name.
TRAIN_JOB = WorkloadKind("trainer.kubeflow.org", "v1alpha1", "trainjobs", "TrainJob", pod_label=JOB_SET_LABEL)
_RUN_POLICY = ("runPolicy", "suspend")
PYTORCH_JOB = WorkloadKind(
    "kubeflow.org", "v1", "pytorchjobs", "PyTorchJob", _RUN_POLICY, TRAINING_LABEL, "Succeeded"
)
MPI_JOB = WorkloadKind(
    "kubeflow.org", "v2beta1", "mpijobs", "MPIJob", _RUN_POLICY, TRAINING_LABEL, "Succeeded"
)
# The same kind as the training operator installs it, where the MPI operator is not installed.
MPI_JOB_V1 = WorkloadKind("kubeflow.org", "v1", "mpijobs", "MPIJob", _RUN_POLICY, TRAINING_LABEL, "Succeeded")
WORKLOAD_KINDS = (JOB_SET, RAY_JOB, RAY_CLUSTER, TRAIN_JOB, PYTORCH_JOB, MPI_JOB, MPI_JOB_V1)
"""The kinds other than Job that the engine starts where they are installed."""
MAKERS = ("RayJob", "RayService", "TrainJob")
"""The kinds whose controllers make objects of WORKLOAD_KINDS: such an object starts with its owner, not by a queue."""
