"""The events of Jobs that are prepared and not posted yet; namespaces take turns.

A tenant can cause events faster than they are posted, with thousands of Jobs that he writes again and again. Events of
his namespace are dropped before events of other namespaces, and an event of another namespace waits for only one event
of his.
"""

import threading
from collections import OrderedDict, deque

from device_plugin.core.batch import Job
from device_plugin.core.contract.events import Event

# Most events that wait; beyond them the oldest of the namespace with the most is dropped.
MOST_WAITING = 1000

Waiting = tuple[Job, Event, str]
"""The Job of an event, and the event with its text."""


class Backlog:
    """Holds the prepared events of all namespaces. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By namespace, the next one to be taken from first.
        self._of: OrderedDict[str, deque[Waiting]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, job: Job, event: Event, text: str) -> None:
        """Keep an event until `take` returns it.

        If too many events wait, the oldest event of the namespace with the most events is dropped.
        """
        with self._lock:
            self._of.setdefault(job.namespace, deque()).append((job, event, text))
            self._count += 1
            if self._count > MOST_WAITING:
                self._drop(max(self._of, key=lambda namespace: len(self._of[namespace])))

    def take(self) -> Waiting | None:
        """Remove and return the oldest event of the namespace whose turn it is; None if there is no event."""
        with self._lock:
            if not self._of:
                return None
            namespace = next(iter(self._of))
            self._of.move_to_end(namespace)
            return self._drop(namespace)

    def _drop(self, namespace: str) -> Waiting:
        waiting = self._of[namespace]
        oldest = waiting.popleft()
        self._count -= 1
        if not waiting:
            del self._of[namespace]
        return oldest
