"""The record of a change of a Job's width, in the Job annotation `vgpu.io/resize`.

The job engine writes the record before it changes the Job. An engine that takes over reads in the record which change
it must finish or drop. The allocator reads in the record which pods will leave, and for which job it must keep the
freed slices. Times are on the writer's wall clock, and a reader's clock may differ.

Anybody who may change the Job may remove the annotation. The record's facts about earlier changes of the Job decide the
Job's later turns in the queue, so the engine keeps a copy in the Job's status, which only the engine writes.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate, takewhile
from typing import Annotated

import msgspec
from msgspec import Meta

from device_plugin.core.contract.annotations import MAX_COMPUTE_UNITS, MAX_INT
from device_plugin.core.contract.codec import Amount, Count, Reader, Text, json_length, write_object
from device_plugin.core.contract.grants import MAX_CONTAINERS, Grant, Slice, ranges
from device_plugin.core.errors import AnnotationError

# Most characters of a record, because a watch keeps the records of thousands of Jobs. 110 leaving pods of one card each
# fit, or 28 pods of eight cards.
MAX_RECORD = 16 * 1024
# Most core groups of all slices together: a short text such as `0-1023` names many.
MAX_CORES = 16 * 1024
# Most characters of the core groups of one slice: every second group of 1,024.
_CORES_LENGTH = 2600
# Most characters of the text `refusal`.
MAX_REFUSAL = 250
# A record does not name containers. A grant that is read from it has one container of this name with all slices.
CONTAINER = "pod"
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_TIMES = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_RUN = re.compile(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A change of a Job's width from `before` to `after` replicas; width 0 means suspended.

    - `gen` is the number of the record, greater than the number of the Job's previous record. `asked` is the time of
      the decision, `until` the time when the record ends even if the change is not done, in seconds since 1970.
      `applied`: the Job has its new width.
    - `grants` are the grants of the pods that will leave. The slices that they free are kept for the job `beneficiary`,
      or for its group, until `replicas` of its pods were bound after `asked` (0: until the record ends); `priority` is
      the beneficiary's.
    - `attained` is the service, in card-seconds, that the Job had received at the decision. `author_width` is the width
      that the Job's author wrote, before the first record; 0 if it is not recorded.

    Facts about earlier changes of the Job, which decide its later turns in the queue:

    - `unsaved` counts the latest requests for a checkpoint that had no answer in time; because of them the Job is not
      made narrower until `spared_until`.
    - `refusals` counts the latest attempts in which the API server refused the Job's pods. After such a refusal the
      engine gives the Job its earlier width; the record of this change has the API server's reason in `refusal`, which
      is empty in other records.
    - `stopped_for` is the seconds that the Job was stopped before its latest start.
    - `held_since` is the time since which the Job is on hold (paused by a user), 0 if it is not. `held_for` is the
      seconds that do not count as waiting: all holds since the Job was created or stopped, and the wait before a hold
      if another Job had already made room.

    Written numbers have no fractions. A Job on hold before its first start has a record from 0 to 0 replicas.
    """

    gen: int
    before: int
    after: int
    asked: float
    until: float
    beneficiary: tuple[str, str] | None = None
    replicas: int = 0
    priority: int = 0
    applied: bool = False
    grants: Sequence[Grant] = ()
    attained: float = 0.0
    author_width: int = 0
    unsaved: int = 0
    spared_until: float = 0.0
    refusals: int = 0
    refusal: str = ""
    stopped_for: float = 0.0
    held_since: float = 0.0
    held_for: float = 0.0

    @property
    def ran(self) -> bool:
        """True if the Job has run; false if the record only says for how long a user held it back (hold)."""
        return bool(self.before or self.after)

    @property
    def held(self) -> bool:
        """True if a user holds (pauses) the Job now, or has held it after its creation or its last stop."""
        return bool(self.held_since or self.held_for)

    @property
    def shrinks(self) -> bool:
        """True if the change makes pods leave: a smaller number of pods, or a stop."""
        return self.after < self.before

    @property
    def past(self) -> "Resize":
        """A copy of the record without its change of the width: without grants, and ended.

        The other fields still decide the Job's later turns in the queue.
        """
        return replace(self, until=self.asked, applied=True, grants=())

    @property
    def width(self) -> int:
        """The Job's number of pods by this record: `before`, and once the change is applied `after`; 0 if suspended."""
        return self.after if self.applied else self.before

    @property
    def without_room(self) -> bool:
        """True if the Job stopped because there was no room for some of its pods."""
        return self.shrinks and not (self.after or self.beneficiary or self.refusal or self.held)

    def encode(self) -> str:
        """The record as text for the annotation.

        Grants that do not fit are left out; their slices are then not kept for the beneficiary.
        """
        fields = msgspec.to_builtins(self._record())
        if self.grants:
            leaving = [msgspec.to_builtins(_leaving(grant)) for grant in self.grants]
            room = MAX_RECORD - len(write_object({**fields, "grants": []}))
            # One character more for the comma.
            ends = accumulate(json_length(grant) + 1 for grant in leaving)
            cores = accumulate(sum(len(s.cores) for s in grant.slices()) for grant in self.grants)
            fitting = takewhile(
                lambda sums: sums[0] <= room and sums[1] <= MAX_CORES, zip(ends, cores, strict=True)
            )
            fields["grants"] = leaving[: len(list(fitting))]
        return write_object(fields)

    def _record(self) -> "_Record":
        return _Record(
            gen=self.gen, before=self.before, after=self.after, asked=api_time(self.asked),
            until=api_time(self.until), applied=self.applied, attained=min(int(self.attained), MAX_INT),
            author_width=self.author_width, unsaved=self.unsaved, refusals=self.refusals, refusal=self.refusal,
            stopped_for=min(int(self.stopped_for), MAX_INT),
            spared_until=api_time(self.spared_until) if self.spared_until else "",
            held_since=api_time(self.held_since) if self.held_since else "",
            held_for=min(int(self.held_for), MAX_INT),
            beneficiary="/".join(self.beneficiary or ()),
            replicas=self.replicas if self.beneficiary is not None else _MISSING,
            priority=self.priority if self.beneficiary is not None else 0,
        )  # fmt: skip

    @classmethod
    def decode(cls, text: str, *, grants: bool = True) -> "Resize":
        """The record in an annotation's text; unknown keys are ignored. Raises AnnotationError if malformed.

        With `grants` false the grants are neither read nor checked, which saves most of the time, up to 3 ms. The
        caller must check that the pods are the Job's, and that they hold the slices.
        """
        read = _RECORD.read(text)
        if read.beneficiary and read.replicas == _MISSING:
            raise AnnotationError("resize: object missing required field replicas")
        return cls(
            gen=read.gen,
            before=read.before,
            after=read.after,
            asked=_seconds("asked", read.asked),
            until=_seconds("until", read.until),
            beneficiary=_job(read.beneficiary) if read.beneficiary else None,
            replicas=read.replicas if read.beneficiary else 0,
            priority=read.priority if read.beneficiary else 0,
            applied=read.applied,
            grants=_grants(text) if grants else (),
            attained=float(read.attained),
            author_width=read.author_width,
            unsaved=read.unsaved,
            spared_until=_seconds("sparedUntil", read.spared_until) if read.spared_until else 0.0,
            refusals=read.refusals,
            refusal=read.refusal,
            stopped_for=float(read.stopped_for),
            held_since=_seconds("heldSince", read.held_since) if read.held_since else 0.0,
            held_for=float(read.held_for),
        )


_MISSING = -1
_Time = Annotated[str, Meta(min_length=1, max_length=20)]


class _Record(msgspec.Struct, gc=False, omit_defaults=True):
    """A record in its JSON form, without its grants; a key with its default value is not written."""

    gen: Count
    before: Amount = msgspec.field(name="from")
    after: Amount = msgspec.field(name="to")
    asked: _Time
    until: _Time
    applied: bool
    attained: Amount = 0
    author_width: Amount = msgspec.field(default=0, name="authorWidth")
    unsaved: Amount = 0
    refusals: Amount = 0
    refusal: Annotated[str, Meta(min_length=1, max_length=MAX_REFUSAL)] = ""
    stopped_for: Amount = msgspec.field(default=0, name="stoppedFor")
    spared_until: _Time = msgspec.field(default="", name="sparedUntil")
    held_since: _Time = msgspec.field(default="", name="heldSince")
    held_for: Amount = msgspec.field(default=0, name="heldFor")
    beneficiary: Annotated[str, Meta(min_length=1, max_length=317)] = msgspec.field(default="", name="for")
    replicas: Amount = _MISSING
    priority: Annotated[int, Meta(ge=-MAX_INT, le=MAX_INT)] = 0


class _Slice(msgspec.Struct, gc=False):
    """A slice in its JSON form, with its core groups as `0,2-4`."""

    card: Text
    mem_mib: Count = msgspec.field(name="memMiB")
    cores: Annotated[str, Meta(min_length=1, max_length=_CORES_LENGTH)]


class _Leaving(msgspec.Struct, gc=False):
    """The slices of a pod that will leave, in their JSON form."""

    pod: Text
    node: Text
    slices: Annotated[tuple[_Slice, ...], Meta(min_length=1, max_length=MAX_CONTAINERS)]


class _AllLeaving(msgspec.Struct, gc=False):
    grants: tuple[_Leaving, ...] = ()


_RECORD = Reader(_Record, "resize", longest=MAX_RECORD)
_LEAVING = Reader(_AllLeaving, "resize", longest=MAX_RECORD)


def _leaving(grant: Grant) -> _Leaving:
    slices = tuple(_Slice(s.card, s.mem_mib, ranges(s.cores, ",")) for s in grant.slices())
    return _Leaving(grant.pod, grant.node, slices)


def _grants(text: str) -> Sequence[Grant]:
    grants, cores = list[Grant](), 0
    for each in _LEAVING.read(text).grants:
        slices = tuple(Slice(s.card, s.mem_mib, _cores(s.cores)) for s in each.slices)
        grants.append(Grant(each.pod, each.node, {CONTAINER: slices}))
        cores += sum(len(s.cores) for s in slices)
        if cores > MAX_CORES:
            raise AnnotationError(f"resize: more than {MAX_CORES} core groups")
    if len({grant.pod for grant in grants}) != len(grants):
        raise AnnotationError("resize: two grants of one pod")
    return tuple(grants)


def api_time(time: float) -> str:
    """The text that the API server writes for a `time` in seconds since 1970."""
    return datetime.fromtimestamp(time, UTC).strftime(_TIME)


def _seconds(key: str, text: str) -> float:
    if not _TIMES.fullmatch(text):
        raise AnnotationError(f"resize: {key}: expected a time such as 2026-11-21T08:00:00Z")
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC).timestamp()
    except ValueError as error:
        raise AnnotationError(f"resize: {key}: {error}") from None


def _job(text: str) -> tuple[str, str]:
    namespace, _, name = text.partition("/")
    if not namespace or not name or name.count("/") > 1:
        raise AnnotationError("resize: for must be the namespace and the name of a Job, default/train")
    return namespace, name


def _cores(text: str) -> tuple[int, ...]:
    return tuple(core for first, last in _read_runs(text) for core in range(first, last + 1))


def _read_runs(text: str) -> Iterator[tuple[int, int]]:
    least = 0
    for run in text.split(","):
        match = _RUN.fullmatch(run)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, -1)
        if not least <= first <= last < MAX_COMPUTE_UNITS:
            raise AnnotationError(
                f"resize: cores must be ascending ids below {MAX_COMPUTE_UNITS}, such as 0-3,8"
            )
        yield first, last
        least = last + 1
