"""Sends writes, while this replica leads and the decision behind each write is fresh.

A write counts as done only once the API server has answered so. After an unclear answer or a conflict the Job is read
again, and no other write is sent before. If the Job then shows the write, the write counts as done: a slow API server
may carry out a write whose answer comes too late. If a write conflicts with a change that no plan depends on, the write
is sent again at once: a tenant who changes his Job all the time must not delay the writes of any Job.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from device_plugin.core.batch import Job
from device_plugin.jobs.execute.writes import Write
from device_plugin.kube.api import PODS, WORKLOADS, Api
from device_plugin.kube.errors import ApiError, ConflictError, GoneError, RefusedError, UnknownError
from device_plugin.state.jobs import KnownJobs

log = logging.getLogger(__name__)

# Seconds after which a decision must be checked again before its write is sent.
FRESH_SECONDS = 10.0
# Seconds until a write that was refused is tried again: doubled each time.
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
# Seconds until a Job whose write met conflicts is written again: doubled each time.
FIRST_CONFLICT, LONGEST_CONFLICT = 0.5, 30.0
# Attempts in a row at a write that meets conflicts.
MOST_SENT = 5
# The API server does not allow the change itself; other refusals are about rights and load, and may end.
INVALID = (400, 422)


class Sender:
    """Sends writes to the API server. One thread calls it.

    `leads` is true while no other replica can have the Lease. `sent` is called after each write that was done.
    """

    def __init__(
        self, api: Api, known: KnownJobs, leads: Callable[[], bool], clock: Callable[[], float],
        sent: Callable[[Write], None] = lambda _: None,
    ) -> None:  # fmt: skip
        self._api = api
        self._known = known
        self._leads = leads
        self._clock = clock
        self._sent = sent
        # By UID: Jobs whose last write met a conflict, or has an unclear result; and the write with such a result.
        self._doubted: dict[str, tuple[Job, Write | None]] = {}
        # By UID: the time until which no write of the Job is sent after a failed one, and the length of that pause.
        self._left: dict[str, tuple[float, float]] = {}

    def may(self, write: Write) -> bool:
        """True if a write of the Job may be sent now; false for a while after a refusal or a conflict."""
        until, _ = self._left.get(write.managed.job.uid, (0.0, 0.0))
        return self._clock() >= until

    def certain(self) -> bool:
        """Read the Jobs again whose last write met a conflict or got an unclear answer; true once all were read."""
        for uid, (job, write) in list(self._doubted.items()):
            try:
                self._read(job, write)
            except ApiError as error:
                log.warning("job %s/%s cannot be read: %s", job.namespace, job.name, error)
                return False
            del self._doubted[uid]
        return True

    def send(
        self, writes: Iterable[Write], decided: float, holds: Callable[[Write], bool] = lambda _: True
    ) -> bool:
        """Send the writes that were decided at the time `decided`; true if all of them were done.

        After a failure the rest is not sent, because it must be decided again. A write that was decided more than
        FRESH_SECONDS ago is sent only if this replica leads, nothing has changed in its Job that a plan depends on, and
        `holds` returns true; else the write is left out.
        """
        done = True
        for write in writes:
            if self._clock() - decided > FRESH_SECONDS and not self._holds(write, holds):
                done = False
            elif not self._send(write):
                return False
        return done

    def _holds(self, write: Write, holds: Callable[[Write], bool]) -> bool:
        return self._leads() and self._known.renewed(write.managed) is not None and holds(write)

    def _send(self, write: Write) -> bool:
        for _ in range(MOST_SENT):
            if not self._leads():
                return False
            try:
                return self._sent_once(write)
            except ConflictError as error:
                log.info("%s of job %s: %s; it is read again", write.action.value, "/".join(write.key), error)
                self._doubted[write.managed.job.uid] = write.managed.job, None
                renewed = self._known.renewed(write.managed) if self.certain() else None
                if renewed is None:
                    break
                write = replace(write, managed=renewed)
        self._pause(write, FIRST_CONFLICT, LONGEST_CONFLICT)
        return False

    def _sent_once(self, write: Write) -> bool:
        """Send the write once, and record the answer; true if the write was done.

        After an unclear answer the Job is read again before the next write. After a refusal no write of the Job is sent
        for a while. If the API server refuses a new width, the Job's present width counts as fixed. Raises
        ConflictError if the Job has another version by now.
        """
        job, name = write.managed.job, "/".join(write.key)
        try:
            answer = self._api.patch(
                write.kind, write.of, write.body, subresource=write.subresource, by_key=write.keeps
            )
        except GoneError:
            if write.kind is not PODS:
                self._known.gone(job.uid)
            return False
        except UnknownError as error:
            log.info("%s of job %s: %s; it is read again", write.action.value, name, error)
            self._doubted[job.uid] = job, write
            return False
        except RefusedError as error:
            log.warning("%s of job %s: %s", write.action.value, name, error)
            self._pause(write, FIRST_PAUSE, LONGEST_PAUSE)
            if error.status in INVALID and write.width is not None:
                self._known.keep_width(job.uid, str(error))
            return False
        self._left.pop(job.uid, None)
        if write.kind is not PODS:
            self._known.see(answer)
        else:
            # Otherwise the request could be sent twice: the watch may show it only after the Jobs are read again.
            self._known.pods.see_again(answer)
        log.info("%s job=%s width=%s", write.action.value, name, write.width)
        self._sent(write)
        return True

    def _pause(self, write: Write, first: float, longest: float) -> None:
        now = self._clock()
        # Pauses that are long over are removed here, so that no more are kept than Jobs live.
        self._left = {uid: each for uid, each in self._left.items() if each[0] + LONGEST_PAUSE > now}
        uid = write.managed.job.uid
        _, before = self._left.get(uid, (0.0, 0.0))
        pause = min(max(first, 2 * before), longest)
        self._left[uid] = now + pause, pause

    def _read(self, job: Job, write: Write | None) -> None:
        try:
            found = self._api.get(WORKLOADS[job.kind], job)
        except GoneError:
            found = None
        if found is None or found.uid != job.uid:
            self._known.gone(job.uid)
            return
        self._known.see(found)
        if write is not None and write.shown_by(found):
            self._left.pop(job.uid, None)
            self._sent(write)
