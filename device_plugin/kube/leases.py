"""Leases: leader election among replicas, by the rules of client-go (tools/leaderelection).

The clocks of two machines cannot be compared, so each replica uses its own clock only. The age of another replica's
Lease begins when we first saw its last renewal; the age of our own Lease begins just before we sent the renewal. A
candidate that sees a renewal late takes the Lease late, but never early. A candidate that watches the Lease takes it on
time.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from device_plugin.core.contract.annotations import NOTE
from device_plugin.kube.api import Api, Kind, Object, Ref
from device_plugin.kube.errors import ConflictError, GoneError

NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it was read. Two reads are equal if nobody renewed or took the Lease between them.

    `note` is a message of the holder to all candidates, from an annotation; empty if there is none.
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
    """Returns the Lease in an object of coordination.k8s.io/v1; missing fields are empty."""
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
    """One candidate's view of a Lease: a state machine without I/O or a clock. One thread writes; others may read.

    After each read, `next` returns the Lease to write; the caller calls `wrote` once it is written. A Lease lasts
    `seconds`. Its holder acts only for `fence` seconds after a renewal, so that its last requests end before the Lease
    does. Another candidate may take the Lease `early` seconds before it ends.
    """

    def __init__(self, identity: str, seconds: float = 15.0, fence: float = 10.0, early: float = 0.0) -> None:
        self.identity = identity
        # A Lease counts in whole seconds.
        self._seconds = max(1, round(seconds))
        self._fence = fence
        self._early = early
        # The Lease with the last renewal that we saw, and the time when we first saw it. Both are replaced together.
        self._seen: tuple[Lease | None, float] = None, NEVER
        self._renewed = NEVER

    def see(self, found: Lease, now: float) -> float:
        """Record a Lease that a read or a watch showed at `now`; returns when its last renewal was first seen.

        Any thread may call it.
        """
        seen, at = self._seen
        if found == seen:
            return at
        self._seen = found, now
        return now

    def taken_from(self) -> float:
        """The time from which another holder's Lease may be taken if not renewed; NEVER without another holder."""
        seen, at = self._seen
        return NEVER if seen is None or seen.holder in ("", self.identity) else self._end(seen, at)

    def next(self, found: Lease | None, now: float, time: str) -> Lease | None:
        """Returns the Lease to write after a read at `now` showed `found`; None while another candidate holds it.

        `time` is the time of renewal to write, in RFC 3339. If `found` has another holder, this candidate no longer
        leads.
        """
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
        """Record that the Lease that `next` returned was written, by a request sent at `sent`.

        The Lease is ours from then on.
        """
        self._renewed = sent

    def released(self, found: Lease | None, time: str) -> Lease | None:
        """End the leadership of this candidate; returns the Lease to write so that another candidate may take it now.

        `time` is the time of renewal to write, in RFC 3339. Returns None if the Lease is not ours.
        """
        self._renewed = NEVER
        if found is None or found.holder != self.identity:
            return None
        return Lease("", time, found.acquired, 1, found.transitions, found.version)

    def leads(self, now: float) -> bool:
        """True while no other candidate can have taken the Lease."""
        return now - self._renewed < self._fence

    def _end(self, lease: Lease, seen_at: float) -> float:
        """Returns the time from which a Lease may be taken, if its last renewal was first seen at `seen_at`."""
        return seen_at + lease.seconds - self._early


class Candidate:
    """Acquires and renews a Lease through the API server. Call `attempt` every few seconds.

    `time` returns the wall clock in RFC 3339. A Lease's note is an annotation: a message of its holder to all
    candidates. `note` returns the new note, and gets the note that the Lease has now.
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
        """The time on `clock` at which the latest successful read was sent."""
        self._attempted = NEVER

    def attempt(self, *, takes_free: bool = True) -> bool:
        """Try once to acquire or renew the Lease; returns true if it was written. Raises ApiError.

        If `takes_free` is false, a Lease without a holder is left alone; an expired Lease of another holder is still
        taken.
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
        """Give up the Lease if it is ours, so that another candidate need not wait until it expires.

        Raises ApiError.
        """
        found = self._read()
        wanted = self._election.released(found, self._time())
        if found is not None and wanted is not None:
            self._write(found, replace(wanted, note=found.note))

    def leads(self) -> bool:
        """True while no other candidate can have taken the Lease."""
        return self._election.leads(self._clock())

    def see(self, lease: Lease) -> None:
        """Record the Lease as a watch shows it, perhaps late; Leases of other names are ignored. Safe in any thread."""
        if lease.name == self._of.name:
            self._election.see(lease, self._clock())

    def due(self, usual: float) -> float:
        """Returns the seconds until the next attempt: `usual`, or fewer if another holder's Lease may be taken sooner.

        Returns 0 if the Lease became free to take after the previous attempt.
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
    """Returns the Lease object to write, with the version that was read, so that only one of several writers wins."""
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
