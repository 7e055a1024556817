"""Reclaim: which pods of this node still count, and the end of what is left of the others."""

import logging
import threading
from collections.abc import Sequence

from device_plugin.core.pods import Pod
from device_plugin.node.allocate import Allocator
from device_plugin.node.inject import Injector
from device_plugin.node.ports import Processes
from device_plugin.node.records import Records
from vgpu_runtime import region

log = logging.getLogger(__name__)


class ActivePods:
    """What the API server last showed of this node's pods. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._active: set[str] = set()
        self.synced = threading.Event()

    def sync(self, pods: Sequence[Pod]) -> None:
        """Take the full list."""
        with self._lock:
            self._active = {pod.uid for pod in pods if not pod.ended}
        self.synced.set()

    def change(self, pod: Pod, *, gone: bool) -> None:
        """Take one change."""
        with self._lock:
            if gone or pod.ended:
                self._active.discard(pod.uid)
            else:
                self._active.add(pod.uid)

    def active(self, pod: str) -> bool:
        """True if the pod of this UID exists and has not ended, as far as we know."""
        with self._lock:
            return pod in self._active


class Reclaimer:
    """Removes what belongs to pods that have ended and whose processes are gone."""

    def __init__(
        self,
        records: Records,
        injector: Injector,
        pods: ActivePods,
        processes: Processes,
        allocator: Allocator,
    ) -> None:
        self._records = records
        self._injector = injector
        self._pods = pods
        self._processes = processes
        self._allocator = allocator
        self._untrimmed: set[str] = set()

    def sweep(self) -> int:
        """Remove all that can go now; returns how many containers that were. Does nothing before the first list."""
        if not self._pods.synced.is_set():
            return 0
        ended = [r for r in self._records.all() if not self._counts(r.pod)]
        removed = 0
        for record in ended:
            with self._allocator.lock:
                # A container that was prepared meanwhile is another one, whatever its tickets.
                if self._counts(record.pod):
                    continue
                now = self._records.get(*record.key)
                if now is not None:
                    self._allocator.remove(now)
                    if self._records.get(*now.key) is not None:
                        continue  # files are left, as the records have said
                    removed += 1
                    log.info(
                        "pod %s/%s container %s is gone, so are its files",
                        now.namespace,
                        now.pod_name,
                        now.container,
                    )
        return removed

    def trim(self) -> None:
        """Cut usage regions that tenants have grown back to their size: they lie on the host's disk."""
        records = self._records.all()
        self._untrimmed &= {record.pod for record in records}
        for record in records:
            path = self._records.folder(*record.key) / "region" / "usage"
            try:
                grown = region.trim(path)
            except FileNotFoundError:  # not carried yet, or just reclaimed
                continue
            except OSError as error:
                if record.pod not in self._untrimmed:
                    self._untrimmed.add(record.pod)
                    log.warning(
                        "the usage region of pod %s/%s may grow: it cannot be trimmed (%s)",
                        record.namespace,
                        record.pod_name,
                        error,
                    )
                continue
            if grown:
                log.warning("pod %s/%s had grown its usage region", record.namespace, record.pod_name)

    def sweep_strays(self) -> None:
        """Remove specs of ours that no record names."""
        with self._allocator.lock:
            self._injector.withdraw(self._injector.strays())

    def _counts(self, pod: str) -> bool:
        return self._pods.active(pod) or self._processes.live(pod)
