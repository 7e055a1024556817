"""Reclaim: which pods of this node still count, and the end of what is left of the others."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence

from device_plugin.core.cards import AGENT_SECONDS
from device_plugin.core.pods import Pod
from device_plugin.node.allocate import Allocator
from device_plugin.node.inject import Injector
from device_plugin.node.ports import Processes
from device_plugin.node.records import Record, Records
from vgpu_runtime import region

log = logging.getLogger(__name__)


class ActivePods:
    """What the API server last showed of this node's pods. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # By UID: namespace and name.
        self._active: dict[str, tuple[str, str]] = {}
        self.synced = threading.Event()

    def sync(self, pods: Sequence[Pod]) -> None:
        """Take the full list."""
        with self._lock:
            self._active = {pod.uid: (pod.namespace, pod.name) for pod in pods if not pod.ended}
        self.synced.set()

    def change(self, pod: Pod, *, gone: bool) -> None:
        """Take one change."""
        with self._lock:
            if gone or pod.ended:
                self._active.pop(pod.uid, None)
            else:
                self._active[pod.uid] = pod.namespace, pod.name

    def active(self, pod: str) -> bool:
        """True if the pod of this UID exists and has not ended, as far as we know."""
        with self._lock:
            return pod in self._active

    def name(self, pod: str) -> tuple[str, str] | None:
        """Namespace and name of an active pod."""
        with self._lock:
            return self._active.get(pod)


class Reclaimer:
    """Removes what belongs to pods that have ended and whose processes are gone; tells which outlive their pod."""

    def __init__(
        self,
        records: Records,
        injector: Injector,
        pods: ActivePods,
        processes: Processes,
        allocator: Allocator,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._injector = injector
        self._pods = pods
        self._processes = processes
        self._allocator = allocator
        self._clock = clock
        self._untrimmed: set[str] = set()
        # When a sweep first saw that a pod had ended, by UID. None before the first sweep.
        self._ended: dict[str, float] | None = None
        self._outliving: tuple[Record, ...] = ()

    @property
    def ready(self) -> bool:
        """True once it is known which pods have ended, and so which slices outlive theirs."""
        return self._ended is not None

    def outliving(self) -> tuple[Record, ...]:
        """Containers whose pod has ended AGENT_SECONDS ago or more, by the last sweep, and still has processes."""
        return self._outliving

    def sweep(self) -> int:
        """Remove all that can go now; returns how many containers that were. Does nothing before the first list."""
        if not self._pods.synced.is_set():
            return 0
        ended = [r for r in self._records.all() if not self._pods.active(r.pod)]
        alive = {uid for uid in {record.pod for record in ended} if self._processes.live(uid)}
        self._note([record for record in ended if record.pod in alive])
        return sum(self._remove(record) for record in ended if record.pod not in alive)

    def _note(self, lingering: Sequence[Record]) -> None:
        """Remember when the pods of `lingering` ended.

        Pods found by the first sweep count as ended long ago: the previous agent may have reported them.
        """
        now = self._clock()
        before = self._ended
        self._ended = {
            record.pod: -math.inf if before is None else before.get(record.pod, now) for record in lingering
        }
        late = {uid for uid, since in self._ended.items() if now - since >= AGENT_SECONDS}
        for record in lingering:
            if record.pod in late and record not in self._outliving:
                log.warning(
                    "pod %s/%s has ended, and processes of it still run: its slices are not free",
                    record.namespace,
                    record.pod_name,
                )
        self._outliving = tuple(record for record in lingering if record.pod in late)

    def _remove(self, record: Record) -> bool:
        with self._allocator.lock:
            # A container that was prepared meanwhile is another one, whatever its tickets.
            if self._pods.active(record.pod) or self._processes.live(record.pod):
                return False
            now = self._records.get(*record.key)
            if now is None:
                return False
            self._allocator.remove(now)
            if self._records.get(*now.key) is not None:
                return False  # files are left, as the records have said
            log.info(
                "pod %s/%s container %s is gone, so are its files", now.namespace, now.pod_name, now.container
            )
            return True

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
