"""Records the width and the phase of each queued Job over time, as its watch shows them, for the page's timeline.

The record begins when the command starts. It keeps at most MOST_CHANGES changes of a Job, and a Job that has ended for
KEPT_SECONDS.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from device_plugin.cli.ui.rows import Row, in_turn
from device_plugin.core.batch import Job
from device_plugin.core.contract.annotations import QUEUE
from device_plugin.core.jobs.job import JobPhase
from device_plugin.core.jobs.reading import held
from device_plugin.core.timestamps import seconds

# A split may change its width with each sub-task: beyond this number the shortest stays are merged into their
# neighbours, but for the newest.
MOST_CHANGES, NEWEST = 64, 16
KEPT_SECONDS = 86_400.0
# Most Jobs that are shown: those that have not ended, and those that have; a tenant can make thousands of both.
MOST_LIVE, MOST_ENDED = 5000, 1000


class Stay(NamedTuple):
    """A time in which a Job has one width and one phase. It begins at `at`, in seconds since 1970."""

    at: float
    width: int
    phase: str


class JobTimes:
    """The stays (times with one width and one phase) of one Job, oldest first.

    `seen` is the time when the command first saw the Job. For the time before, only the times in the object are known:
    the Job may have had another width. `ended` is None until the Job ends; then `outcome` says how.
    """

    def __init__(self, job: Job, now: float) -> None:
        self.job = job
        self.seen = now
        self.stays: list[Stay] = []
        self.ended: float | None = None
        self.outcome = ""
        created = seconds(job.created, now)
        if job.ended:
            # The width is not known any more: that of the Job's spec takes its place.
            self.stays = [Stay(min(seconds(job.started, created), now), job.width, "running")]
            self.end(job, now)
            return
        suspended = (
            next((condition.since for condition in job.suspension), "") if job.suspend else job.started
        )
        self.stays = [Stay(min(seconds(suspended, created), now), job.active, _phase_of(job))]

    @property
    def namespace(self) -> str:
        """The namespace of the Job."""
        return self.job.namespace

    def take(self, job: Job, now: float) -> bool:
        """Record a newer version of the Job; returns true if the page's entry of the Job changes."""
        before, self.job = self.job, job
        if self.outcome == "gone" and not job.ended:
            # It was taken from its queue, and is in one again.
            self.ended, self.outcome = None, ""
            self.stays.append(Stay(max(now, self.stays[-1].at), job.active, _phase_of(job)))
            return True
        if self.ended is not None:
            return False
        if job.ended:
            self.end(job, now)
            return True
        phase = _phase_of(job)
        if phase == "waiting" and any(stay.width for stay in self.stays):
            phase = "stopped"
        last = self.stays[-1]
        if (last.width, last.phase) == (job.active, phase):
            return before.labels.get(QUEUE) != job.labels.get(QUEUE)
        self.stays.append(Stay(max(now, last.at), job.active, phase))
        if len(self.stays) > MOST_CHANGES:
            _merge_shortest(self.stays)
        return True

    def end(self, job: Job | None, now: float) -> None:
        """Note when and how the Job has ended; if `job` is None, the Job was deleted."""
        end = job.end if job else None
        at = seconds(end.since, now) if end else now
        self.ended = max(min(at, now), self.stays[-1].at)
        self.outcome = end.type.lower() if end else "gone"

    def row(self) -> Row:
        """Returns the page's entry of the Job: its names, its stays (times in one phase), and its end."""
        return {
            "namespace": self.job.namespace, "name": self.job.name, "queue": self.job.labels.get(QUEUE, ""),
            "seen": round(self.seen, 1), "stays": [[round(stay.at, 1), stay.width, stay.phase] for stay in self.stays],
            "ended": None if self.ended is None else round(self.ended, 1), "outcome": self.outcome,
        }  # fmt: skip


class Timeline:
    """The times of all queued Jobs, by UID. The thread of the Jobs' watch writes, and any thread may read."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns the seconds since 1970."""
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, JobTimes] = {}
        self._changed = set[str]()
        self._shown = set[str]()
        # True if Jobs came, ended or went, so that the shown Jobs must be chosen again.
        self._others = True

    def clear(self) -> None:
        """Forget all Jobs: the caller may not read them any more."""
        with self._lock:
            self._known.clear()
            self._others = True

    def sync(self, jobs: Sequence[Job]) -> None:
        """Record the list of all Jobs; known Jobs that are not in the list have ended."""
        found = {job.uid for job in jobs}
        with self._lock:
            for uid, times in self._known.items():
                if uid not in found and times.ended is None:
                    self._end(uid, times)
            for job in jobs:
                self._see(job)

    def see(self, job: Job) -> None:
        """Receive a new Job, or a newer version of one."""
        with self._lock:
            self._see(job)

    def forget(self, job: Job) -> None:
        """Receive the last version of a Job that is gone."""
        with self._lock:
            times = self._known.get(job.uid)
            if times is not None and times.ended is None:
                self._end(job.uid, times)

    def changes(self) -> Mapping[str, Row | None]:
        """Returns the page's entries that changed since the previous call, by Job; None for a Job no longer shown."""
        with self._lock:
            self._forget_old()
            found = dict[str, Row | None]()
            before = self._shown
            if self._others:
                self._shown = self._chosen()
                self._others = False
                found.update(dict.fromkeys(before - self._shown))
            for uid in (self._changed & self._shown) | (self._shown - before):
                found[uid] = self._known[uid].row()
            self._changed.clear()
            return found

    def _see(self, job: Job) -> None:
        now = self._clock()
        times = self._known.get(job.uid)
        if times is not None:
            before = times.ended
            if times.take(job, now):
                self._changed.add(job.uid)
                self._others |= before != times.ended
            return
        times = JobTimes(job, now)
        if times.ended is None or times.ended >= now - KEPT_SECONDS:
            self._known[job.uid] = times
            self._others = True

    def _end(self, uid: str, times: JobTimes) -> None:
        times.end(None, self._clock())
        self._changed.add(uid)
        self._others = True

    def _forget_old(self) -> None:
        """Forget Jobs that ended long ago, and the oldest beyond MOST_ENDED, of all namespaces in turn."""
        ended = [(times.ended, times) for times in self._known.values() if times.ended is not None]
        last = self._clock() - KEPT_SECONDS
        newest = sorted(ended, key=lambda each: each[0], reverse=True)
        kept = in_turn([times for at, times in newest if at >= last], MOST_ENDED)
        for uid in {times.job.uid for _, times in ended} - {times.job.uid for times in kept}:
            del self._known[uid]
            self._others = True

    def _chosen(self) -> set[str]:
        live = [times for times in self._known.values() if times.ended is None]
        ended = {uid for uid, times in self._known.items() if times.ended is not None}
        return ended | {times.job.uid for times in in_turn(live, MOST_LIVE)}


def _merge_shortest(stays: list[Stay]) -> None:
    """Merge the shortest stay into the stay before it; the first stay and the NEWEST last ones are left alone.

    If the stays before and after it are alike, they become one.
    """
    among = range(1, len(stays) - NEWEST)
    shortest = min(among, key=lambda i: stays[i + 1].at - stays[i].at)
    del stays[shortest]
    if stays[shortest - 1][1:] == stays[shortest][1:]:
        del stays[shortest]


def _phase_of(job: Job) -> str:
    """Returns the phase of a Job that has not ended, from the Job alone."""
    if job.active:
        phase = JobPhase.STOPPING if job.suspend else JobPhase.RUNNING
    elif not job.suspend:
        phase = JobPhase.STARTING
    else:
        phase = JobPhase.HELD if held(job) else JobPhase.WAITING
    return phase.value
