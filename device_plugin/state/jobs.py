"""The Jobs of queues and their pods, from watch events, lists, reads and the answers to our own writes, in any order.

A Job only moves forward: news with an older version than what is known changes nothing, so that the watch cannot take
back what the answer to a write has shown. Each Job is read into its JobSpec and its record when it is seen, not in each
round.

Nor does its record go back: where its author has removed it, the last known record counts, or the copy that the engine
keeps in the Job's status.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import CHECKPOINT, MAX_INT, QUEUE, RESIZE
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.resize import Resize
from device_plugin.core.errors import AnnotationError, RequestError
from device_plugin.core.jobs.history import Histories
from device_plugin.core.jobs.job import JobKey, JobSpec
from device_plugin.core.jobs.progress import ContainerName, ProgressReport, by_pod
from device_plugin.core.jobs.rules import STRANDED_S
from device_plugin.core.pods import Pod
from device_plugin.state.creations import refusal
from device_plugin.state.job_pods import JobPods
from device_plugin.state.managed import Managed, planned

# Jobs that are gone are remembered for as long as a late answer could bring one back.
GONE_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class _Read:
    """A Job as it was read: its spec or what is wrong with it, its record, and the past that its status has of one.

    The record is `lost` if the Job does not have it any more.
    """

    job: Job
    spec: JobSpec | None
    problem: str = ""
    record: Resize | None = None
    past: Resize | None = None
    lost: bool = False

    def planned_like(self, other: "_Read") -> bool:
        """True if the two versions of a Job are equal in all that a plan depends on."""
        if self.spec is None or other.spec is None:
            return self.spec is other.spec
        own, others = (self.spec, self.record, self.lost), (other.spec, other.record, other.lost)
        return own == others and planned(self.job) == planned(other.job)


@dataclass(frozen=True, slots=True)
class _Received:
    """The progress and checkpoints that the programs of a pod reported, and when, in seconds since 1970."""

    report: ProgressReport
    at: float


_SILENT = _Received(ProgressReport(), -inf)


class KnownJobs:
    """Safe from any thread. `read` gives what a Job's author asks for, and raises RequestError if it is malformed.

    `stranded_seconds` is that of each Managed.
    """

    def __init__(self, read: Callable[[Job], JobSpec | None], stranded_seconds: float = STRANDED_S) -> None:
        self._read = read
        self._stranded_seconds = stranded_seconds
        self._lock = threading.Lock()
        self._jobs: dict[str, _Read] = {}
        self._received: dict[str, _Received] = {}
        self.pods = JobPods(self._lock, self._on_pods)
        """The pods of Jobs."""
        self._histories = Histories()
        self._gone: dict[str, None] = {}
        # The Jobs whose next version counts though its number is lower: etcd was restored.
        self._doubted: set[str] = set()
        self._rigid: dict[str, str] = {}
        self._listed = False
        self.changes = 0
        """Grows with every change that a plan depends on."""
        self.unplanned = 0
        """Grows with every newer version of a Job that no plan depends on; a write needs the newest version."""

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        listed = {"jobs": self._listed, "pods of jobs": self.pods.listed}
        absent = " and ".join(what for what, known in listed.items() if not known)
        return f"{absent} were not listed yet" if absent else ""

    # Jobs

    def see(self, job: Job) -> None:
        """Take a newer version of a Job; one without a queue is forgotten."""
        if QUEUE not in job.labels:
            self.gone(job.uid)
            return
        with self._lock:
            known = self._jobs.get(job.uid)
            doubted = job.uid in self._doubted
            self._doubted.discard(job.uid)
            if job.uid in self._gone or not (known is None or doubted or _newer(job, known.job)):
                return
            read = self._jobs[job.uid] = self._made(job, known)
            if known is not None and read.planned_like(known):
                self.unplanned += 1
            else:
                self.changes += 1

    def forget(self, job: Job) -> None:
        """The watch shows that the Job is gone."""
        self.gone(job.uid)

    def gone(self, uid: str) -> None:
        """The Job is gone, or has left its queue."""
        with self._lock:
            self._rigid.pop(uid, None)
            self._doubted.discard(uid)
            self._histories.forget(uid)
            if self._jobs.pop(uid, None) is None:
                return
            self._gone[uid] = None
            if len(self._gone) > GONE_REMEMBERED:
                del self._gone[next(iter(self._gone))]
            self.changes += 1

    def sync(self, jobs: Iterable[Job]) -> None:
        """Take a list of all Jobs that have a queue."""
        listed = set()
        for job in jobs:
            listed.add(job.uid)
            self.see(job)
        for uid in self._jobs.keys() - listed:
            self.gone(uid)
        self._listed = True

    def doubt(self) -> None:
        """Let the next version of each Job count, whatever its number: etcd was restored, and a list follows."""
        with self._lock:
            self._doubted = set(self._jobs)
            self._gone.clear()

    def read_again(self) -> None:
        """Read all Jobs again, because what they are read with has changed."""
        with self._lock:
            self._jobs = {uid: self._made(read.job, read) for uid, read in self._jobs.items()}
            self.changes += 1

    def keep_width(self, uid: str, why: str) -> None:
        """The width of a Job stays as it is from now on, because the API server refuses to change it."""
        with self._lock:
            self._rigid[uid] = refusal(why)
            self.changes += 1

    # The reports of programs

    def on(self, node: str) -> bool:
        """True if progress is read from the node: the pod of index 0 of a queued Job is bound to it."""
        return any(pod.index == 0 and self._job_of(pod) is not None for pod in self.pods.on(node).values())

    def receive(self, node: str, told: Mapping[ContainerName, ProgressReport], now: float) -> None:
        """Take the reports of a node's agent, read at `now`, in seconds since 1970; only those of pods there count."""
        with self._lock:
            pods = self.pods.on(node)
            for name, said in by_pod(told, pods).items():
                pod = pods[name]
                if self._awaited(pod, said):
                    self.changes += 1
                self._received[pod.uid] = _Received(said, now)
                read = self._job_of(pod)
                if pod.index == 0 and read is not None and read.spec is not None and not read.spec.parts:
                    self._histories.add(read.job.uid, now, self._width(read.job), said.progress)

    def _width(self, job: Job) -> int:
        """The width of a Job all of whose pods run, else 0."""
        pods = self.pods.of(job)
        run = sum(pod.phase == "Running" and not pod.deleting for pod in pods)
        return run if run == len(pods) == job.width and not job.suspend else 0

    def _awaited(self, pod: Pod, told: ProgressReport) -> bool:
        """True if a request for a checkpoint waits for this: for its answer, or for the count before it is sent."""
        read = self._job_of(pod)
        if read is None or read.record is None or read.record.applied or pod.index != 0:
            return False
        asked = _checkpoint([pod])
        if asked is None or asked.gen != read.record.gen:
            return True
        before = self._received.get(pod.uid, _SILENT).report.checkpoints
        return before <= asked.saved < told.checkpoints

    def _job_of(self, pod: Pod) -> _Read | None:
        """The Job of a pod, if it is known."""
        read = self._jobs.get(pod.owner_uid)
        return read if read is not None and read.job.namespace == pod.namespace else None

    def _on_pods(self, gone: str) -> None:
        """A pod of a Job has changed, or that of this UID is gone. The lock is held."""
        self._received.pop(gone, None)
        self.changes += 1

    # The known Jobs

    def managed(self) -> Mapping[JobKey, Managed]:
        """The Jobs that can be read, by namespace and name."""
        with self._lock:
            found = ((read, read.spec) for read in self._jobs.values())
            return {spec.key: self._managed(read, spec) for read, spec in found if spec is not None}

    def renewed(self, managed: Managed) -> Managed | None:
        """`managed` with the newest version of its Job, if the two are equal for any plan; else None."""
        with self._lock:
            read = self._jobs.get(managed.job.uid)
            if read is None or read.spec is None:
                return None
            newest = self._managed(read, read.spec)
        # The write brings its record with it.
        newest = replace(newest, refusal=managed.refusal, pin=managed.pin, lost=managed.lost)
        return newest if newest.planned_like(managed) else None

    def problems(self) -> Mapping[JobKey, tuple[Job, str]]:
        """The Jobs that cannot be read, each with a text that says what to write."""
        with self._lock:
            return {
                (read.job.namespace, read.job.name): (read.job, read.problem)
                for read in self._jobs.values()
                if read.problem
            }

    def rigid(self, uid: str) -> str:
        """Why the width of this Job is left as it is; empty if the API server has not refused a change."""
        return self._rigid.get(uid, "")

    def _managed(self, read: _Read, spec: JobSpec) -> Managed:
        pods = tuple(sorted(self.pods.of(read.job), key=lambda pod: (pod.index or 0, pod.uid)))
        first = next((pod.uid for pod in pods if pod.index == 0), "")
        received = self._received.get(first, _SILENT)
        return Managed(
            job=read.job, spec=spec, pods=pods, record=read.record, past=read.past, lost=read.lost,
            checkpoint=_checkpoint(pods),
            saved=min(received.report.checkpoints, MAX_INT), received=received.at, progress=received.report.progress,
            history=self._histories.of(read.job.uid), rigid=self._rigid.get(read.job.uid, ""),
            stranded_seconds=self._stranded_seconds,
        )  # fmt: skip

    def _made(self, job: Job, known: _Read | None) -> _Read:
        written, past = _record(job.annotations.get(RESIZE, "")), _record(job.kept)
        record = _newest(written, known.record if known is not None else None, past)
        lost = record is not written
        try:
            return _Read(job, self._read(job), record=record, past=past, lost=lost)
        except RequestError as error:
            return _Read(job, None, str(error), record, past, lost)


def _record(text: str) -> Resize | None:
    """The record in a text; None if the text is empty or malformed: an engine writes no malformed record."""
    try:
        return Resize.decode(text) if text else None
    except AnnotationError:
        return None


def _newest(*records: Resize | None) -> Resize | None:
    """The record with the greatest number, the first of equal ones; None if there is none."""
    return max((record for record in records if record is not None), key=lambda each: each.gen, default=None)


def _newer(job: Job, known: Job) -> bool:
    """True unless `job` is known already, or older. The versions of one object are numbers that grow."""
    if job.version.isdecimal() and known.version.isdecimal():
        return int(job.version) > int(known.version)
    return job != known


def _checkpoint(pods: Collection[Pod]) -> Checkpoint | None:
    """The last request for a checkpoint to the program of index 0."""
    for pod in pods:
        text = pod.annotation(CHECKPOINT) if pod.index == 0 else ""
        if text:
            try:
                return Checkpoint.decode(text)
            except AnnotationError:
                return None
    return None
