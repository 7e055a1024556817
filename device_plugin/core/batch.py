"""Jobs of the Kubernetes API (batch/v1), with only the fields that this project uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from device_plugin.core.contract.annotations import GROUP, RESIZE
from device_plugin.core.node_constraints import ANYWHERE, NodeConstraints
from device_plugin.core.pods import Pod

# Labels that Kubernetes' Job controller puts on the pods of a Job.
JOB_NAME, COMPLETION_INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
_NO_POD = Pod("", "", "")


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """The metadata of a Job with the label `vgpu.io/queue`: `group` and `record` are empty where there are none.

    `record` is the text of its annotation `vgpu.io/resize`.
    """

    namespace: str
    name: str
    uid: str
    group: str = ""
    record: str = ""


@dataclass(frozen=True, slots=True)
class JobCondition:
    """A condition of a Job that is true: its type (`Suspended`, `Complete`, `Failed`), why, and since when."""

    type: str
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class FailedCreation:
    """An event of the Job controller: the API server did not accept a pod. `at` is when that happened last."""

    message: str
    at: str


@dataclass(frozen=True, slots=True)
class Job:
    """A Job as the API server shows it.

    `template` is a pod that the Job makes: its name and uid are empty, and its priority is still that of
    `priority_class`; `nodes` says where it may go. `completions` is None where any success ends the Job. `replacement`
    is its podReplacementPolicy (`Failed`, `TerminatingOrFailed`). `uncounted` are pods that ended and are not in
    `succeeded` and `failed` yet. `completed_indexes` and `failed_indexes` are in Kubernetes' form, `0,2-4`; a long one
    is cut at a comma. `owner` is the kind of the controller above the Job (`JobSet`). `started` is empty while the Job
    is suspended. `labels` and `annotations` hold only those of this project and of Kueue. `kept` is the text of the
    condition `vgpu.io/resize`, in which the job engine keeps what the Job has had; it is not among `conditions`.
    """

    namespace: str
    name: str
    uid: str
    version: str = ""
    generation: int = 0
    created: str = ""
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owner: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    suspend: bool = False
    parallelism: int = 1
    completions: int | None = None
    indexed: bool = False
    replacement: str = ""
    backoff_limit: int = 6
    backoff_limit_per_index: int | None = None
    success_policy: bool = False
    managed_by: str = ""
    restart_policy: str = ""
    grace_seconds: int = 30
    priority_class: str = ""
    template: Pod = _NO_POD
    nodes: NodeConstraints = ANYWHERE
    started: str = ""
    active: int = 0
    ready: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    uncounted: int = 0
    completed_indexes: str = ""
    failed_indexes: str = ""
    conditions: tuple[JobCondition, ...] = ()
    kept: str = ""

    @property
    def queued(self) -> QueuedJob:
        """The metadata that promises depend on."""
        return QueuedJob(
            self.namespace, self.name, self.uid, self.labels.get(GROUP, ""), self.annotations.get(RESIZE, "")
        )

    @property
    def width(self) -> int:
        """The pods that run at a time as the Job is written: no more than there are successes to wait for."""
        return self.parallelism if self.completions is None else min(self.parallelism, self.completions)

    @property
    def ended(self) -> bool:
        """True once the Job is complete or has failed for good, and makes no more pods."""
        return any(condition.type in ("Complete", "Failed") for condition in self.conditions)

    @property
    def suspension(self) -> tuple[JobCondition, ...]:
        """The condition that says since when the Job is suspended; empty while it is not."""
        return tuple(condition for condition in self.conditions if condition.type == "Suspended")
