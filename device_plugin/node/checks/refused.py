"""Refused starts: containers that cannot start, because a container of another pod runs on their slices.

Usually the other container ends within seconds: its pod was deleted by force, or its node was away. But if a pod was
marked as ended while its containers run on, the new holder of its slice waits in vain. After REFUSED_SECONDS such a
container is reported, and the allocator deletes its pod.
"""

import threading
import time
from collections.abc import Callable, Mapping

from device_plugin.core.contract.grants import CardSize
from device_plugin.node.checks.lasting import Lasting
from device_plugin.node.slices.admission import Wanted, blocking_record
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Records

# As long as most pods may take to end.
REFUSED_SECONDS = 30.0


class RefusedStarts:
    """Holds the containers whose start was refused because another pod's container uses their slices.

    Safe from any thread. `clock` is monotonic, in seconds.
    """

    def __init__(self, records: Records, pods: NodePods, clock: Callable[[], float] = time.monotonic) -> None:
        self._records = records
        self._pods = pods
        self._lock = threading.Lock()
        # By pod UID and container name: the slices that it was refused, and what their cards may hold.
        self._refused: dict[tuple[str, str], tuple[Wanted, Mapping[str, CardSize]]] = {}
        self._lasting = Lasting[tuple[str, str]](clock, REFUSED_SECONDS)

    def note(self, wanted: Wanted, sizes: Mapping[str, CardSize]) -> None:
        """Record that the start of a container was refused. `sizes` are the card sizes by which it was refused."""
        with self._lock:
            self._refused.setdefault(wanted.key, (wanted, sizes))
            self._lasting.note(wanted.key, found=True)

    def forget(self, key: tuple[str, str]) -> None:
        """Record that the container of this key is no longer refused."""
        with self._lock:
            self._refused.pop(key, None)
            self._lasting.note(key, found=False)

    def found(self) -> tuple[Wanted, ...]:
        """The slices of the containers that have been refused for REFUSED_SECONDS, and would still be refused now.

        Containers that would not be refused any more are forgotten.
        """
        with self._lock:
            self._refused = {key: each for key, each in self._refused.items() if self._is_refused(*each)}
            lasting = self._lasting.note_all(self._refused.keys())
            return tuple(wanted for key, (wanted, _) in self._refused.items() if key in lasting)

    def _is_refused(self, wanted: Wanted, sizes: Mapping[str, CardSize]) -> bool:
        if not self._pods.active(wanted.pod):
            return False
        records, holding = self._records.all(), self._pods.holding
        return blocking_record(wanted.pod, wanted.pod_slices, sizes, records, holding) is not None
