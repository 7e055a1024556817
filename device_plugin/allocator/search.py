"""A private copy of the ledger, on which searches try changes while pods are placed on the ledger itself.

A search of thousands of nodes, for a grant or for victims (pods to evict), takes seconds. The cluster view's lock is
held only to take a snapshot; the copy is then updated from the snapshot, node by node.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from device_plugin.allocator.service import Shared
from device_plugin.core.ledger import Ledger
from device_plugin.core.loads import Loads
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Planner

# A search computes for TURN_SECONDS and then pauses for PAUSE_SECONDS. It holds no lock, but only one thread of the
# interpreter runs at a time, so without pauses a search would slow /filter down as much as another /filter.
TURN_SECONDS, PAUSE_SECONDS = 0.001, 0.002

Item = TypeVar("Item")


class SearchCopy:
    """The private copy of the ledger. Any thread may search on it, one at a time.

    Searches score nodes by the same tables as decisions on the ledger itself. `wait` sleeps for the seconds that it is
    given.
    """

    def __init__(self, shared: Shared, wait: Callable[[float], object]) -> None:
        self._view = shared.view
        self._placer = shared.allocator.placer
        self._clock = shared.clock
        self._wait = wait
        self._lock = threading.Lock()
        self._ledger, self._loads = Ledger(), Loads()
        self._planner = Planner(self._ledger, self._placer.twin(self._ledger, self._loads))

    @contextmanager
    def planner(self, pod: Pod | None = None) -> Iterator[Planner]:
        """The planner of moves, on the private copy of the present ledger.

        Changes to the copy are rolled back at the end. If a pod is given, the slices kept for its job are free on the
        copy.
        """
        with self._lock:
            self._catch_up()
            with self._ledger.transaction():
                if pod is not None:
                    with self._view.lock:
                        promises = self._view.promises
                        promises.slices.release(promises.of(pod), self._ledger)
                yield self._planner

    def paced(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield the items; after each TURN_SECONDS of work, pause so that other threads can run."""
        started = self._clock()
        for item in items:
            yield item
            if self._clock() - started >= TURN_SECONDS:
                self._wait(PAUSE_SECONDS)
                started = self._clock()

    def _catch_up(self) -> None:
        """Update the private copy to the allocator's present ledger, measured loads and tables for scores."""
        with self._view.lock:
            snapshot, loads = self._view.ledger.snapshot(), self._view.measured.loads.copy()
            tables = self._placer.tables
        self._ledger.restore(snapshot)
        self._loads.restore(loads)
        if self._planner.placer.tables is not tables:
            self._planner.placer.use(tables)
