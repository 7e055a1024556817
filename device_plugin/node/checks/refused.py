"""Refused starts: containers that cannot start, because one of another pod runs on their slices.

Usually it ends within seconds: its pod was deleted by force, or its node was away. But somebody may have written that
a pod had ended whose containers run on, and then whoever was granted its slice waits in vain. After REFUSED_SECONDS
such a container is reported, and the allocator deletes its pod.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from device_plugin.core.grants import CardSize
from device_plugin.node.slices.claims import Claim, blocking_record
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records

# As long as most pods may take to end.
REFUSED_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    claim: Claim
    sizes: Mapping[str, CardSize]
    since: float


class RefusedStarts:
    """Safe from any thread. `clock` is monotonic, in seconds."""

    def __init__(self, records: Records, pods: NodePods, clock: Callable[[], float] = time.monotonic) -> None:
        self._records = records
        self._pods = pods
        self._clock = clock
        self._lock = threading.Lock()
        # By pod UID and container name.
        self._refusals: dict[tuple[str, str], _Refusal] = {}

    def look(self, claim: Claim, sizes: Mapping[str, CardSize]) -> Record | None:
        """The record of another pod's container that is in the way of this start; None if it may start.

        `sizes` are those of blocking_record.
        """
        blocking = self._blocking(claim, sizes)
        with self._lock:
            if blocking is None:
                self._refusals.pop(claim.record.key, None)
            else:
                self._refusals.setdefault(claim.record.key, _Refusal(claim, sizes, self._clock()))
        return blocking

    def found(self) -> tuple[Record, ...]:
        """The records that containers would get which were refused REFUSED_SECONDS ago, and still would be."""
        with self._lock:
            self._refusals = {
                key: each
                for key, each in self._refusals.items()
                if self._pods.active(key[0]) and self._blocking(each.claim, each.sizes) is not None
            }
            late = self._clock() - REFUSED_SECONDS
            return tuple(each.claim.record for each in self._refusals.values() if each.since <= late)

    def _blocking(self, claim: Claim, sizes: Mapping[str, CardSize]) -> Record | None:
        return blocking_record(
            claim.record.pod, claim.pod_slices, sizes, self._records.all(), self._pods.holding
        )
