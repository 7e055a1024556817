"""Writes: one patch of one object each. This module makes the patches; the executor decides on them.

Every patch of a Job carries the version of the Job that was decided on, so the API server refuses the patch if anybody
has written since. Completions and parallelism always change in one patch: with parallelism alone the Job controller
would delete the lowest indexes, and index 0 holds the rendezvous of elastic programs.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import CHECKPOINT, MAX_INT, POOL, RESIZE
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.workload_kinds import JOB
from device_plugin.kube.api import PODS, WORKLOADS, Kind, Named, Object
from device_plugin.state.managed import Managed

# Seconds within which the pods of a started or widened job are expected to be bound.
JOIN_SECONDS = 60.0


class Action(Enum):
    """The kinds of writes, by their effect on a Job."""

    RECORD = "record"
    """Writes the record of a change, before the Job itself changes."""
    ASK = "ask"
    """Asks the pod of index 0 for a checkpoint."""
    WIDTH = "width"
    """Sets the width that the record announced, and the new record."""
    STOP = "stop"
    """Suspends a Job, and sets the new record."""
    START = "start"
    """Lets a suspended Job run; the new record keeps cards for the Job until its pods are bound."""
    WINDOW = "window"
    """Sets the number of a split's sub-tasks that run at a time; the new record keeps their cards."""
    DROP = "drop"
    """Ends a record that is void or helps no job. The record stays, so that its `gen` is not used again."""
    KEEP = "keep"
    """Restores a record that was removed, and copies what later turns depend on into the Job's status."""
    POOL = "pool"
    """Assigns a waiting Job to a pool."""


@dataclass(frozen=True, slots=True)
class Write:
    """One patch of a Job, or of its pod of index 0.

    `record` is the Job's new record, None to keep the old one. `width` is the new parallelism, None to keep it. `pool`
    is the Job's new pool, empty to keep it. In a request for a checkpoint, `record.asked` is the time of the request.
    """

    action: Action
    managed: Managed
    record: Resize | None = None
    width: int | None = None
    pool: str = ""

    @property
    def key(self) -> JobKey:
        """Namespace and name of the Job."""
        return self.managed.key

    @property
    def kind(self) -> Kind[Any]:
        """The kind of the object that is patched: pods for a request for a checkpoint, else the Job's kind."""
        return PODS if self.action is Action.ASK else WORKLOADS[self.managed.job.kind]

    @property
    def subresource(self) -> str:
        """The subresource that is patched: `status` for a pod or if `keeps` is true; else empty.

        A patch of a pod's status cannot change the pod's image.
        """
        return "status" if self.action is Action.ASK or self.keeps else ""

    @property
    def keeps(self) -> bool:
        """True if the write also copies the record (the Job's change) into the Job's status, before the change is made.

        The Job's author can remove the annotation but not the copy, so he cannot change when the Job gets and gives
        cards. Other kinds than Job have no copy: their controllers own the status, and admission keeps the annotation.
        """
        return self.action in (Action.RECORD, Action.KEEP) and self.managed.job.kind is JOB

    @property
    def of(self) -> Named:
        """The object that is patched: the Job, or its pod of index 0 for a request for a checkpoint."""
        if self.action is not Action.ASK:
            return self.managed.job
        return next(pod for pod in self.managed.pods if pod.index == 0)

    @property
    def frees(self) -> Resize | None:
        """The write's record if the write announces or carries out a shrink or stop; else None."""
        record = self.record
        leaves = self.action in (Action.RECORD, Action.WIDTH, Action.STOP)
        return record if leaves and record is not None and record.shrinks else None

    @property
    def added(self) -> int:
        """The number of replicas that the write adds to the Job, which need room."""
        job, record = self.managed.job, self.record
        if self.action is Action.START:
            return self.width or job.width
        if self.action is Action.RECORD and record is not None:
            return max(0, record.after - record.before)
        if self.action in (Action.WIDTH, Action.WINDOW) and self.width is not None:
            return max(0, self.width - job.width)
        return 0

    def shown_by(self, job: Job) -> bool:
        """True if the Job has the record that the write carries, and so shows that the write was done.

        False for a write without a record, and for a write to a pod.
        """
        if self.kind is PODS or self.record is None:
            return False
        return job.annotations.get(RESIZE) == self.record.encode()

    @property
    def body(self) -> Object:
        """The merge patch: the new annotations and spec, and the record's copy in the status if `keeps` is true."""
        metadata: dict[str, object] = {}
        if self.action is not Action.ASK:
            metadata["resourceVersion"] = self.managed.job.version
        if self.record is not None:
            asks = self.action is Action.ASK
            key, text = (CHECKPOINT, self._request(self.record)) if asks else (RESIZE, self.record.encode())
            metadata["annotations"] = {key: text}
        elif self.pool:
            metadata["annotations"] = {POOL: self.pool}
        spec = self._spec()
        kept = {"status": {"conditions": [_kept(self.record)]}} if self.keeps and self.record else {}
        return {"metadata": metadata, **({"spec": spec} if spec else {}), **kept}

    def _spec(self) -> dict[str, object]:
        spec: dict[str, object] = {}
        if self.action in (Action.START, Action.STOP):
            spec = self.managed.job.kind.suspension(suspend=self.action is Action.STOP)
        if self.managed.job.kind is not JOB:
            return spec
        if self.action is Action.START and self.managed.pin:
            # Kubernetes allows a change of the node selector only while a Job is suspended.
            spec["template"] = {"spec": {"nodeSelector": dict([self.managed.pin])}}
        if self.width is not None:
            spec["parallelism"] = self.width
            if not self.managed.spec.parts:
                spec["completions"] = self.width
        return spec

    def _request(self, record: Resize) -> str:
        managed = self.managed
        # With an old count, a checkpoint saved before the request would count as its answer. No count is greater than
        # MAX_INT: then the request has no answer, and the program gets the whole time.
        saved = managed.saved if managed.received_since(record.asked) else MAX_INT
        until = min(record.asked + managed.spec.checkpoint_seconds, answer_by(record))
        return Checkpoint(record.gen, int(until), saved).encode()


def _kept(record: Resize) -> Object:
    """A condition for the Job's status, with a copy of the facts in the record that decide the Job's later turns.

    A turn is the time in which the Job keeps its cards.
    """
    return {"type": RESIZE, "status": "True", "reason": "Kept", "message": record.past.encode()}


def answer_by(record: Resize) -> float:
    """The latest time until which the engine waits for a checkpoint, whatever later time a tenant writes on his pod."""
    return record.until - JOIN_SECONDS
