"""Health: /healthz fails if one of our loops hangs, /readyz if the cluster is not known or not reachable."""

import threading

from device_plugin.cluster.place.service import ReplicaService, Shared

# Seconds without a turn after which a loop counts as hung: a turn makes a few calls of at most 3 s each.
STUCK_SECONDS = 60.0


class Health(ReplicaService):
    """Records the turns of each loop, and tells which loops hang."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._lock = threading.Lock()
        self._beats: dict[str, float] = {}

    def beat(self, loop: str) -> None:
        """Record a turn of `loop`."""
        with self._lock:
            self._beats[loop] = self._clock()

    def why_dead(self) -> str:
        """The loops that hang, as text; empty if none does."""
        now = self._clock()
        with self._lock:
            stuck = {name: now - beat for name, beat in self._beats.items() if now - beat >= STUCK_SECONDS}
        return "; ".join(f"{name} has not turned for {age:.0f} s" for name, age in sorted(stuck.items()))

    def why_not_ready(self) -> str:
        """The missing parts, as text; empty if this replica could lead, whether it does or not."""
        return "; ".join(why for why in (self._view.why_not_synced(), self._leader.unread()) if why)
