"""The extender as kube-scheduler calls it (pkg/scheduler/extender.go), with nodeCacheCapable and not ignorable."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.adapters.http.client import LOST
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.requests import DEFAULT_PREFIXES, resource_names
from hack.embedded.pod_requests import requested
from hack.embedded.scheduler.fit import Pod

# The managedResources: the extender is asked about no other pods.
MANAGED = frozenset(name for prefix in DEFAULT_PREFIXES for name in resource_names(prefix))


class ExtenderError(Exception):
    """The extender gave no answer, a malformed one, or an error."""


class ExtenderClient:
    """The extender at `url`, from any thread; it may be silent for `timeout` seconds."""

    def __init__(self, url: str, timeout: float) -> None:
        self._url = url
        self._connections = Connections(Endpoint(url, lambda: None), timeout)

    def close(self) -> None:
        """Close the kept connections."""
        self._connections.close()

    def interested(self, pod: Pod) -> bool:
        """True if a container asks for a managed resource."""
        return not MANAGED.isdisjoint(requested(pod))

    def filter(self, pod: Pod, nodes: Sequence[str]) -> tuple[list[str], Mapping[str, str]]:
        """The nodes that fit, and a text for each of the others. Raises ExtenderError."""
        bare = {key: value for key, value in pod.items() if key not in ("kind", "apiVersion")}
        result = self._send("filter", {"Pod": bare, "Nodes": None, "NodeNames": list(nodes)})
        left = result.get("NodeNames") or []
        unknown = set(left) - set(nodes)
        if unknown:
            raise ExtenderError(
                f'extender "{self._url}" claims a filtered node "{min(unknown)}" which is not found in the'
                " input node list"
            )
        return left, {**(result.get("FailedNodes") or {}), **(result.get("FailedAndUnresolvableNodes") or {})}

    def bind(self, pod: Pod, node: str) -> None:
        """Bind the pod to `node`. After an ExtenderError it may be bound or not."""
        metadata = pod["metadata"]
        self._send("bind", {
            "PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"],
            "Node": node,
        })  # fmt: skip

    def _send(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The answer to one call. Raises ExtenderError, also for an answer that names an error."""
        url = f"{self._url}/{verb}"
        headers, body = {"Content-Type": "application/json"}, json.dumps(arguments).encode()
        try:
            status, answer = self._connections.request("POST", f"/{verb}", headers, body)
        except LOST as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        try:
            result: Mapping[str, Any] = json.loads(answer)
        except ValueError as error:
            raise ExtenderError(f"{verb}: {error}") from error
        if result.get("Error"):
            raise ExtenderError(result["Error"])
        return result
