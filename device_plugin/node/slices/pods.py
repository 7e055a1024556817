"""The pods of this node: which of them may still hold their slices.

A pod that the API server no longer shows, or that has ended, may have processes all the same: its slices are free when
they are gone.
"""

import threading
from collections.abc import Sequence

from device_plugin.core.pods import Pod
from device_plugin.node.ports import Processes


class NodePods:
    """The pods of this node as the API server last showed them, and their processes. Safe from any thread."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
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
        """Record the state of a pod after a watch event; `gone` if it was deleted."""
        with self._lock:
            if gone or pod.ended:
                self._active.pop(pod.uid, None)
            else:
                self._active[pod.uid] = pod.namespace, pod.name

    def active(self, pod: str) -> bool:
        """True if the pod of this UID exists and has not ended, as far as we know."""
        return self.name(pod) is not None

    def name(self, pod: str) -> tuple[str, str] | None:
        """Namespace and name of an active pod."""
        with self._lock:
            return self._active.get(pod)

    def running(self, pod: str) -> bool:
        """True while any process of the pod runs, its sandbox included."""
        return self._processes.live(pod)

    def holding(self, pod: str) -> bool:
        """True while the pod may hold its slices: it is active, or processes of it run."""
        return self.active(pod) or self.running(pod)
