"""A queued Job at one time, as the job engine sees it: the object, its spec, its pods, its record and its reports."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Protocol

from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import POOL
from device_plugin.core.contract.checkpoint import Checkpoint
from device_plugin.core.contract.resize import Resize
from device_plugin.core.jobs.history import History
from device_plugin.core.jobs.job import JobKey, JobSpec
from device_plugin.core.jobs.progress import Progress
from device_plugin.core.jobs.rules import STRANDED_S
from device_plugin.core.pods import Pod
from device_plugin.core.timestamps import seconds
from device_plugin.core.workload_kinds import JOB

# Seconds for which a Job neither starts nor grows after its pods were refused: doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
# A sub-task that has run for less than this may be ended for another Job, and begins again.
YOUNG_SECONDS = 60.0
# Seconds after which a received count of checkpoints is out of date.
RECEIVED_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """A queued Job: the object, its author's spec, its live pods, and its record (latest change of width).

    - `problem` says why the Job cannot be read; `spec` is meaningless then.
    - `lost`: the Job's annotation does not hold the record any more. `past` is the copy of the record in the Job's
      status; it lacks the change of the width.
    - `checkpoint` is the latest request for a checkpoint to the program of index 0. The agent of that program's node
      reported `saved` checkpoints and `progress` at `received`, in seconds since 1970; `history` has all reports.
    - `rigid` is the API server's answer when it refused a new width, `refusal` its answer when it refused pods that the
      Job lacks; each is empty without a refusal.
    - `pin` is the node label, key and value, that the Job's pods are bound to when it starts; None for any nodes.
    - `stranded_seconds`: the Job shrinks or stops if a pod has waited for a node for this time, or still exists this
      time after the end of its grace period.
    """

    job: Job
    spec: JobSpec
    problem: str = ""
    pods: tuple[Pod, ...] = ()
    record: Resize | None = None
    past: Resize | None = None
    lost: bool = False
    checkpoint: Checkpoint | None = None
    saved: int = 0
    received: float = -inf
    progress: Progress | None = None
    history: History | None = None
    rigid: str = ""
    refusal: str = ""
    pin: tuple[str, str] | None = None
    stranded_seconds: float = STRANDED_S

    def planned_like(self, other: "Managed") -> bool:
        """True if this Job and `other` differ in nothing that a plan depends on, or if neither can be read.

        The time of the program's latest report counts only while a change of the Job is under way, because the change
        may need a checkpoint.
        """
        return bool(self.problem and other.problem) or self._planned() == other._planned()

    def _planned(self) -> "Managed":
        waits = self.record is not None and not self.record.applied
        received = self.received if waits else -inf
        return replace(self, job=planned(self.job), received=received, progress=None, history=None, past=None)

    @property
    def key(self) -> JobKey:
        """Namespace and name of the Job."""
        return self.spec.key

    @property
    def lives(self) -> bool:
        """True until the Job has ended or is being deleted."""
        return not self.job.ended and not self.job.deleting

    @property
    def waits(self) -> bool:
        """True while the Job is suspended, has not ended and is not being deleted."""
        return self.job.suspend and self.lives

    @property
    def seeks(self) -> bool:
        """True if pods of the Job may need room: the Job is suspended, or fewer pods are bound than should run."""
        return self.lives and (self.job.suspend or self.due > sum(bool(pod.node) for pod in self.pods))

    @property
    def ran(self) -> bool:
        """True if the engine has started the Job before."""
        return self.record is not None and self.record.ran

    @property
    def misheld(self) -> bool:
        """True if a hold (pause) of the Job, or the end of one, must still be carried out or recorded.

        Either the Job is on hold and still runs, or its record does not say whether the Job is on hold now.
        """
        held = self.spec.on_hold
        recorded = self.record is not None and self.record.held_since > 0
        return self.lives and ((held and not self.job.suspend) or held != recorded)

    def wants(self, width: int) -> bool:
        """True if the Job needs more cards to have this width (number of pods).

        The Job is suspended, or is a split (a Job of sub-tasks) that runs fewer sub-tasks at a time than `width`.
        False for a Job on hold, which its user has stopped.
        """
        if self.spec.on_hold:
            return False
        return self.waits or (self.lives and self.spec.parts > 0 and self.job.width < width)

    def has(self, width: int) -> bool:
        """True if the Job has this width; width 0 means that the Job is suspended.

        A split, a Job of sub-tasks, runs several sub-tasks at a time. It has each width from 1 up to this number.
        """
        if self.job.suspend or width == 0:
            return self.job.suspend == (width == 0)
        if self.spec.parts:
            return self.job.width >= width
        return self.written(width)

    def written(self, width: int) -> bool:
        """True if the Job's `parallelism` is this width, even if the Job is suspended.

        For an elastic Job, whose width may change, its `completions` must be this width too, or unset. A Job of fixed
        width may have more completions: after a pod has succeeded, another pod follows.
        """
        job = self.job
        return job.width == width and (not self.spec.elastic or job.completions in (None, width))

    def attained(self, now: float) -> float:
        """The service that the Job has had until `now`, in card-seconds.

        It is the amount in the latest record, and since then the number of the Job's cards times the seconds that the
        Job ran.
        """
        record, job = self.record, self.job
        before = record.attained if record is not None else 0.0
        if job.suspend and record is not None:
            width, since, until = record.width, record.asked, self.stopped(record, now)
        else:
            width, since, until = (0 if job.suspend or job.ended else job.width), self.begun(now), now
        return before + width * self.spec.cards * max(0.0, until - since)

    def begun(self, now: float) -> float:
        """The time, in seconds since 1970, when the running Job got its present number of pods.

        It is the time of the latest record, or of the Job's start if the start is later: then somebody else started the
        Job.
        """
        if self.record is None:
            return seconds(self.job.started, now)
        return max(self.record.asked, seconds(self.job.started, self.record.asked))

    def stopped(self, record: Resize, now: float) -> float:
        """The time, in seconds since 1970, when the suspended Job was stopped; `record` is its latest change of width.

        It is the time of the record if this change stopped the Job. Otherwise somebody else has stopped the Job later.
        """
        if not record.width:
            return record.asked
        since = (seconds(condition.since, now) for condition in self.job.suspension)
        return max(record.asked, next(since, now))

    def rests_since(self, now: float) -> float:
        """The time, in seconds since 1970, when the suspended Job was stopped, or created if it has never run."""
        if self.record is None or not self.record.ran:
            return seconds(self.job.created, now)
        return self.stopped(self.record, now)

    @property
    def unkept(self) -> bool:
        """True if the Job's record has facts about earlier changes that must still be copied into the Job's status.

        These facts decide the Job's later turns in the queue. The copy is needed because a user can remove the
        annotation with the record, but only the engine can remove the copy. The record of a start is not copied: it
        adds only the time of the start. A workload of another kind than a Job has no copy; for it, the value is true if
        the annotation was removed.
        """
        record = self.record
        if record is None or not self.lives:
            return False
        # Admission lets only the engine remove the record of another kind than a Job, which has no copy.
        if self.job.kind is not JOB:
            return self.lost
        return self.lost or (record.applied and record.shrinks and record.past != self.past)

    @property
    def author_width(self) -> int:
        """The number of pods that the Job's author asked for, whatever the Job has now; 0 if it is not known."""
        return self.record.author_width if self.record is not None and self.record.ran else self.job.width

    @property
    def admitted(self) -> int:
        """The number of replicas that the latest change of the Job's width (`vgpu.io/resize`) lets run.

        Until the change is applied, it is the smaller of the widths before and after. 0 without a record, and if a user
        has changed the width.
        """
        record = self.record
        if record is None or self.by_hand:
            return 0
        return record.after if record.applied else min(record.before, record.after)

    @property
    def as_written(self) -> bool:
        """True if the engine started the running Job with its author's width, and the Job still has that width.

        If the Job has a list of widths, the author's width means the smallest listed width that is at least the width
        asked for. If all are smaller, it means the largest.
        """
        record, width = self.record, self.job.width
        if record is None or self.job.suspend or record.before or not record.applied:
            return False
        return record.after == self.spec.nearest_width(record.author_width) == width

    @property
    def index_ended(self) -> bool:
        """True if an index of the Job has succeeded: after a change of the width, the index would run again.

        Never true for a split, a Job of sub-tasks.
        """
        return bool(self.job.succeeded or self.job.completed_indexes) and not self.spec.parts

    def may_have(self, width: int) -> bool:
        """True if the Job may run with this number of pods: its spec allows it, or its width cannot be changed."""
        return self.spec.allows(width) or bool(self.rigid) or self.index_ended

    @property
    def created(self) -> int:
        """The number of pods that the Job has now: by its status or by the watch of pods, the larger of the two."""
        return max(self.job.active, sum(not pod.deleting for pod in self.pods))

    @property
    def lacks(self) -> bool:
        """True if the running Job has fewer pods than should run, and none of its pods is still ending."""
        job = self.job
        if not self.lives or job.suspend or job.terminating or any(pod.deleting for pod in self.pods):
            return False
        return self.created < self.due

    @property
    def due(self) -> int:
        """The number of pods that should run now: the Job's width, or the successes that it still needs, if fewer.

        0 if the Job is suspended, has ended or is being deleted.
        """
        job = self.job
        if job.suspend or not self.lives:
            return 0
        return job.width if job.completions is None else min(job.width, job.completions - job.succeeded)

    @property
    def refused(self) -> str:
        """The reason why the API server refuses pods that the Job lacks; empty if no pod is refused or lacking."""
        return self.refusal if self.refusal and self.lacks else ""

    def stranded(self, now: float) -> int:
        """The number of pods that have waited for a node for `stranded_seconds`."""
        return sum(now >= time for time in self._placed_by(now))

    def unreplaced(self, now: float) -> int:
        """The number of deleted pods that still exist `stranded_seconds` after the end of their grace period.

        0 if the Job controller replaces a pod before its end, or if the Job is suspended.
        """
        return sum(now >= time for time in self._gone_by(now))

    def deadlines(self, now: float) -> Iterator[float]:
        """The times by which the engine expects waiting pods to have a node, and deleted pods to have ended."""
        yield from self._placed_by(now)
        yield from self._gone_by(now)

    def _placed_by(self, now: float) -> Iterator[float]:
        for pod in self.pods:
            if not pod.node and not pod.deleting:
                yield seconds(pod.created, now) + self.stranded_seconds

    def _gone_by(self, now: float) -> Iterator[float]:
        if self.waits_for_ends and not self.job.suspend:
            for pod in self.pods:
                if pod.deleting:
                    yield seconds(pod.ends, now) + self.stranded_seconds

    @property
    def waits_for_ends(self) -> bool:
        """True if the Job controller replaces a pod only once the pod has ended."""
        return self.job.replacement == "Failed"

    @property
    def paused_until(self) -> float:
        """The time until which the Job neither starts nor grows, because its pods were refused; 0 if they were not."""
        return paused_until(self.record) if self.record is not None else 0.0

    @property
    def by_hand(self) -> bool:
        """True if somebody else has changed the running Job's number of pods since the engine's latest record of it."""
        record = self.record
        if record is None or self.job.suspend:
            return False
        return record.width > 0 and not self.written(record.width)

    def spared(self, now: float) -> bool:
        """True while the running Job may not shrink, because its program left requests for checkpoints unanswered."""
        return self.record is not None and now < self.record.spared_until and not self.job.suspend

    def received_since(self, now: float) -> bool:
        """True if the program of index 0 reported its number of checkpoints within RECEIVED_SECONDS before `now`."""
        return self.received >= now - RECEIVED_SECONDS

    def leaving(self, width: int) -> Iterator[Pod]:
        """The pods that leave if the Job gets this width: the pods with the indexes from `width` on.

        At width 0 all pods leave. Two kinds of pods leave only at width 0: pods without an index, because the engine
        does not change their Job's width; and the sub-tasks of a split, because the range of indexes that run moves on
        with time.
        """
        if width and self.spec.parts:
            return iter(())
        return (pod for pod in self.pods if not width or (pod.index is not None and pod.index >= width))

    def young(self, now: float) -> Sequence[Pod]:
        """The sub-tasks of a running split that began less than YOUNG_SECONDS ago, the latest first.

        A split is a Job of sub-tasks. If it may run fewer sub-tasks at a time than before, the Job controller ends them
        in this order.
        """
        if not self.spec.parts or self.job.suspend:
            return ()
        began = [(now - seconds(pod.created, now), pod.uid, pod) for pod in self.pods if not pod.deleting]
        return [pod for age, _, pod in sorted(began) if age < YOUNG_SECONDS]


class ManagedJobs(Protocol):
    """The Jobs that are planned together: all known Jobs, or those of a pool (part of the cards)."""

    @property
    def changes(self) -> int:
        """A number that grows whenever one of these Jobs changes in something that a plan depends on."""

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""

    def managed(self) -> Mapping[JobKey, Managed]:
        """The Jobs that can be read, by namespace and name."""


def planned(job: Job) -> Job:
    """A copy of the Job with only those fields that the engine's plan of a round reads from the object itself.

    A plan reads the JobSpec and the record elsewhere. A tenant may write other fields, such as metadata, as often as
    the API server accepts; such writes must not cause a new plan.
    """
    return Job(
        job.namespace, job.name, job.uid,
        created=job.created, deleting=job.deleting,
        annotations={key: text for key, text in job.annotations.items() if key == POOL},
        suspend=job.suspend, parallelism=job.parallelism, completions=job.completions,
        replacement=job.replacement, grace_seconds=job.grace_seconds, started=job.started,
        active=job.active, succeeded=job.succeeded, terminating=job.terminating,
        completed_indexes=job.completed_indexes, conditions=job.conditions if job.ended else job.suspension,
        kind=job.kind, pods_label=job.pods_label,
    )  # fmt: skip


def paused_until(record: Resize) -> float:
    """The time until which the Job with this record neither starts nor grows; 0 if none of its pods was refused."""
    if not record.refusal:
        return 0.0
    doubled = FIRST_PAUSE * 2.0 ** min(record.refusals - 1, 10)
    return record.asked + min(doubled, LONGEST_PAUSE)
