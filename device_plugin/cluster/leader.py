"""Leadership: decides by the Lease whether this replica leads; its own kube-scheduler acquires and renews the Lease.

Two machines' clocks cannot be compared, so the age of a Lease is counted on our own clock. If a read shows a changed
Lease, the Lease has changed since the read before. So its age counts from the start of that earlier read, and is never
too low. A Lease that was never seen to change has no known age.
"""

import threading
from collections.abc import Callable

from device_plugin.kube.leases import Lease

# Seconds of the Lease's 15 s: the rest covers the timeout of a Binding that was sent at the last moment.
FENCE_SECONDS = 10.0
_BEGINNING = (
    "leading, but earlier Bindings must end, and all pods must be listed, before the first pod is placed"
)


class Leader:
    """Decides by the Lease, as this replica reads it, whether this replica leads.

    One thread calls `observe`; any thread may call the other methods.
    """

    def __init__(
        self, pod_name: str, clock: Callable[[], float], fence_seconds: float = FENCE_SECONDS
    ) -> None:
        self._pod_name = pod_name
        self._clock = clock
        self._fence = fence_seconds
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._asked: float | None = None
        self._renewed: float | None = None
        self._error = "the Lease was not read yet"
        self._placing = False

    def observe(self, lease: Lease | None, started: float) -> None:
        """Record the Lease (None: there is none) that a read returned.

        `started` is the time when this read began. If the Lease has changed since the previous read, the start of the
        previous read counts as the time of the Lease's renewal.
        """
        with self._lock:
            if lease != self._lease:
                self._renewed = self._asked
            self._lease = lease
            self._asked = started
            self._error = ""

    def missed(self, error: str) -> None:
        """Record that the Lease could not be read."""
        with self._lock:
            self._error = f"the Lease cannot be read: {error}"

    def begin(self) -> None:
        """Start the term: the ledger is complete, and this replica may place pods."""
        with self._lock:
            self._placing = True

    def end(self) -> None:
        """End the term: this replica may place pods no longer."""
        with self._lock:
            self._placing = False

    @property
    def term(self) -> bool:
        """True between `begin` and `end`: this replica may place, unless it has lost the Lease."""
        return self._placing

    @property
    def holds(self) -> bool:
        """True if the latest successful read showed the Lease as ours, even if that was long ago."""
        with self._lock:
            return self._lease is not None and self._ours(self._lease.holder)

    def fenced(self) -> bool:
        """True while no other replica can have the Lease: it is ours, and was renewed in the last `fence_seconds`."""
        with self._lock:
            return not self._why_not_fenced()

    def why_not(self) -> str:
        """The reason why this replica must not place or bind now, as text; empty if it may."""
        with self._lock:
            return self._why_not_fenced() or ("" if self._placing else _BEGINNING)

    def unread(self) -> str:
        """The error of the latest read of the Lease, as text; empty if it succeeded."""
        with self._lock:
            return self._error

    def _why_not_fenced(self) -> str:
        if self._lease is None:
            return self._error or "nobody holds the scheduler's Lease yet"
        if not self._ours(self._lease.holder):
            return f"the Lease is held by {self._lease.holder or 'nobody'}, not by this replica"
        if self._renewed is None:
            return "the Lease was not seen to be renewed yet"
        age = self._clock() - self._renewed
        if age >= self._fence:
            return f"the Lease was not renewed for {age:.0f} s"
        return ""

    def _ours(self, holder: str) -> bool:
        # kube-scheduler's identity is its host name, which is the pod's name, and a uuid (cmd/kube-scheduler/app).
        name, mark, _ = holder.partition("_")
        return bool(mark) and name == self._pod_name
