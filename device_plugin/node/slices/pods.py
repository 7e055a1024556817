"""The pods of this node with their grants, and which of these pods may still hold their slices.

A pod that has ended, or that the API server no longer shows, may still have processes: its slices are free when these
processes are gone.
"""

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from device_plugin.core.contract.annotations import IDLE_LIMIT
from device_plugin.core.contract.grants import Grant
from device_plugin.core.errors import AnnotationError
from device_plugin.core.idle import idle_limit
from device_plugin.core.pods import Pod
from device_plugin.node.ports import Processes


class _Active(NamedTuple):
    """A pod's namespace and name, its grant, and its idle limit in seconds.

    `grant` and `idle_limit` are None if missing or invalid. `deleting` is true if the pod is being deleted.
    """

    named: tuple[str, str]
    grant: Grant | None
    idle_limit: int | None
    deleting: bool


class NodePods:
    """The pods of this node as the API server last showed them, and their processes. Safe from any thread."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        # By UID.
        self._active: dict[str, _Active] = {}
        self.synced = threading.Event()

    def sync(self, pods: Sequence[Pod]) -> None:
        """Replace all known pods by this full list, and set `synced`."""
        with self._lock:
            self._active = {pod.uid: _active(pod) for pod in pods if not pod.ended}
        self.synced.set()

    def change(self, pod: Pod, *, gone: bool) -> None:
        """Record the state of a pod after a watch event; `gone` if it was deleted."""
        with self._lock:
            if gone or pod.ended:
                self._active.pop(pod.uid, None)
            else:
                self._active[pod.uid] = _active(pod)

    def active(self, pod: str) -> bool:
        """True if the pod of this UID exists and has not ended, as the API server last showed it."""
        return self.name(pod) is not None

    def name(self, pod: str) -> tuple[str, str] | None:
        """The namespace and name of an active pod; None if the pod is not active."""
        with self._lock:
            found = self._active.get(pod)
        return found.named if found is not None else None

    def grants(self) -> Collection[Grant]:
        """The grants of all pods of the node that have not ended."""
        with self._lock:
            return [pod.grant for pod in self._active.values() if pod.grant is not None]

    def idle_limits(self) -> Collection[tuple[Grant, int]]:
        """The grants and idle limits, in seconds, of all active pods that have both and are not being deleted."""
        with self._lock:
            active = list(self._active.values())
        return [
            (pod.grant, pod.idle_limit)
            for pod in active
            if pod.grant is not None and pod.idle_limit is not None and not pod.deleting
        ]

    def stays(self, pod: str) -> bool:
        """True if the pod of this UID is active and is not being deleted."""
        with self._lock:
            found = self._active.get(pod)
        return found is not None and not found.deleting

    def running(self, pod: str) -> bool:
        """True while any process of the pod runs, its sandbox included."""
        return self._processes.live(pod)

    def holding(self, pod: str) -> bool:
        """True while the pod may hold its slices: it is active, or processes of it run."""
        return self.active(pod) or self.running(pod)


def _active(pod: Pod) -> _Active:
    grant = None
    # The allocator reports a grant that cannot be read.
    with suppress(AnnotationError):
        grant = pod.grant()
    return _Active((pod.namespace, pod.name), grant, idle_limit(pod.annotation(IDLE_LIMIT)), pod.deleting)
