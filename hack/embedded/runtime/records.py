"""The runtime's memory of containers: the newest attempt of each."""

import threading

from hack.embedded.runtime.containers import RunningContainer


class ContainerRecords:
    """Containers by pod UID and name; safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._containers: dict[tuple[str, str], RunningContainer] = {}

    def add(self, container: RunningContainer) -> None:
        """Remember a container in place of its earlier attempt."""
        with self._lock:
            self._containers[container.spec.pod_uid, container.spec.name] = container

    def all(self) -> list[RunningContainer]:
        """The newest attempt of every container."""
        with self._lock:
            return list(self._containers.values())

    def forget(self, pod_uid: str) -> None:
        """Drop a pod's containers that have ended."""
        with self._lock:
            for key, container in list(self._containers.items()):
                if key[0] == pod_uid and container.exit_code is not None:
                    del self._containers[key]
