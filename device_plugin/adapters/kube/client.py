"""The few requests that our services make, over kept connections."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec

from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.connections import LOST, Connection, Connections
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.adapters.kube.errors import KubeError, UnreachableError, refused
from device_plugin.core.annotations import TOUCHED
from device_plugin.core.pods import Node, Pod

TIMEOUT_SECONDS = 3.0
Found = TypeVar("Found")
JSON = "application/json"
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class EventSpec:
    """An event about an object: `reason` in CamelCase, `message` a sentence, `type` Normal or Warning."""

    namespace: str
    kind: str
    name: str
    uid: str
    reason: str
    message: str
    type: str = "Warning"


class KubeClient:
    """Requests to one API server, from any thread. Each may raise a KubeError; `component` names us in events."""

    def __init__(self, endpoint: Endpoint, component: str, *, timeout: float = TIMEOUT_SECONDS) -> None:
        self._endpoint = endpoint
        self._component = component
        self._timeout = timeout
        self._connections = Connections(endpoint, timeout)

    def close(self) -> None:
        """Close the kept connections."""
        self._connections.close()

    def get_pod(self, namespace: str, name: str) -> Pod:
        """A pod as it is now, not from a cache. Raises NotFoundError."""
        return _decoded(decode.pod, self._request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}"))

    def get_node(self, name: str) -> Node:
        """A node as it is now. Raises NotFoundError."""
        return _decoded(decode.node, self._request("GET", f"/api/v1/nodes/{name}"))

    def list_pods(self) -> Sequence[Pod]:
        """All pods, from a quorum: no resource version is named. Those that cannot be read are left out."""
        return self._readable(decode.pod, "/api/v1/pods")

    def list_nodes(self) -> Sequence[Node]:
        """All nodes, from a quorum."""
        return self._readable(decode.node, "/api/v1/nodes")

    def get_lease(self, namespace: str, name: str) -> tuple[str, str]:
        """Holder and renew time of a Lease, as written. Raises NotFoundError."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
        return _decoded(decode.lease, self._request("GET", path))

    def annotate_node(self, name: str, values: Mapping[str, str | None]) -> None:
        """Set annotations of a node; None takes one away."""
        self._request("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"annotations": dict(values)}}, MERGE)

    def bind(
        self, namespace: str, name: str, uid: str, node: str,
        annotations: Mapping[str, str], labels: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Bind the pod of this uid to a node; the API server copies annotations and labels to it in the same write.

        Labels only from Kubernetes 1.35 on (KEP-4742).
        """
        kept = {"annotations": dict(annotations)} | ({"labels": dict(labels)} if labels else {})
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, **kept},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        # The server gives up when we do: a pod that is still unbound some seconds later stays unbound.
        limit = {"timeout": f"{self._timeout:g}s"}
        self._request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body, query=limit)

    def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Delete the pod of this uid. Raises NotFoundError, or ConflictError for another pod of that name."""
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}}
        self._request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body)

    def evict_pod(self, namespace: str, name: str, uid: str, *, dry: bool = False) -> None:
        """Evict the pod of this uid, as far as PodDisruptionBudgets allow; `dry` only asks whether it may go.

        Raises NotFoundError, ConflictError for another pod of that name, or a KubeError of status 429 if none may go.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        query = {"dryRun": "All"} if dry else None
        self._request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body, query=query)

    def touch_pod(self, namespace: str, name: str, uid: str) -> None:
        """Write the time into an annotation of the pod of this uid, by its status: no other field can change by it.

        Raises NotFoundError, or a KubeError of status 422 for another pod of that name.
        """
        now = datetime.now(UTC).isoformat(timespec="microseconds")
        change = {"metadata": {"uid": uid, "annotations": {TOUCHED: now}}}
        self._request("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", change, MERGE)

    def post_event(self, event: EventSpec) -> None:
        """Post an event. Those about nodes live in the namespace `default`, as the kubelet's do."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        namespace = event.namespace or "default"
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{event.name}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1", "kind": event.kind, "name": event.name, "namespace": event.namespace,
                "uid": event.uid,
            },
            "reason": event.reason,
            "message": event.message[:1024],
            "type": event.type,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }  # fmt: skip
        self._request("POST", f"/api/v1/namespaces/{namespace}/events", body)

    def get_list(self, path: str, query: Mapping[str, str]) -> bytearray:
        """A list's JSON."""
        return self._request("GET", path, query=query)

    def stream(self, path: str, query: Mapping[str, str], silence: float) -> Connection:
        """An open watch; reading from it raises one of LOST where the server says nothing for `silence` seconds.

        Close it.
        """
        try:
            stream = self._connections.stream(_target(path, query), self._headers(), silence)
            if stream.status != 200:
                with closing(stream):
                    raise _error(stream.status, b"".join(stream.body()))
        except LOST as error:
            raise self._unreachable(error) from error
        return stream

    def _readable(self, read: Callable[[decode.Text], Found], path: str) -> list[Found]:
        items, _ = _decoded(decode.listed, self._request("GET", path))
        return [found for item in items if (found := _or_none(read, item)) is not None]

    def _request(
        self,
        method: str,
        path: str,
        body: Any = None,
        content: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> bytearray:
        headers = self._headers()
        if body is not None:
            headers["Content-Type"] = content
        text = None if body is None else msgspec.json.encode(body)
        try:
            status, answer = self._connections.request(method, _target(path, query), headers, text)
        except LOST as error:
            raise self._unreachable(error) from error
        if status >= 300:
            raise _error(status, answer)
        return answer

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": JSON, "User-Agent": self._component}
        if (authorization := self._endpoint.authorization()) is not None:
            headers["Authorization"] = authorization
        return headers

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"API server {self._endpoint.url}: {error}")


def _target(path: str, query: Mapping[str, str] | None) -> str:
    return path + ("?" + urlencode(query) if query else "")


def _error(status: int, text: decode.Text) -> KubeError:
    _, reason, message = decode.status(text)
    return refused(status, reason, message or f"HTTP {status}")


def _decoded(read: Callable[[bytearray], Found], text: bytearray) -> Found:
    try:
        return read(text)
    except decode.DecodeError as error:
        raise KubeError(200, "Malformed", f"the API server's answer cannot be read: {error}") from error


def _or_none(read: Callable[[decode.Text], Found], item: decode.Text) -> Found | None:
    try:
        return read(item)
    except decode.DecodeError:
        return None
