"""A Job that the engine queues, with all that is known of it at one time."""

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

# Seconds for which a Job neither starts nor grows after its pods were refused: doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3600.0
# A sub-task that has run for less than this may be ended for another Job, and begins again.
YOUNG_SECONDS = 60.0
# A count of checkpoints that was received longer ago than this may have grown since.
RECEIVED_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """A Job that the engine queues: the object, what its author asks for, its pods that have not ended, and its record.

    `past` is that of the record as far as it stands in the Job's status, and the record is `lost` if the Job itself
    does not have it any more. `checkpoint` is the last request for one to the program of index 0, and `saved` how many
    that program had saved by what the agent of its node said at `received`, in seconds since 1970; `progress` is what
    it reported then, and `history` what it has reported until then, None if nothing. `rigid` says why the API server
    does not let its width be changed, if so, and `refusal` why it refuses pods that the Job lacks, if it does. `pin` is
    the label of nodes, and its value, that its pods are bound to when it starts, None for any nodes. `stranded_seconds`
    is how long a pod may wait for a node, or take to end, before the Job does not go on as it is.
    """

    job: Job
    spec: JobSpec
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
        """True if the two are equal in all that a plan depends on, whatever else of the Job has changed.

        The program's reports count while a request for a checkpoint may wait for them.
        """
        return self._planned() == other._planned()

    def _planned(self) -> "Managed":
        waits = self.record is not None and not self.record.applied
        received = self.received if waits else -inf
        return replace(self, job=planned(self.job), received=received, progress=None, history=None, past=None)

    @property
    def key(self) -> JobKey:
        """Namespace and name."""
        return self.spec.key

    @property
    def lives(self) -> bool:
        """True until the Job has ended or is being deleted."""
        return not self.job.ended and not self.job.deleting

    @property
    def waits(self) -> bool:
        """True while the Job is suspended, and could be started."""
        return self.job.suspend and self.lives

    @property
    def seeks(self) -> bool:
        """True if room may have to be found for pods of the Job: it waits, or has pods without a node, or fewer."""
        return self.lives and (self.job.suspend or self.due > sum(bool(pod.node) for pod in self.pods))

    def wants(self, width: int) -> bool:
        """True if the Job waits for cards to run with this width: it is suspended, or a split that runs with less."""
        return self.waits or (self.lives and self.spec.parts > 0 and self.job.width < width)

    def has(self, width: int) -> bool:
        """True if the Job is written to run with this width, or as a split with a wider window; 0 is suspended."""
        if self.job.suspend or width == 0:
            return self.job.suspend == (width == 0)
        if self.spec.parts:
            return self.job.width >= width
        return self.written(width)

    def written(self, width: int) -> bool:
        """True if this width is written in the Job, which may be suspended.

        A Job whose width stays may have more completions: a pod that succeeds is followed by another.
        """
        job = self.job
        return job.width == width and (not self.spec.elastic or job.completions in (None, width))

    def attained(self, now: float) -> float:
        """The service that the job has had until now, in card-seconds: that of its last record, and what ran since."""
        record, job = self.record, self.job
        before = record.attained if record is not None else 0.0
        if job.suspend and record is not None:
            width, since, until = record.width, record.asked, self.stopped(record, now)
        else:
            width, since, until = (0 if job.suspend or job.ended else job.width), self.begun(now), now
        return before + width * self.spec.cards * max(0.0, until - since)

    def begun(self, now: float) -> float:
        """The time when the running Job got the width that it has; somebody may have started it since its record."""
        if self.record is None:
            return seconds(self.job.started, now)
        return max(self.record.asked, seconds(self.job.started, self.record.asked))

    def stopped(self, record: Resize, now: float) -> float:
        """The time when the suspended Job of this record was stopped: by the record, or else by somebody since."""
        if not record.width:
            return record.asked
        since = (seconds(condition.since, now) for condition in self.job.suspension)
        return max(record.asked, next(since, now))

    @property
    def unkept(self) -> bool:
        """True if what decides the Job's turns later does not stand where only the engine can remove it.

        A start has nothing that the record before it does not have, but for when it was.
        """
        record = self.record
        if record is None or not self.lives:
            return False
        return self.lost or (record.applied and record.shrinks and record.past != self.past)

    @property
    def author_width(self) -> int:
        """The width that the Job's author asked for, whatever it has now; 0 if it is not known."""
        return self.record.author_width if self.record is not None else self.job.width

    @property
    def admitted(self) -> int:
        """The replicas that the engine lets run, by the last record; none of a width written by others since."""
        record = self.record
        if record is None or self.by_hand:
            return 0
        return record.after if record.applied else min(record.before, record.after)

    @property
    def as_written(self) -> bool:
        """True if the engine started the running Job with the width that its author wrote, and it has that width.

        For a Job with widths that is the allowed width nearest to what was written.
        """
        record, width = self.record, self.job.width
        if record is None or self.job.suspend or record.before or not record.applied:
            return False
        return record.after == self.spec.nearest_width(record.author_width) == width

    @property
    def index_ended(self) -> bool:
        """True if an index that succeeded could run again in another width; the sub-tasks of a split do not."""
        return bool(self.job.succeeded or self.job.completed_indexes) and not self.spec.parts

    def may_have(self, width: int) -> bool:
        """True if the Job may run with this width by its list of widths, or because no other one can be written."""
        return self.spec.allows(width) or bool(self.rigid) or self.index_ended

    @property
    def created(self) -> int:
        """The pods that the Job has now, by its status or by the watch of pods, whichever knows of more."""
        return max(self.job.active, sum(not pod.deleting for pod in self.pods))

    @property
    def lacks(self) -> bool:
        """True if the Job has fewer pods than it is to run, and none that it waits for to end first."""
        job = self.job
        if not self.lives or job.suspend or job.terminating or any(pod.deleting for pod in self.pods):
            return False
        return self.created < self.due

    @property
    def due(self) -> int:
        """The pods that the Job runs now where nothing is in their way: its width, or the successes that it lacks."""
        job = self.job
        if job.suspend or not self.lives:
            return 0
        return job.width if job.completions is None else min(job.width, job.completions - job.succeeded)

    @property
    def refused(self) -> str:
        """Why the API server refuses pods that the Job lacks; empty if it does not, or lacks none any more."""
        return self.refusal if self.refusal and self.lacks else ""

    def stranded(self, now: float) -> int:
        """The number of its pods that have waited for a node for `stranded_seconds`."""
        return sum(now >= time for time in self._placed_by(now))

    def unreplaced(self, now: float) -> int:
        """The number of its pods that are to be replaced once they have ended, and have not for `stranded_seconds`."""
        return sum(now >= time for time in self._gone_by(now))

    def deadlines(self, now: float) -> Iterator[float]:
        """The times by which its pods are to have a node or, if deleted, to be gone."""
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
        """True if a pod is replaced only once it has ended, however long that takes."""
        return self.job.replacement == "Failed"

    @property
    def paused_until(self) -> float:
        """The time until which the Job neither starts nor grows, as its pods could not be created; 0 if they could."""
        return paused_until(self.record) if self.record is not None else 0.0

    @property
    def by_hand(self) -> bool:
        """True if the running Job has another width than its last record says: a user has set it since."""
        record = self.record
        if record is None or self.job.suspend:
            return False
        return record.width > 0 and not self.written(record.width)

    def spared(self, now: float) -> bool:
        """True while the running Job is not made narrower, because its program did not answer when it was asked."""
        return self.record is not None and now < self.record.spared_until and not self.job.suspend

    def received_since(self, now: float) -> bool:
        """True if it is known how many checkpoints the program of index 0 had saved shortly before `now`."""
        return self.received >= now - RECEIVED_SECONDS

    def leaving(self, width: int) -> Iterator[Pod]:
        """The pods that a width of `width` has no place for: those of the highest indexes.

        From a split all pods leave or none: its window slides over the indexes.
        """
        if width and self.spec.parts:
            return iter(())
        return (pod for pod in self.pods if width == 0 or pod.index is None or pod.index >= width)

    def young(self, now: float) -> Sequence[Pod]:
        """The sub-tasks of a running split that have just begun, the latest first.

        The Job controller ends them in this order where the window becomes smaller.
        """
        if not self.spec.parts or self.job.suspend:
            return ()
        began = [(now - seconds(pod.created, now), pod.uid, pod) for pod in self.pods if not pod.deleting]
        return [pod for age, _, pod in sorted(began) if age < YOUNG_SECONDS]


class ManagedJobs(Protocol):
    """The Jobs that are planned together: all that are known, or those of a pool."""

    @property
    def changes(self) -> int:
        """Grows with every change."""

    def why_not_synced(self) -> str:
        """The kinds of objects that were not listed yet, as text; empty if all were."""

    def managed(self) -> Mapping[JobKey, Managed]:
        """The Jobs that can be read, by namespace and name."""


def planned(job: Job) -> Job:
    """The part of a Job that a plan depends on in addition to its JobSpec and its record.

    A tenant may write the rest, such as metadata, as often as the API server takes it.
    """
    return Job(
        job.namespace, job.name, job.uid,
        created=job.created, deleting=job.deleting,
        annotations={key: text for key, text in job.annotations.items() if key == POOL},
        suspend=job.suspend, parallelism=job.parallelism, completions=job.completions,
        replacement=job.replacement, grace_seconds=job.grace_seconds, started=job.started,
        active=job.active, succeeded=job.succeeded, terminating=job.terminating,
        completed_indexes=job.completed_indexes, conditions=job.conditions if job.ended else job.suspension,
    )  # fmt: skip


def paused_until(record: Resize) -> float:
    """The time until which the Job of this record neither starts nor grows; 0 if its pods were not refused."""
    if not record.refusal:
        return 0.0
    doubled = FIRST_PAUSE * 2.0 ** min(record.refusals - 1, 10)
    return record.asked + min(doubled, LONGEST_PAUSE)
