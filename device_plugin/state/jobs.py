"""The Jobs with the queue label and their pods, from watches, lists, reads and answers to our own writes, in any order.

A Job only moves forward: an older version than the known one changes nothing, so that a late watch cannot take back a
change that the answer to a write has shown. Each version is decoded only once, into the JobSpec (what the Job asks for)
and the record (its latest change of width).

A record does not go back either: if the Job's author has removed the record, the last known record counts, or the copy
that the engine keeps in the Job's status.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from math import inf

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import CHECKPOINT, MAX_INT, QUEUE, RESIZE
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.resize import Resize, api_time
from device_plugin.core.errors import AnnotationError, RequestError
from device_plugin.core.jobs.history import Histories
from device_plugin.core.jobs.job import JobKey, JobSpec
from device_plugin.core.jobs.progress import ContainerName, ProgressReport, by_pod
from device_plugin.core.jobs.rules import STRANDED_S
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest
from device_plugin.core.workload_kinds import JOB, WorkloadKind
from device_plugin.state.creations import refusal
from device_plugin.state.job_pods import JobPods
from device_plugin.state.managed import Managed

# Jobs that are gone are remembered for as long as a late answer could bring one back.
GONE_REMEMBERED = 1000


@dataclass(frozen=True, slots=True)
class _Received:
    """The progress and checkpoints that the programs of a pod reported, read at `at`, in seconds since 1970."""

    report: ProgressReport
    at: float


_SILENT = _Received(ProgressReport(), -inf)
_UNREAD = JobSpec(key=("", ""), request=PodRequest("", ()))


class JobsOfKind:
    """Receives lists and changes of one kind of workloads, and keeps these workloads in `known`."""

    def __init__(self, known: "KnownJobs", kind: WorkloadKind) -> None:
        self._known = known
        self._kind = kind
        self.see = known.see
        self.forget = known.forget

    def sync(self, jobs: Iterable[Job]) -> None:
        """Record a list of all workloads of this kind; known workloads of this kind that are not listed are removed."""
        self._known.sync(jobs, self._kind)


class KnownJobs:
    """All Jobs and other workloads with the queue label. Any thread may call it.

    `read` returns the JobSpec of a Job, and raises RequestError if the Job is malformed. `stranded_seconds`, for which
    a pod may wait for a node, is copied into each Managed (a Job as the engine sees it).
    """

    def __init__(self, read: Callable[[Job], JobSpec], stranded_seconds: float = STRANDED_S) -> None:
        self._read = read
        self._stranded_seconds = stranded_seconds
        self._lock = threading.Lock()
        # Without pods, reports and rigid widths, which `_completed` adds.
        self._jobs: dict[str, Managed] = {}
        self._received: dict[str, _Received] = {}
        self.pods = JobPods(self._lock, self._on_pods)
        """The pods of Jobs that have not ended."""
        self._histories = Histories()
        self._gone: dict[str, None] = {}
        # The UIDs of Jobs whose next version counts though its number is lower: etcd was restored.
        self._doubted: set[str] = set()
        self._rigid: dict[str, str] = {}
        self._listed = False
        self._others_not_synced: Callable[[], str] = str
        self.changes = 0
        """Counts the changes that a plan depends on."""
        self.unplanned = 0
        """Counts new versions of Jobs that change nothing for a plan; writes still need the newest version."""

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""
        listed = {"jobs": self._listed, "pods of jobs": self.pods.listed}
        absent = " and ".join(what for what, known in listed.items() if not known)
        return f"{absent} were not listed yet" if absent else self._others_not_synced()

    def waits_for(self, why_not_synced: Callable[[], str]) -> None:
        """Set the callable that says which kinds of objects, other than Jobs and their pods, were not listed yet.

        It returns a text, empty if all were listed. The method `why_not_synced` returns this text once Jobs and pods
        were listed.
        """
        self._others_not_synced = why_not_synced

    # Jobs

    def see(self, job: Job) -> None:
        """Keep a version of a Job if it is newer than the known version; a Job without the queue label is removed.

        A Job that is known as gone is not recorded again. `changes` grows if a plan depends on the new version.
        """
        if QUEUE not in job.labels:
            self.gone(job.uid)
            return
        with self._lock:
            known = self._jobs.get(job.uid)
            doubted = job.uid in self._doubted
            self._doubted.discard(job.uid)
            if job.uid in self._gone or not (known is None or doubted or _newer(job, known.job)):
                return
            made = self._jobs[job.uid] = self._made(job, known)
            if known is not None and made.planned_like(known):
                self.unplanned += 1
            else:
                self.changes += 1

    def forget(self, job: Job) -> None:
        """Remove a Job of which the watch shows that it is gone."""
        self.gone(job.uid)

    def gone(self, uid: str) -> None:
        """Remove the Job with this UID, which is gone or has left its queue; late news of it changes nothing then."""
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

    def sync(self, jobs: Iterable[Job], kind: WorkloadKind = JOB) -> None:
        """Record a list of all objects of a kind with the queue label.

        Known objects of this kind that are not listed are removed.
        """
        listed = set()
        for job in jobs:
            listed.add(job.uid)
            self.see(job)
        known = [uid for uid, each in list(self._jobs.items()) if each.job.kind is kind]
        for uid in set(known) - listed:
            self.gone(uid)
        if kind is JOB:
            self._listed = True

    def doubt(self) -> None:
        """Accept the next version of each Job even with a lower number: etcd was restored, and a list follows.

        A Job that is known as gone may come back.
        """
        with self._lock:
            self._doubted = set(self._jobs)
            self._gone.clear()

    def read_again(self) -> None:
        """Read the JobSpecs of all Jobs again, because something that they depend on has changed: a priority class."""
        with self._lock:
            self._jobs = {uid: self._made(known.job, known) for uid, known in self._jobs.items()}
            self.changes += 1

    def keep_width(self, uid: str, why: str) -> None:
        """Note that the Job's number of pods is fixed: the API server refused to change it, with the answer `why`."""
        with self._lock:
            self._rigid[uid] = refusal(why)
            self.changes += 1

    # The reports of programs

    def on(self, node: str) -> bool:
        """True if programs on the node may report progress: the pod of index 0 of a queued Job is bound to the node."""
        return any(pod.index == 0 and self._job_of(pod) is not None for pod in self.pods.on(node).values())

    def receive(self, node: str, reports: Mapping[ContainerName, ProgressReport], now: float) -> None:
        """Record the reports that a node's agent gave at `now`, in seconds since 1970, about pods bound to that node.

        The progress in the report of a pod of index 0 is added to its Job's history.
        """
        with self._lock:
            pods = self.pods.on(node)
            for name, report in by_pod(reports, pods).items():
                pod = pods[name]
                if self._awaited(pod, report):
                    self.changes += 1
                first = pod.uid not in self._received
                self._received[pod.uid] = _Received(report, now)
                known = self._job_of(pod)
                if pod.index == 0 and known is not None and not (known.problem or known.spec.parts):
                    if first:
                        # The last report was another pod's: in the time between them nobody worked.
                        self._histories.add(known.job.uid, now, 0, None)
                    self._histories.add(known.job.uid, now, self._width(known.job), report.progress)

    def _width(self, job: Job) -> int:
        """The width (number of pods) of a Job if all of its pods run, else 0."""
        pods = self.pods.of(job)
        run = sum(pod.phase == "Running" and not pod.deleting for pod in pods)
        return run if run == len(pods) == job.width and not job.suspend else 0

    def _awaited(self, pod: Pod, report: ProgressReport) -> bool:
        """True if a change of the Job's width is under way and needs this report of a pod, which must have index 0.

        It needs the report in two cases. The request for a checkpoint was not sent yet; it will contain the number of
        checkpoints in the report. Or the report is the first that shows a checkpoint after the request.
        """
        known = self._job_of(pod)
        if known is None or known.record is None or known.record.applied or pod.index != 0:
            return False
        asked = _checkpoint([pod])
        if asked is None or asked.gen != known.record.gen:
            return True
        before = self._received.get(pod.uid, _SILENT).report.checkpoints
        return before <= asked.saved < report.checkpoints

    def _job_of(self, pod: Pod) -> Managed | None:
        """The Job of a pod; None if the Job is not known."""
        known = self._jobs.get(pod.owner_uid)
        return known if known is not None and known.job.namespace == pod.namespace else None

    def _on_pods(self, gone: str) -> None:
        """Count a change of a pod of a Job, and drop the report of a pod that is gone. The lock is held.

        `gone` is the UID of the pod that is gone; empty if the pod still exists.
        """
        self._received.pop(gone, None)
        self.changes += 1

    # The known Jobs

    def managed(self) -> Mapping[JobKey, Managed]:
        """The Jobs that can be read, by namespace and name, each with its pods and the latest report of its program.

        Objects that a queued workload owns are left out, because they start with it.
        """
        with self._lock:
            return {
                each.key: self._completed(each)
                for each in self._jobs.values()
                if not each.problem and each.job.owner_uid not in self._jobs
            }

    def renewed(self, managed: Managed) -> Managed | None:
        """The newest version of the Job `managed`; None if it is gone or differs in what a plan depends on."""
        with self._lock:
            known = self._jobs.get(managed.job.uid)
            newest = self._completed(known) if known is not None else None
        if newest is None:
            return None
        # The write brings its record with it.
        newest = replace(newest, refusal=managed.refusal, pin=managed.pin, lost=managed.lost)
        return newest if newest.planned_like(managed) else None

    def problems(self) -> Mapping[JobKey, tuple[Job, str]]:
        """The Jobs that cannot be read, each with a text that says how to correct the Job.

        Objects that a queued workload owns are left out.
        """
        with self._lock:
            unread = [
                each for each in self._jobs.values() if each.problem and each.job.owner_uid not in self._jobs
            ]
        return {known.job.key: (known.job, known.problem) for known in unread}

    def _completed(self, known: Managed) -> Managed:
        """A copy of the Job `known` with the facts about it that are kept apart from it.

        These are its pods, its program's latest report and history, and the API server's answer that fixed its width.
        """
        pods = tuple(sorted(self.pods.of(known.job), key=lambda pod: (pod.index or 0, pod.uid)))
        first = next((pod.uid for pod in pods if pod.index == 0), "")
        received = self._received.get(first, _SILENT)
        if known.job.kind is not JOB:
            # These have no programs of index 0, and no counts of pods in their status.
            return replace(known, pods=pods, job=replace(known.job, succeeded=self.pods.succeeded(known.job)))
        return replace(
            known, pods=pods, checkpoint=_checkpoint(pods),
            saved=min(received.report.checkpoints, MAX_INT), received=received.at, progress=received.report.progress,
            history=self._histories.of(known.job.uid), rigid=self._rigid.get(known.job.uid, ""),
        )  # fmt: skip

    def _made(self, job: Job, known: Managed | None) -> Managed:
        """The Job as it is read from its new version `job`; `known` is the Job as it was before, None for a new Job.

        Its record, the latest change of its width, is the newest of three: the record in the annotation, the known
        record, and the copy in the Job's status.
        """
        written, past = _record(job.annotations.get(RESIZE, "")), _record(job.kept)
        record = _newest(written, known.record if known is not None else None, past)
        spec, problem = _UNREAD, ""
        try:
            spec = self._read(job)
        except RequestError as error:
            problem = str(error)
        if job.kind is not JOB and not job.suspend and record is not None and record.width:
            job = replace(job, started=api_time(record.asked))
        return Managed(
            job=job, spec=spec, problem=problem, record=record, past=past, lost=record is not written,
            stranded_seconds=self._stranded_seconds,
        )  # fmt: skip


def _record(text: str) -> Resize | None:
    """The decoded record of a Job's change of width; None if `text` is empty or malformed.

    The engine writes no malformed record; only others do.
    """
    try:
        return Resize.decode(text) if text else None
    except AnnotationError:
        return None


def _newest(*records: Resize | None) -> Resize | None:
    """The newest record of a Job's change: that with the greatest number; None if there is no record."""
    return max((record for record in records if record is not None), key=lambda each: each.gen, default=None)


def _newer(job: Job, known: Job) -> bool:
    """True if `job` is a newer version than `known`: the version numbers of one object grow."""
    if job.version.isdecimal() and known.version.isdecimal():
        return int(job.version) > int(known.version)
    return job != known


def _checkpoint(pods: Collection[Pod]) -> Checkpoint | None:
    """The latest request for a checkpoint to the program of index 0; None if there is none, or it is malformed."""
    for pod in pods:
        text = pod.annotation(CHECKPOINT) if pod.index == 0 else ""
        if text:
            try:
                return Checkpoint.decode(text)
            except AnnotationError:
                return None
    return None
