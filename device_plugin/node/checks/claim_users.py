"""Claim users: finds out whether processes of any pod still use the slices of a ResourceClaim.

The kubelet gives a claim's devices to every pod that may use the claim, and asks the agent once for all these pods. Our
admission policies keep each claim to one pod. If a second pod gets in nevertheless, it may still use the slices when
the first pod ends.
"""

import time
from collections.abc import Callable

from device_plugin.node.checks import mountinfo
from device_plugin.node.ports import HostProcesses
from device_plugin.node.slices.records import Record

# Seconds for which an answer holds: the mounts of all pods' processes are read for it.
LOOK_SECONDS = 3.0


class ClaimUsers:
    """Reads from processes' mounts whether any pod still uses the files of a container with a ResourceClaim."""

    def __init__(self, processes: HostProcesses, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._clock = clock
        self._used: dict[str, tuple[float, bool]] = {}

    def using(self, record: Record) -> bool:
        """True if a process of any pod has a file of the record's container mounted, or if that cannot be found out.

        `record` is the agent's state of the container.
        """
        now = self._clock()
        self._used = {uid: (at, used) for uid, (at, used) in self._used.items() if now - at < LOOK_SECONDS}
        if record.claim not in self._used:
            self._used[record.claim] = now, self._look(record)
        return self._used[record.claim][1]

    def _look(self, record: Record) -> bool:
        part = f"/slices/{record.pod}/{record.container}/"
        try:
            self._processes.look()
        except OSError:
            return True
        for pod in self._processes.live_pods():
            for process in self._processes.of(pod):
                found = self._processes.mounts(process)
                # Without the end of a long text nothing is certain.
                if found is not None and (
                    not found[1] or any(part in mount.root for mount in mountinfo.parse(found[0]))
                ):
                    return True
        return False
