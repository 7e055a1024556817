"""Jobs of the Kubernetes API (batch/v1), and other workloads in the same form, with only the fields that we use."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from device_plugin.core.node_constraints import ANYWHERE, NodeConstraints
from device_plugin.core.pods import Pod
from device_plugin.core.workload_kinds import JOB, WorkloadKind

# Labels that Kubernetes' Job controller puts on the pods of a Job.
JOB_NAME, COMPLETION_INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
_NO_POD = Pod("", "", "")


@dataclass(frozen=True, slots=True)
class JobCondition:
    """A true condition of a Job: its type (`Suspended`, `Complete`, `Failed`), why it is true, and since when."""

    type: str
    reason: str = ""
    message: str = ""
    since: str = ""


@dataclass(frozen=True, slots=True)
class FailedCreation:
    """The Job controller's event that the API server refused a pod.

    `message` is the text of the event, and `at` the time when the event last occurred.
    """

    message: str
    at: str


@dataclass(frozen=True, slots=True)
class WorkloadPods:
    """`count` equal pods of a workload: a `template` pod, its node constraints `nodes`, and its priority class."""

    template: Pod
    nodes: NodeConstraints = ANYWHERE
    count: int = 1
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """A Job as the API server shows it, or another workload in the same form (`kind`).

    - `template` is a pod of the Job as the Job's spec describes it: without name and uid, and without the priority,
      which `priority_class` names. `nodes` are the constraints of this pod.
    - `completions` is None if any success ends the Job. `replacement` is its podReplacementPolicy (`Failed`,
      `TerminatingOrFailed`). `completed_indexes` is in Kubernetes' form, `0,2-4`; a long one is cut at a comma.
    - `owner` is the kind of the controller above the Job (`JobSet`). `started` is empty while the Job is suspended.
    - `labels` and `annotations` hold only keys of this project and of Kueue. `kept` is the text of the condition
      `vgpu.io/resize`, a copy of the Job's record (its latest change of width); `conditions` does not have it.

    A workload of another kind has its pods in `sets`. `parallelism` and `completions` are then both the number of its
    pods that ask for cards; if none asks, the number of all its pods. The counts of its status are 0. `pods_label` is
    the label, as `key=value`, by which its pods name the workload; empty while the label is not known. `together` is
    true if its controller creates all of its pods at once. `problem` says why the job engine cannot start the workload;
    empty if the engine can.
    """

    namespace: str
    name: str
    uid: str
    version: str = ""
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
    completed_indexes: str = ""
    conditions: tuple[JobCondition, ...] = ()
    kept: str = ""
    kind: WorkloadKind = JOB
    sets: tuple[WorkloadPods, ...] = ()
    pods_label: str = ""
    together: bool = False
    problem: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name; for a kind other than Job, the name begins with the kind: `jobset/train`."""
        return self.namespace, self.kind.prefix + self.name

    @property
    def width(self) -> int:
        """The number of pods that the Job's spec lets run at a time: its parallelism, but at most its completions."""
        return self.parallelism if self.completions is None else min(self.parallelism, self.completions)

    @property
    def ended(self) -> bool:
        """True once the Job is complete or has failed for good, and makes no more pods."""
        return self.end is not None

    @property
    def end(self) -> JobCondition | None:
        """The Job's true condition `Complete` or `Failed`, with its time; None while the Job has not ended."""
        return next((each for each in self.conditions if each.type in ("Complete", "Failed")), None)

    @property
    def failing(self) -> str:
        """A text with the number of failed pods; empty if no pod has failed.

        Also empty if all pods that should run are ready, and for a Job that is suspended or has ended.
        """
        due = self.width if self.completions is None else min(self.width, self.completions - self.succeeded)
        if not self.failed or self.suspend or self.ended or self.ready >= due:
            return ""
        limit = (
            "" if self.backoff_limit_per_index is not None else f" (its backoffLimit is {self.backoff_limit})"
        )
        return f"its pods fail: {self.failed} {'has' if self.failed == 1 else 'have'} failed{limit}"

    @property
    def suspension(self) -> tuple[JobCondition, ...]:
        """The Job's true condition `Suspended`, with its time, in a tuple; empty while the Job is not suspended."""
        return tuple(condition for condition in self.conditions if condition.type == "Suspended")
