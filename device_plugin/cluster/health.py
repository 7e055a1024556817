"""/healthz says whether our own loops turn, /readyz whether we know the cluster and can reach it."""

import threading
from collections.abc import Callable

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.view import ClusterView

# A loop makes a handful of calls of at most 3 s each in one turn.
STUCK_SECONDS = 60.0


class Health:
    """The loops call `beat`; the rest asks."""

    def __init__(self, view: ClusterView, leader: Leader, clock: Callable[[], float]) -> None:
        self._view = view
        self._leader = leader
        self._clock = clock
        self._lock = threading.Lock()
        self._beats: dict[str, float] = {}

    def beat(self, loop: str) -> None:
        """The loop lives."""
        with self._lock:
            self._beats[loop] = self._clock()

    def why_dead(self) -> str:
        """Which loops hang, in words; empty if none."""
        now = self._clock()
        with self._lock:
            stuck = {name: now - beat for name, beat in self._beats.items() if now - beat >= STUCK_SECONDS}
        return "; ".join(f"{name} has not turned for {age:.0f} s" for name, age in sorted(stuck.items()))

    def why_not_ready(self) -> str:
        """The missing parts, as text; empty if this replica could lead, whether it does or not."""
        return "; ".join(why for why in (self._view.why_not_synced(), self._leader.unread()) if why)
