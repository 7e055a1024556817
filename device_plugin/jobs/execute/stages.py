"""The stage that a change of a Job's width has reached, told from the Job, its pods and its record alone.

    shrink, stop:   ASKED → (a checkpoint) → LEAVING → FREED → OVER
    growth:         ASKED → JOINING → OVER
    start:                  JOINING → OVER

The record stands on the Job (`vgpu.io/resize`), so an engine that takes over reads there what its predecessor began,
and nothing has to be remembered. A record that is OVER stays: it costs no write, binds nobody, and its `gen` is the
next one's lower bound.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from device_plugin.core.batch import Job
from device_plugin.core.jobs.checkpoint import Checkpoint
from device_plugin.core.jobs.job import JobKey, JobSpec
from device_plugin.core.jobs.resize import Resize
from device_plugin.core.pods import Pod


class Stage(Enum):
    """The stages of a change."""

    NONE = "none"
    """There is no record."""
    ASKED = "asked"
    """The record stands; the Job still has its old width."""
    LEAVING = "leaving"
    """The Job has its new width, and pods beyond it still exist."""
    FREED = "freed"
    """They are gone; what they held is kept for the beneficiary."""
    JOINING = "joining"
    """The Job has its new width, and not all of its pods are bound."""
    OVER = "over"
    """Nothing is left to do, or the time of the record is over."""
    OVERRULED = "overruled"
    """Somebody has changed, stopped or started the Job meanwhile: the record is void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """A Job that the engine queues: the object, what its author asks for, its pods that have not ended, and its record.

    `checkpoint` is the last request for one to its program, and `saved` how many the program has told of.
    """

    job: Job
    spec: JobSpec
    pods: tuple[Pod, ...] = ()
    record: Resize | None = None
    checkpoint: Checkpoint | None = None
    saved: int = 0

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

    def has(self, width: int) -> bool:
        """True if the Job is written to run with this width; 0 is suspended."""
        if self.job.suspend or width == 0:
            return self.job.suspend == (width == 0)
        return self.written(width)

    def written(self, width: int) -> bool:
        """True if this width is written in the Job, which may be suspended; completions count unless it is a split."""
        return self.job.parallelism == width and (
            self.spec.parts > 0 or self.job.completions in (None, width)
        )

    def leaving(self, width: int) -> Iterator[Pod]:
        """The pods that a width of `width` has no place for: those of the highest indexes."""
        return (pod for pod in self.pods if width == 0 or pod.index is None or pod.index >= width)


def stage(managed: Managed, now: float) -> Stage:
    """The stage of the change that the Job's record tells of."""
    record = managed.record
    if record is None:
        return Stage.NONE
    if record.shrinks and (record.applied or not managed.lives):
        return _released(managed, record, now)
    if now >= record.until or not managed.lives:
        return Stage.OVER
    if not managed.has(record.after if record.applied else record.before):
        return Stage.OVERRULED
    if not record.applied:
        return Stage.ASKED
    return Stage.OVER if _joined(managed, record.after) else Stage.JOINING


def _released(managed: Managed, record: Resize, now: float) -> Stage:
    """The stage of a shrink or stop that was carried out, or of a Job that ended before it was."""
    if managed.lives and not managed.has(record.after):
        return Stage.OVERRULED if now < record.until else Stage.OVER
    if not _gone(managed, record.after if managed.lives else 0):
        return Stage.LEAVING
    return Stage.FREED if now < record.until and record.beneficiary is not None else Stage.OVER


def _gone(managed: Managed, width: int) -> bool:
    """True once no pod is left beyond `width`, by our watch of pods and by the Job controller's own count.

    The watch alone may not have shown yet a pod that the controller made just before it learned of the new width.
    """
    job = managed.job
    return job.active <= width and not job.terminating and not any(managed.leaving(width))


def _joined(managed: Managed, width: int) -> bool:
    """True once `width` pods are bound; those of a split that have succeeded need no card any more."""
    bound = sum(bool(pod.node) and not pod.deleting for pod in managed.pods)
    return bound + managed.job.succeeded >= width
