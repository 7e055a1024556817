"""What the services of one replica share: the view of the cluster, the decisions, the Lease, the clock and counters."""

from collections.abc import Callable
from dataclasses import dataclass

from device_plugin.cluster.lead.leader import Leader
from device_plugin.cluster.place.counts import Counts
from device_plugin.cluster.place.reservations import Reservations
from device_plugin.cluster.watch.view import ClusterView


@dataclass(frozen=True, slots=True)
class Shared:
    """The parts of one replica that its services share; times of its clock are in seconds."""

    view: ClusterView
    reservations: Reservations
    leader: Leader
    clock: Callable[[], float]
    counts: Counts


class ReplicaService:
    """A service of a replica, such as /filter or the touch: it works on the replica's shared parts."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._view = shared.view
        self._reservations = shared.reservations
        self._leader = shared.leader
        self._clock = shared.clock
        self._counts = shared.counts

    def _why_not_placing(self) -> str:
        """The reason why this replica must not place now, as text; empty if it may. It needs no lock of the view."""
        return self._leader.why_not() or self._view.why_not_synced()
