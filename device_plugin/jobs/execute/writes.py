"""Writes: one patch of one object each. This module fixes what they say; whether they are sent is decided elsewhere.

Every patch of a Job carries the version of the Job that it was decided on, so the API server refuses it if anybody has
written since. Completions and parallelism always change in one patch: with parallelism alone the Job controller would
delete the lowest indexes, and index 0 holds the rendezvous of elastic programs.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from device_plugin.core.contract.annotations import CHECKPOINT, MAX_INT, POOL, RESIZE
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.job import JobKey
from device_plugin.kube.api import JOBS, PODS, Kind, Named, Object
from device_plugin.state.managed import Managed

# Seconds in which the pods of a job that was started or widened are expected to be bound.
JOIN_SECONDS = 60.0


class Action(Enum):
    """The effects of a write."""

    RECORD = "record"
    """Announces a change, before anything of it is done."""
    ASK = "ask"
    """Asks the pod of index 0 for a checkpoint."""
    WIDTH = "width"
    """Carries a change of the width out, with its record."""
    STOP = "stop"
    """Suspends a Job, with its record."""
    START = "start"
    """Lets a suspended Job run, with the record that keeps its cards until its pods are bound."""
    WINDOW = "window"
    """Sets the number of sub-tasks that run at a time, with the record that keeps their cards."""
    DROP = "drop"
    """Ends a record that is void or would help nobody; it stays without a promise, for its `gen`."""
    KEEP = "keep"
    """Writes a record where it was removed, and what of it decides the Job's turns later into the Job's status."""
    POOL = "pool"
    """Gives a Job that waits to a pool."""


@dataclass(frozen=True, slots=True)
class Write:
    """One patch about a Job. `record` is the record that it leaves on the Job; None where it leaves the old one.

    `width` is the parallelism that it sets, None where it leaves the width as it is. In a request for a checkpoint,
    `record.asked` is the time of the request. `pool` is the pool that it gives the Job to, empty where it leaves the
    pool as it is.
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
        """The kind of the object that is patched."""
        return PODS if self.action is Action.ASK else JOBS

    @property
    def subresource(self) -> str:
        """The subresource that is patched: by its status only annotations of a pod can be changed, and no image."""
        return "status" if self.action is Action.ASK or self.keeps else ""

    @property
    def keeps(self) -> bool:
        """True if the past of the record is written into the Job's status.

        A change is announced there before it is carried out: so whatever its author removes, and whether an engine sees
        it or not, the Job's turns are those of a Job of which nothing was removed.
        """
        return self.action in (Action.RECORD, Action.KEEP)

    @property
    def of(self) -> Named:
        """The object that is patched."""
        if self.action is not Action.ASK:
            return self.managed.job
        return next(pod for pod in self.managed.pods if pod.index == 0)

    @property
    def frees(self) -> Resize | None:
        """The record of the change by which replicas leave; None of another write."""
        record = self.record
        leaves = self.action in (Action.RECORD, Action.WIDTH, Action.STOP)
        return record if leaves and record is not None and record.shrinks else None

    @property
    def added(self) -> int:
        """The number of replicas of the Job for which there must be room."""
        job, record = self.managed.job, self.record
        if self.action is Action.START:
            return self.width or job.width
        if self.action is Action.RECORD and record is not None:
            return max(0, record.after - record.before)
        if self.action in (Action.WIDTH, Action.WINDOW) and self.width is not None:
            return max(0, self.width - job.width)
        return 0

    @property
    def body(self) -> Object:
        """The merge patch; if the write `keeps`, conditions are merged by their types."""
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
            spec["suspend"] = self.action is Action.STOP
        if self.action is Action.START and self.managed.pin:
            # As long as a Job is suspended, where its pods may go can be changed.
            spec["template"] = {"spec": {"nodeSelector": dict([self.managed.pin])}}
        if self.width is not None:
            spec["parallelism"] = self.width
            if not self.managed.spec.parts:
                spec["completions"] = self.width
        return spec

    def _request(self, record: Resize) -> str:
        managed = self.managed
        # An old count would make a checkpoint that was saved before the request look like the answer to it. None is
        # more than MAX_INT: then the whole time is given.
        saved = managed.saved if managed.received_since(record.asked) else MAX_INT
        until = min(record.asked + managed.spec.checkpoint_seconds, answer_by(record))
        return Checkpoint(record.gen, int(until), saved).encode()


def _kept(record: Resize) -> Object:
    """The condition that keeps the past of a record."""
    return {"type": RESIZE, "status": "True", "reason": "Kept", "message": record.past.encode()}


def answer_by(record: Resize) -> float:
    """The time until which a request for a checkpoint is waited for at most, whatever a tenant writes on his pod."""
    return record.until - JOIN_SECONDS
