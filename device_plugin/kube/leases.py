"""Leases: leader election among replicas, by the rules of client-go (tools/leaderelection).

Two machines' clocks cannot be compared. So the age of another's Lease is counted on our own clock, from the moment when
we first saw its last renewal, and the age of our own from before its renewal was sent. A candidate that sees a renewal
late takes the Lease late, never early; a candidate whose watch shows it the renewals takes it on time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from device_plugin.core.contract.annotations import NOTE
from device_plugin.kube.api import Api, Kind, Object, Ref
from device_plugin.kube.errors import ConflictError, GoneError

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it was read. Two reads are equal if it was not renewed or taken in between; no clocks are compared.

    `note` is what its holder lets all candidates know: the text of an annotation, empty without one.
    """

    holder: str
    renewed: str
    acquired: str = field(default="", compare=False)
    seconds: int = field(default=0, compare=False)
    transitions: int = field(default=0, compare=False)
    version: str = field(default="", compare=False)
    note: str = field(default="", compare=False)
    name: str = field(default="", compare=False)


def _lease(found: Object) -> Lease:
    """The Lease in an object of coordination.k8s.io/v1; what is absent is empty."""
    spec, metadata = found.get("spec") or {}, found["metadata"]
    return Lease(
        spec.get("holderIdentity") or "",
        spec.get("renewTime") or "",
        spec.get("acquireTime") or "",
        spec.get("leaseDurationSeconds") or 0,
        spec.get("leaseTransitions") or 0,
        metadata.get("resourceVersion", ""),
        (metadata.get("annotations") or {}).get(NOTE, ""),
        metadata["name"],
    )


LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", Lease, _lease)


class Election:
    """One candidate's view of a Lease: a state machine without I/O and clock. One thread writes; others may look.

    After each read `next` says what to write; the caller reports by `wrote` that this was done. A Lease lasts
    `seconds`, and its holder acts for `fence` seconds after a renewal: the rest covers what it sent in the last moment.
    Another candidate may take it `early` seconds before its end, to hold it by then.
    """

    def __init__(self, identity: str, seconds: float = 15.0, fence: float = 10.0, early: float = 0.0) -> None:
        self.identity = identity
        # A Lease counts in whole seconds.
        self._seconds = max(1, round(seconds))
        self._fence = fence
        self._early = early
        # The Lease with its last renewal that was seen, and when that was first seen. Replaced together.
        self._seen: tuple[Lease | None, float] = None, NEVER
        self._renewed = NEVER

    def see(self, found: Lease, now: float) -> float:
        """The time at which the last renewal of `found` was first seen; a read or a watch showed it at `now`.

        May be called from any thread.
        """
        seen, at = self._seen
        if found == seen:
            return at
        self._seen = found, now
        return now

    def taken_from(self) -> float:
        """The time from which another's Lease may be taken, if it is not renewed; in the past for any other Lease."""
        seen, at = self._seen
        return NEVER if seen is None or seen.holder in ("", self.identity) else self._end(seen, at)

    def next(self, found: Lease | None, now: float, time: str) -> Lease | None:
        """The Lease to write after a read that ended at `now` showed `found`; None while another candidate holds it."""
        if found is None:
            return Lease(self.identity, time, time, self._seconds)
        seen_at = self.see(found, now)
        if found.holder == self.identity:
            return Lease(
                self.identity, time, found.acquired or time, self._seconds, found.transitions, found.version
            )
        self._renewed = NEVER
        if found.holder and now < self._end(found, seen_at):
            return None
        return Lease(self.identity, time, time, self._seconds, found.transitions + 1, found.version)

    def wrote(self, sent: float) -> None:
        """The Lease of the last `next` was written, by a request that was sent at `sent`."""
        self._renewed = sent

    def released(self, found: Lease | None, time: str) -> Lease | None:
        """The Lease to write to give it up at once, or None if it is not ours."""
        self._renewed = NEVER
        if found is None or found.holder != self.identity:
            return None
        return Lease("", time, found.acquired, 1, found.transitions, found.version)

    def leads(self, now: float) -> bool:
        """True while no other candidate can have taken the Lease."""
        return now - self._renewed < self._fence

    def _end(self, lease: Lease, seen_at: float) -> float:
        """The time from which a Lease may be taken whose last renewal was first seen at `seen_at`."""
        return seen_at + lease.seconds - self._early


class Candidate:
    """Holds a Lease by an API server. Call `attempt` every few seconds; `time` is the wall clock in RFC 3339.

    `note` returns the note to write, given the note that stands there.
    """

    def __init__(
        self, api: Api, of: Ref, election: Election, clock: Callable[[], float], time: Callable[[], str],
        note: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        self._api = api
        self._of = of
        self._election = election
        self._clock = clock
        self._time = time
        self._note = note
        self.found: Lease | None = None
        """The Lease as it was last read or written."""
        self.read_at = NEVER
        """When the last read that succeeded was sent, by the clock."""
        self._attempted = NEVER

    def attempt(self, *, takes_free: bool = True) -> bool:
        """Acquire or renew the Lease, once; true if it was written, false if another was first. Raises ApiError.

        Without `takes_free` a Lease that nobody holds is left alone, but not that of a holder who has let it expire.
        """
        begun = self._attempted = self._clock()
        found = self.found = self._read()
        self.read_at = begun
        wanted = self._election.next(found, self._clock(), self._time())
        if wanted is None or not (takes_free or (found is not None and found.holder)):
            return False
        wanted = replace(wanted, note=self._note(found.note if found is not None else ""))
        sent = self._clock()
        try:
            self._write(found, wanted)
        except ConflictError:
            return False
        self._election.wrote(sent)
        self.found = wanted
        return True

    def release(self) -> None:
        """Give the Lease up, if it is ours, so that another candidate need not wait for its end. Raises ApiError."""
        found = self._read()
        wanted = self._election.released(found, self._time())
        if found is not None and wanted is not None:
            self._write(found, replace(wanted, note=found.note))

    def leads(self) -> bool:
        """True while no other candidate can have taken the Lease."""
        return self._election.leads(self._clock())

    def see(self, lease: Lease) -> None:
        """Note the Lease as a watch shows it, which may be late; other Leases are ignored. Safe from any thread."""
        if lease.name == self._of.name:
            self._election.see(lease, self._clock())

    def due(self, usual: float) -> float:
        """Seconds until the next attempt: `usual`, or fewer if another's Lease may be taken before.

        0 if it may be taken since the last attempt.
        """
        at = self._election.taken_from()
        return usual if at <= self._attempted else min(usual, max(0.0, at - self._clock()))

    def _read(self) -> Lease | None:
        try:
            return self._api.get(LEASES, self._of)
        except GoneError:
            return None

    def _write(self, found: Lease | None, wanted: Lease) -> None:
        body = _body(self._of, wanted)
        if found is None:
            self._api.create(LEASES, body, self._of.namespace)
        else:
            self._api.replace(LEASES, self._of, body)


def _body(of: Ref, lease: Lease) -> Object:
    """The Lease object to write. It has the version read before, so that the first of several candidates wins."""
    spec = {
        "holderIdentity": lease.holder,
        "leaseDurationSeconds": lease.seconds,
        "acquireTime": lease.acquired or None,
        "renewTime": lease.renewed,
        "leaseTransitions": lease.transitions,
    }
    meta: dict[str, object] = {
        "name": of.name, "namespace": of.namespace, "resourceVersion": lease.version,
        "annotations": {NOTE: lease.note} if lease.note else None,
    }  # fmt: skip
    return {
        "apiVersion": LEASES.api_version, "kind": LEASES.name,
        "metadata": {key: value for key, value in meta.items() if value},
        "spec": spec,
    }  # fmt: skip
