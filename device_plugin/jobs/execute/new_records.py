"""New records: the records that are written with changes, with their numbers, times, and facts about earlier changes.

A record outlives the engine that wrote it, and the Job's author can remove it. So the number and the time of a new
record are greater than those of all records that it replaces, and the removal of a record gives a program no further
time to save a checkpoint.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from device_plugin.core.contract.annotations import MAX_INT
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.resize import Resize
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Pod
from device_plugin.jobs.execute.writes import JOIN_SECONDS
from device_plugin.state.managed import Managed

# A record has whole seconds: a record that must count as later than another is made a second later at least, whatever
# the clocks of two replicas say.
LATER = 1.0
# Seconds for which a request for a checkpoint waits for the program's count of earlier ones; without it no answer could
# be recognised.
ASK_SECONDS = 30.0
# The greatest number of a request for a checkpoint that counts: a tenant may write any. The next record is greater.
MOST_ASKED = 2**31
# A Job that did not answer this many requests for a checkpoint in a row is not made narrower for this many seconds.
UNSAVED, SPARED_SECONDS = 2, 3600.0


class NewRecords:
    """Makes the records of Jobs' changes that are decided at the time `now`, in seconds since 1970."""

    def __init__(self, now: float) -> None:
        self._now = now

    def new(self, managed: Managed, **fields: Any) -> Resize:
        """A new record of a change of the Job with these fields; other counts and times are those of its last record.

        Without `asked` among the fields, the decision was made now.
        """
        last = managed.record
        if last is not None:
            refusals = last.refusals if last.refusal else 0
            before = {
                "unsaved": last.unsaved, "spared_until": last.spared_until, "refusals": refusals,
                "stopped_for": last.stopped_for,
            }  # fmt: skip
            fields = {**before, **fields}
        fields.setdefault("asked", self.later(managed))
        return Resize(
            gen=_next(managed), attained=managed.attained(self._now), author_width=managed.author_width, **fields
        )  # fmt: skip

    def past(self, managed: Managed) -> Resize:
        """The Job's record (its latest change); if it has none, a new one of a finished change from 0 to 0 replicas."""
        return managed.record or self.new(managed, before=0, after=0, until=self._now, applied=True)

    def let_run(self, managed: Managed, before: int, after: int, givers: Iterable[Managed]) -> Resize:
        """The record of a start, or of a growth of a split, that is written together with the Job's new width.

        `givers` are the Jobs that made room: the new record is later than their records.
        """
        last = managed.record
        rested = {}
        if not before and last is not None and last.ran:
            # The time of the stop may be later than now: another replica's clock may have written it.
            rested["stopped_for"] = max(0.0, self._now - managed.stopped(last, self._now) - last.held_for)
        return self.new(
            managed, before=before, after=after, asked=self.later(managed, *givers),
            until=self._now + JOIN_SECONDS, applied=True, **rested,
        )  # fmt: skip

    def applied(self, managed: Managed, record: Resize) -> Resize:
        """The record of an announced change of width that is carried out now, with a new time at which it must be done.

        The record of a shrink also has the number of requests for checkpoints that the program did not answer.
        """
        seconds = JOIN_SECONDS + (managed.job.grace_seconds if record.shrinks else 0)
        return self._counted(managed, replace(record, until=self._now + seconds, applied=True))

    def _counted(self, managed: Managed, record: Resize) -> Resize:
        """The record of a shrink or stop, with the number of unanswered requests for checkpoints.

        After UNSAVED unanswered requests in a row the Job is not made narrower for SPARED_SECONDS.
        """
        asked = managed.checkpoint
        if asked is None or asked.gen != record.gen or not record.shrinks or asked.saved == MAX_INT:
            # No request was sent, or an answer could not be recognised.
            return record
        if managed.saved > asked.saved:
            return replace(record, unsaved=0, spared_until=0.0)
        missed = record.unsaved + 1
        until = self._now + SPARED_SECONDS if missed >= UNSAVED else 0.0
        return replace(record, unsaved=missed, spared_until=until)

    def later(self, *jobs: Managed) -> float:
        """The time of a new record: now, but at least a second after the latest record of each of these Jobs.

        The new record replaces or ends these records, so it must be later, whatever the clocks of two replicas show.
        """
        before = (managed.record.asked + LATER for managed in jobs if managed.record is not None)
        return max((float(int(self._now)), *before))

    def narrow_by(self, managed: Managed) -> float:
        """The time by which a shrink or stop that is recorded now must be written as the Job's new width.

        The time for a checkpoint is included. The pods' termination grace period is not: pods begin to end only when
        the width is written, and that write sets a later time, which includes the period.
        """
        answered = self._answer_by(managed) if managed.spec.checkpoint_seconds else self._now
        return answered + JOIN_SECONDS

    def _answer_by(self, managed: Managed) -> float:
        """The time until which a program may save a checkpoint before it loses pods.

        If the program was asked a short time ago for a change that the Job's author then removed or overruled, the time
        of that request still counts. Otherwise the author could keep the cards by removing each change.
        """
        record, before = managed.record, managed.checkpoint
        until = self._now + ASK_SECONDS + managed.spec.checkpoint_seconds
        if before is None or (record is not None and record.applied) or managed.saved > before.saved:
            return until
        return min(until, max(self._now, before.until)) if before.until > self._now - JOIN_SECONDS else until


def grants_of(pods: Iterable[Pod]) -> Iterator[Grant]:
    """The grants of bound pods; a malformed grant is left out, so its slices are kept for nobody."""
    for pod in pods:
        with suppress(AnnotationError):
            if (found := pod.grant()) is not None:
                yield found


def _next(managed: Managed) -> int:
    """The number of the Job's next record: above those of its latest record and of its latest checkpoint request."""
    asked = managed.checkpoint.gen if managed.checkpoint is not None else 0
    # A tenant may write any request on his pod: records must be able to go on from it.
    asked = asked if asked <= MOST_ASKED else 0
    return 1 + max(asked, managed.record.gen if managed.record is not None else 0)
