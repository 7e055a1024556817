"""Calls an extender as kube-scheduler does (pkg/scheduler/extender.go): nodeCacheCapable, not ignorable."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from device_plugin.adapters.http.client import LOST
from device_plugin.adapters.kube.connections import Connections
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.requests import DEFAULT_PREFIXES, all_resource_names
from hack.embedded.pod_requests import requested
from hack.embedded.scheduler.fit import Pod

# The managedResources, if the extender has any: it is called only for pods that ask for one of them.
MANAGED = all_resource_names(DEFAULT_PREFIXES)


class ExtenderError(Exception):
    """The extender sent no answer, a malformed answer, or an error."""


class ExtenderClient:
    """Calls the extender at `url`, from any thread; a call without data for `timeout` seconds fails.

    With `every_pod`, the extender has no managedResources.
    """

    def __init__(self, url: str, timeout: float, *, every_pod: bool = False) -> None:
        self._url = url
        self._every_pod = every_pod
        self._connections = Connections(Endpoint(url, lambda: None), timeout)

    def close(self) -> None:
        """Close all connections."""
        self._connections.close()

    def interested(self, pod: Pod) -> bool:
        """True if the extender is called for this pod: a container asks for a managed resource, or there are none."""
        return self._every_pod or not MANAGED.isdisjoint(requested(pod))

    def filter(self, pod: Pod, nodes: Sequence[str]) -> tuple[list[str], Mapping[str, str]]:
        """The nodes that fit, and a text for each other node. Raises ExtenderError."""
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
        """Bind the pod to `node`. After an ExtenderError the pod may be bound or not."""
        metadata = pod["metadata"]
        self._send("bind", {
            "PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"],
            "Node": node,
        })  # fmt: skip

    def _send(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send one call, and return the answer. Raises ExtenderError, also if the answer has an error text."""
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
