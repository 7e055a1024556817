"""A user of the cluster: creates, reads and deletes pods and Jobs, and reads the services' answers."""

import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, TypeVar

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.errors import VgpuError
from device_plugin.kube.api import EVENTS, JOBS, PODS, Kind, Ref, Where
from device_plugin.kube.errors import GoneError

NAMESPACE = "default"
KINDS: dict[str, Kind[Any]] = {kind.name: kind for kind in (PODS, JOBS)}
# Seconds for a call, enough for a slow machine; seconds between two checks of an awaited state.
SECONDS, LOOK_SECONDS = 60.0, 0.05
# Seconds that a measurement waits for a state that takes a few seconds on most machines.
PATIENCE_SECONDS = 900.0
Object = dict[str, Any]
T = TypeVar("T")


class NotInTimeError(VgpuError):
    """The awaited state did not come in time; the text names pods that do not run."""


class Person:
    """An ordinary user of an API server, in the namespace `default`. Each call may raise an ApiError. `close` it."""

    def __init__(self, url: str, user: str = "demo-user") -> None:
        self.api = KubeClient(Endpoint(url, lambda: f"Bearer {user}"), "vgpu-person", timeout=SECONDS)

    def close(self) -> None:
        """Close all connections."""
        self.api.close()

    def create(self, manifest: Object) -> Object:
        """Create a pod or a Job from a manifest."""
        return self.api.create(KINDS[manifest["kind"]].json, manifest, NAMESPACE)

    def pods(self) -> list[Object]:
        """All pods, oldest first."""
        listed = self.api.list(PODS.json, Where(NAMESPACE))
        return sorted(listed.items, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))

    def pod(self, name: str) -> Object | None:
        """The pod of this name; None if it does not exist."""
        return next((pod for pod in self.pods() if pod["metadata"]["name"] == name), None)

    def delete(self, name: str, grace: int | None = None, kind: str = "Pod") -> None:
        """Delete a pod, or a Job with its pods; `grace` 0 is `kubectl delete --force`."""
        self.api.delete(KINDS[kind], Ref(name, NAMESPACE), grace_seconds=grace)

    def remove(self, name: str, grace: int | None = None) -> None:
        """Delete a pod, without an error if it is gone already."""
        with suppress(GoneError):
            self.delete(name, grace)

    def events(self, name: str) -> list[str]:
        """The events of a pod or Job as `Reason: message`, oldest first."""
        items = sorted(
            self.api.list(EVENTS, Where(NAMESPACE)).items, key=lambda e: int(e["metadata"]["resourceVersion"])
        )
        return [f"{e['reason']}: {e['message']}" for e in items if e["involvedObject"]["name"] == name]

    def until(self, what: str, look: Callable[[], T | None], seconds: float = SECONDS) -> T:
        """The first true result of `look`. Raises NotInTimeError after `seconds`."""
        deadline = time.monotonic() + seconds
        while not (found := look()):
            if time.monotonic() > deadline:
                hanging = [pod for pod in self.pods() if phase(pod) != "Running"][:5]
                shown = "".join(f"\n{pod['metadata']['name']}: {pod['status']}" for pod in hanging)
                raise NotInTimeError(f"waited {seconds:.0f} s for {what}{shown}")
            time.sleep(LOOK_SECONDS)
        return found


def phase(pod: Object) -> str:
    """The phase in the pod's status."""
    return str(pod["status"].get("phase", "Pending"))


def read(server: str, target: str, accept: str = "*/*") -> str:
    """The body of the answer to a GET, for any HTTP status; `server` is a URL without a path."""
    with closing(Connections(Endpoint(server, lambda: None), SECONDS)) as connections:
        _, answer = connections.request("GET", target, {"Accept": accept}, None)
    return answer.decode()
