"""Refit: compute tables from the learnt mix of requests, then the scores of nodes from these tables, in the background.

The tables take seconds to compute, so another process computes them. The scores are computed for a few nodes at a time,
between decisions, so that a /filter waits only for these few nodes.
"""

import logging
from collections.abc import Callable, Sequence

from device_plugin.allocator.service import Service, Shared
from device_plugin.core.errors import VgpuError
from device_plugin.core.placement.card_columns import CardKind
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import Weighted

log = logging.getLogger(__name__)

Make = Callable[[Sequence[CardKind], Sequence[int], Sequence[Weighted]], WorkloadTables]
# Tables are computed again after 64 arrivals (FIRST), then after 128, 256, 512 and 1,024, then after every further
# 1,024 (MOST); at most every PAUSE_SECONDS, and for at most 1/10 of the time.
FIRST, MOST = 64, 1024
PAUSE_SECONDS, PAUSE_TIMES = 30.0, 9.0
# Nodes that are scored while the lock is held once: about 0.3 ms.
NODES = 64


class FitError(VgpuError):
    """The tables for the learnt mix of requests (workload tables) could not be computed.

    Cure: check that the allocator's container has enough memory and CPU; the allocator tries again by itself.
    """


class Refit(Service):
    """Computes tables for the learnt mix of requests, and nodes' scores; one thread calls `step` once a second.

    `pause` waits so that other threads get the lock; it returns true if the service ends.
    """

    def __init__(self, shared: Shared, make: Make, pause: Callable[[], bool]) -> None:
        super().__init__(shared)
        self._make = make
        self._pause = pause
        self._kinds: Sequence[CardKind] = ()
        self._arrivals = 0
        self._not_before = float("-inf")

    def step(self) -> None:
        """Compute the placement tables for the learnt mix of requests, if they are due.

        Then update the scores of all nodes and the gauge of fragmentation.

        Returns once all scores are up to date, or the service ends.
        """
        with self._view.lock:
            kinds, supply = self._allocator.placer.supply()
            target = self._allocator.learning.target.copy() if self._due(kinds) else None
        if target is not None:
            started = self._clock()
            try:
                tables = self._make(kinds, supply, target.affordable())
            except FitError as error:
                log.warning("the target workload was not learnt, the earlier one stays: %s", error)
            else:
                self._kinds, self._arrivals = kinds, target.arrivals
                with self._view.lock:
                    self._allocator.placer.install(tables)
                log.info("target workload learnt arrivals=%d shapes=%d", target.arrivals, len(tables.shapes))
            ended = self._clock()
            self._not_before = max(started + PAUSE_SECONDS, ended + PAUSE_TIMES * (ended - started))
        while not self._renewed() and not self._pause():
            pass

    def _due(self, kinds: Sequence[CardKind]) -> bool:
        arrivals = self._allocator.learning.target.arrivals
        if arrivals < FIRST or self._clock() < self._not_before:
            return False
        return kinds != self._kinds or arrivals >= self._arrivals + max(FIRST, min(self._arrivals, MOST))

    def _renewed(self) -> bool:
        with self._view.lock:
            return self._allocator.placer.renew(NODES)
