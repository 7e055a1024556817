"""The records of Jobs, and the Job of each pod.

A record is the annotation `vgpu.io/resize`: a Job's latest change of width, and the job that gets the slices which it
gives up. A pod belongs to a Job in its namespace if the Job, by UID, is the pod's controller. It belongs to another
workload, such as a JobSet, if it has the label by which that workload's controller names it. Anyone who may write pods
in a namespace can name a Job there as their owner, and write that label, but can name no Job of another namespace.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from device_plugin.core.contract.annotations import GROUP, RESIZE
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.errors import AnnotationError
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Named
from device_plugin.state.faults import Fault, Faults

# Seconds that a promise lasts at most, whatever its record says: a checkpoint may take an hour.
MOST_SECONDS = 7200.0


class QueuedJob(Named, Protocol):
    """A Job with the queue label: only its metadata, or the whole Job if the process has read it."""

    @property
    def key(self) -> JobKey:
        """Namespace and name; for a kind other than Job, the name begins with the kind: `jobset/train`."""

    @property
    def pods_label(self) -> str:
        """The label, as `key=value`, by which pods name the object; empty if pods name the object as their owner."""

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels of the object that belong to this project."""

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations that this project reads, such as `vgpu.io/resize`."""


@dataclass(slots=True)
class JobRecord:
    """The record (latest change of width) of one Job with the queue label; of the Job itself only its names are kept.

    `own` is the name under which slices are kept for this Job or its group. `resize` is the decoded `text` without its
    grants, which are decoded again when they are needed; None if the Job has no sound record. `until` is the end of the
    record, on the cluster view's clock. `leaving` holds the UIDs of the Job's pods whose slices are promised now.
    """

    key: JobKey
    uid: str
    own: str
    text: str = ""
    resize: Resize | None = None
    until: float = -inf
    leaving: set[str] = field(default_factory=set)
    pods_label: str = ""

    @property
    def beneficiary(self) -> JobKey | None:
        """Namespace and name of the job that gets the slices of the recorded change; None if it gives no slices."""
        return self.resize.beneficiary if self.resize is not None else None


class JobRecords:
    """Holds the record (latest change of width) of each Job with the queue label. Callers hold the cluster view's lock.

    `clock` is the cluster view's clock, `wall` returns the seconds since 1970.
    """

    def __init__(self, faults: Faults, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._faults = faults
        self._clock = clock
        self._wall = wall
        self._records: dict[str, JobRecord] = {}
        self._uids: dict[JobKey, str] = {}
        # By namespace and the label of its pods: the UIDs of workloads other than Jobs.
        self._labelled: dict[tuple[str, str], str] = {}
        # By beneficiary: the UIDs of the Jobs whose records name it.
        self._naming: dict[JobKey, set[str]] = {}
        # The UIDs of the Jobs whose record is of a shrink that was not carried out yet.
        self._shrinking: set[str] = set()

    def all(self) -> Sequence[JobRecord]:
        """The records (latest changes of width) of all Jobs."""
        return list(self._records.values())

    def get(self, uid: str) -> JobRecord | None:
        """The record (latest change of width) of the Job with this UID; None if the Job is not known."""
        return self._records.get(uid)

    def see(self, job: QueuedJob) -> Sequence[JobRecord]:
        """Record a Job's new version; returns the records of Jobs that may have another meaning now.

        If the Job's record, name, group or label has changed, its own record is returned. If its name or group has
        changed, so are the records that name the Job as the beneficiary, the job that gets their slices.
        """
        known, text = self._records.get(job.uid), job.annotations.get(RESIZE, "")
        key, own, label = job.key, beneficiary(job), job.pods_label
        if known is not None and known.pods_label != label:
            self._unlabel(known)
        if known is not None and (known.key, known.own, known.text, known.pods_label) == (
            key, own, text, label,
        ):  # fmt: skip
            return ()
        regrouped = known is None or (known.key, known.own) != (key, own)
        record = known or JobRecord(key, job.uid, own)
        record.key, record.own, record.pods_label = key, own, label
        self._records[job.uid] = record
        if label:
            self._labelled[key[0], label] = job.uid
        self._uids[key] = job.uid
        if record.text != text:
            self._read(record, text)
        return [record, *(self._named_by(key) if regrouped else ())]

    def forget(self, uid: str) -> Sequence[JobRecord]:
        """Remove a Job; returns the records of Jobs that have another meaning now.

        These are the Job's own record, and the records that name the Job as the beneficiary, the job that gets their
        slices.
        """
        record = self._records.pop(uid, None)
        if record is None:
            return ()
        self._unlabel(record)
        self._read(record, "")
        if self._uids.get(record.key) == uid:
            del self._uids[record.key]
        return [record, *self._named_by(record.key)]

    def taker(self, record: JobRecord) -> str:
        """The name of the job or group that gets the slices which the Job of this record gives up.

        Empty if the record gives up no slices, if it has ended, or if the job that gets them is not known.
        """
        resize, key = record.resize, record.beneficiary
        if resize is None or key is None or key == record.key or not resize.shrinks:
            return ""
        uid = self._uids.get(key)
        return self._records[uid].own if uid is not None and record.until > self._clock() else ""

    def shrinking(self) -> Set[str]:
        """The UIDs of the Jobs whose record announces a smaller width, not reached yet; ended records do not count."""
        now = self._clock()
        return {uid for uid in self._shrinking if self._records[uid].until > now}

    def grants(self, record: JobRecord) -> Sequence[Grant]:
        """The grants of leaving pods in a Job's record; none if they are malformed, which is recorded as a fault."""
        try:
            return Resize.decode(record.text).grants
        except AnnotationError as error:
            self._put(record, None, str(error))
            return ()

    def asked(self, record: JobRecord) -> str:
        """The time of the decision in the Job's record, as the API server writes times; empty without a decision."""
        return api_time(record.resize.asked) if record.resize is not None else ""

    def beneficiary_of(self, pod: Pod) -> str:
        """The name under which slices are kept for the pod's Job or its group; empty if the pod is of no queued Job."""
        record = self.of(pod)
        return record.own if record is not None else ""

    def of(self, pod: Pod) -> JobRecord | None:
        """The record (latest change of width) of the pod's queued Job; None if the pod belongs to no queued Job."""
        record = self._records.get(pod.owner_uid) if pod.owner == "Job" else None
        if record is None and pod.workload:
            record = self._records.get(self._labelled.get((pod.namespace, pod.workload), ""))
        return record if record is not None and record.key[0] == pod.namespace else None

    def fault(self, record: JobRecord, text: str) -> None:
        """Set the fault of a Job's record, which people see; an empty `text` clears it."""
        if text:
            self._faults.put(record.uid, Fault("resize", "/".join(record.key), text))
        else:
            self._faults.clear("resize", record.uid)

    def _unlabel(self, record: JobRecord) -> None:
        """Remove from the index the label by which the pods of this record's Job name the Job."""
        if self._labelled.get((record.key[0], record.pods_label)) == record.uid:
            del self._labelled[record.key[0], record.pods_label]

    def _named_by(self, key: JobKey) -> Sequence[JobRecord]:
        return [self._records[uid] for uid in self._naming.get(key, ())]

    def _read(self, record: JobRecord, text: str) -> None:
        record.text = text
        try:
            self._put(record, Resize.decode(text, grants=False) if text else None)
        except AnnotationError as error:
            self._put(record, None, str(error))

    def _put(self, record: JobRecord, resize: Resize | None, fault: str = "") -> None:
        before, record.resize = record.beneficiary, resize
        self.fault(record, fault)
        if before is not None and before != record.beneficiary:
            self._naming[before].discard(record.uid)
            if not self._naming[before]:
                del self._naming[before]
        if record.beneficiary is not None:
            self._naming.setdefault(record.beneficiary, set()).add(record.uid)
        self._shrinking.discard(record.uid)
        if resize is not None:
            if resize.shrinks and not resize.applied:
                self._shrinking.add(record.uid)
            left = resize.until - self._wall()
            record.until = self._clock() + min(max(0.0, left), MOST_SECONDS)


def beneficiary(job: QueuedJob) -> str:
    """The name under which slices are kept for a Job: its group, whose pods start together, or else the Job itself."""
    group = job.labels.get(GROUP, "")
    return f"group {job.namespace}/{group}" if group else f"job {'/'.join(job.key)}"
