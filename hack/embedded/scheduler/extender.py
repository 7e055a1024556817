"""The extender as kube-scheduler calls it (pkg/scheduler/extender.go), with nodeCacheCapable and not ignorable."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import urllib3

from hack.embedded.scheduler.fit import Pod

CONNECTIONS = 32


class ExtenderError(Exception):
    """The extender gave no answer, a malformed one, or an error."""


class ExtenderClient:
    """Call it from any thread. `managed` are the resources whose pods it is asked about."""

    def __init__(self, url: str, managed: Collection[str], timeout: float) -> None:
        self._url = url.rstrip("/")
        self._managed = frozenset(managed)
        self._pool = urllib3.PoolManager(
            maxsize=CONNECTIONS, retries=False, timeout=urllib3.Timeout(total=timeout)
        )

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()

    def interested(self, pod: Pod) -> bool:
        """True if a container asks for a managed resource."""
        spec = pod["spec"]
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        amounts = [(container.get("resources") or {}) for container in containers]
        return any(
            name in self._managed
            for a in amounts
            for side in ("requests", "limits")
            for name in a.get(side) or ()
        )

    def filter(self, pod: Pod, nodes: Sequence[str]) -> tuple[list[str], Mapping[str, str]]:
        """The nodes that fit, and a text for each of the others. Raises ExtenderError."""
        bare = {key: value for key, value in pod.items() if key not in ("kind", "apiVersion")}
        result = self._send("filter", {"Pod": bare, "Nodes": None, "NodeNames": list(nodes)})
        if result.get("Error"):
            raise ExtenderError(result["Error"])
        left = result.get("NodeNames") or []
        unknown = set(left) - set(nodes)
        if unknown:
            raise ExtenderError(
                f'extender "{self._url}" claims a filtered node "{min(unknown)}" which is not found in the'
                " input node list"
            )
        failed = {**(result.get("FailedNodes") or {}), **(result.get("FailedAndUnresolvableNodes") or {})}
        return left, failed

    def bind(self, pod: Pod, node: str) -> None:
        """Bind the pod to `node`. After an ExtenderError it may be bound or not."""
        metadata = pod["metadata"]
        result = self._send("bind", {
            "PodName": metadata["name"], "PodNamespace": metadata["namespace"], "PodUID": metadata["uid"],
            "Node": node,
        })  # fmt: skip
        if result.get("Error"):
            raise ExtenderError(result["Error"])

    def _send(self, verb: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        url = f"{self._url}/{verb}"
        try:
            response = self._pool.request(
                "POST", url, body=json.dumps(arguments), headers={"Content-Type": "application/json"}
            )
        except urllib3.exceptions.HTTPError as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        if response.status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
        try:
            result: Mapping[str, Any] = json.loads(response.data)
        except ValueError as error:
            raise ExtenderError(f"{verb}: {error}") from error
        return result
