"""The Jobs of queues and their records: which job each of them gives slices to, and which Job a pod belongs to.

A pod belongs to a Job if it is in its namespace and the Job, by UID, is its controller. Within a namespace an owner can
be made up; across namespaces it cannot.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf

from device_plugin.core.batch import QueuedJob
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.errors import AnnotationError
from device_plugin.core.jobs.job import JobKey
from device_plugin.core.pods import Pod
from device_plugin.state.faults import Fault, Faults

# Seconds that a promise lasts at most, whatever its record says: a checkpoint may take an hour.
MOST_SECONDS = 7200.0


@dataclass(slots=True)
class Giver:
    """A Job of a queue. `record` has no grants: these are read again from its `text` when they are needed.

    `until` is when the record ends, on the view's clock. `leaving` are the pods, by UID, whose slices it promises now.
    """

    job: QueuedJob
    text: str = ""
    record: Resize | None = None
    until: float = -inf
    leaving: set[str] = field(default_factory=set)

    @property
    def key(self) -> JobKey:
        """Namespace and name."""
        return self.job.namespace, self.job.name

    @property
    def beneficiary(self) -> JobKey | None:
        """The job that the record names."""
        return self.record.beneficiary if self.record is not None else None


class ResizeRecords:
    """All Jobs of queues. Callers hold the view's lock.

    `clock` is that of the view, `wall` returns the seconds since 1970.
    """

    def __init__(self, faults: Faults, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._faults = faults
        self._clock = clock
        self._wall = wall
        self._jobs: dict[str, Giver] = {}
        self._uids: dict[JobKey, str] = {}
        # The UIDs of the Jobs whose records name a job.
        self._naming: dict[JobKey, set[str]] = {}
        # The UIDs of the Jobs that have a record of a shrink which was not carried out yet.
        self._shrinking: set[str] = set()

    def all(self) -> Sequence[Giver]:
        """All Jobs."""
        return list(self._jobs.values())

    def get(self, uid: str) -> Giver | None:
        """The Job of this UID."""
        return self._jobs.get(uid)

    def see(self, job: QueuedJob) -> Sequence[Giver]:
        """Take news of a Job; returns the Jobs whose records mean something else now."""
        known, text = self._jobs.get(job.uid), job.record
        job = replace(job, record="")
        if known is not None and (known.job, known.text) == (job, text):
            return ()
        regrouped = known is None or known.job != job
        giver = known or Giver(job)
        giver.job = job
        self._jobs[job.uid] = giver
        self._uids[giver.key] = job.uid
        if giver.text != text:
            self._read(giver, text)
        return [giver, *(self._named_by(giver.key) if regrouped else ())]

    def forget(self, uid: str) -> Sequence[Giver]:
        """Remove a Job; returns the Jobs whose records mean something else now."""
        giver = self._jobs.pop(uid, None)
        if giver is None:
            return ()
        self._read(giver, "")
        if self._uids.get(giver.key) == uid:
            del self._uids[giver.key]
        return [giver, *self._named_by(giver.key)]

    def taker(self, giver: Giver) -> str:
        """The name of the beneficiary of a record that shrinks its Job and has not ended; else empty."""
        record, key = giver.record, giver.beneficiary
        if record is None or key is None or key == giver.key or not record.shrinks:
            return ""
        uid = self._uids.get(key)
        return beneficiary(self._jobs[uid].job) if uid is not None and giver.until > self._clock() else ""

    def shrinking(self) -> Set[str]:
        """The UIDs of the Jobs that are to shrink, as long as their records last."""
        now = self._clock()
        return {uid for uid in self._shrinking if self._jobs[uid].until > now}

    def grants(self, giver: Giver) -> Sequence[Grant]:
        """The grants that the record names. A record whose grants cannot be read is dropped, and has none."""
        try:
            return Resize.decode(giver.text).grants
        except AnnotationError as error:
            self._put(giver, None, str(error))
            return ()

    def asked(self, giver: Giver) -> str:
        """The time at which a change was decided, as the API server writes times; empty without a record."""
        return api_time(giver.record.asked) if giver.record is not None else ""

    def beneficiary_of(self, pod: Pod) -> str:
        """The name of what promises to the pod's Job are kept for; empty if it belongs to no Job of a queue."""
        job = self.job_of(pod)
        return beneficiary(job) if job is not None else ""

    def job_of(self, pod: Pod) -> QueuedJob | None:
        """The Job of a queue that the pod belongs to."""
        giver = self._jobs.get(pod.owner_uid) if pod.owner == "Job" else None
        return giver.job if giver is not None and giver.job.namespace == pod.namespace else None

    def fault(self, giver: Giver, text: str) -> None:
        """Record what is wrong with a record; nothing if `text` is empty."""
        if text:
            self._faults.put(giver.job.uid, Fault("resize", "/".join(giver.key), text))
        else:
            self._faults.clear("resize", giver.job.uid)

    def _named_by(self, key: JobKey) -> Sequence[Giver]:
        return [self._jobs[uid] for uid in self._naming.get(key, ())]

    def _read(self, giver: Giver, text: str) -> None:
        giver.text = text
        try:
            self._put(giver, Resize.decode(text, grants=False) if text else None)
        except AnnotationError as error:
            self._put(giver, None, str(error))

    def _put(self, giver: Giver, record: Resize | None, fault: str = "") -> None:
        before, giver.record = giver.beneficiary, record
        self.fault(giver, fault)
        if before is not None and before != giver.beneficiary:
            self._naming[before].discard(giver.job.uid)
            if not self._naming[before]:
                del self._naming[before]
        if giver.beneficiary is not None:
            self._naming.setdefault(giver.beneficiary, set()).add(giver.job.uid)
        self._shrinking.discard(giver.job.uid)
        if giver.record is not None:
            if giver.record.shrinks and not giver.record.applied:
                self._shrinking.add(giver.job.uid)
            left = giver.record.until - self._wall()
            giver.until = self._clock() + min(max(0.0, left), MOST_SECONDS)


def beneficiary(job: QueuedJob) -> str:
    """The name of what a promise to this Job is kept for: its group, whose pods start together, or the Job alone."""
    return f"group {job.namespace}/{job.group}" if job.group else f"job {job.namespace}/{job.name}"
