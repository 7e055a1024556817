"""What pods will probably ask for is learnt from those that came, and put to use off the decision path.

The tables of policies take seconds to make, so another process makes them, and scores by new tables are made a few
nodes at a time between decisions: no /filter waits longer than for those few nodes.
"""

import logging
from collections.abc import Callable, Sequence

from device_plugin.cluster.ports import FitError
from device_plugin.cluster.reservations import Reservations
from device_plugin.cluster.view import ClusterView
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.table import Kind
from device_plugin.core.placement.workload import Weighted

log = logging.getLogger(__name__)

Make = Callable[[Sequence[Kind], Sequence[int], Sequence[Weighted]], WorkloadTables]
# Tables are made again after FIRST arrivals, after twice as many each time, and then after each MOST arrivals; not more
# often than every PAUSE_SECONDS, and for a tenth of the time at most.
FIRST, MOST = 64, 1024
PAUSE_SECONDS, PAUSE_TIMES = 30.0, 9.0
# Nodes that are looked at while the lock is held: about a third of a millisecond.
NODES = 64


class Refit:
    """Call `step` about once a second, in one thread. `pause` lets others have the lock; true if the service ends."""

    def __init__(
        self, view: ClusterView, reservations: Reservations, make: Make, clock: Callable[[], float],
        pause: Callable[[], bool],
    ) -> None:  # fmt: skip
        self._view = view
        self._reservations = reservations
        self._make = make
        self._clock = clock
        self._pause = pause
        self._kinds: Sequence[Kind] = ()
        self._arrivals = 0
        self._not_before = float("-inf")

    def step(self) -> None:
        """Learn what is due, and bring scores and the measured fragmentation up to date."""
        with self._view.lock:
            kinds, supply = self._reservations.placer.supply()
            target = self._reservations.learning.target.copy() if self._due(kinds) else None
        if target is not None:
            started = self._clock()
            try:
                tables = self._make(kinds, supply, target.affordable())
            except FitError as error:
                log.warning("the target workload was not learnt, the one of before stays: %s", error)
            else:
                self._kinds, self._arrivals = kinds, target.arrivals
                with self._view.lock:
                    self._reservations.placer.install(tables)
                log.info("target workload learnt arrivals=%d shapes=%d", target.arrivals, len(tables.shapes))
            ended = self._clock()
            self._not_before = max(started + PAUSE_SECONDS, ended + PAUSE_TIMES * (ended - started))
        while not self._renewed() and not self._pause():
            pass

    def _due(self, kinds: Sequence[Kind]) -> bool:
        arrivals = self._reservations.learning.target.arrivals
        if arrivals < FIRST or self._clock() < self._not_before:
            return False
        return kinds != self._kinds or arrivals >= self._arrivals + max(FIRST, min(self._arrivals, MOST))

    def _renewed(self) -> bool:
        with self._view.lock:
            return self._reservations.placer.renew(NODES)
