"""What the kubelet writes to the API server: pod statuses, final deletions and events, on a thread of its own.

A pod's newest status replaces one that was not written yet. While the API server is away, everything waits.
"""

import logging
import secrets
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hack.embedded.kubelet import pod_spec
from hack.embedded.kubelet.api import MERGE, Api, ApiError, UnreachableError
from hack.embedded.kubelet.pod_spec import Json

log = logging.getLogger(__name__)


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class _Call:
    """One request to make."""

    method: str
    path: str
    body: object
    content: str = "application/json"


class Reporter:
    """Writes on behalf of node `node`."""

    def __init__(self, api: Api, node: str, retry: float) -> None:
        self._api = api
        self._node = node
        self._retry = retry
        self._lock = threading.Condition()
        self._pending: dict[str, list[_Call]] = {}
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"report-{node}", daemon=True)

    def start(self) -> None:
        """Begin writing."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is not written yet is lost, as when a kubelet ends."""
        with self._lock:
            self._stopping = True
            self._lock.notify()
        self._thread.join()

    def status(self, pod: Json, status: dict[str, Any] | None, *, delete: bool) -> None:
        """Write a pod's status if there is one, then delete the pod for good if `delete`."""
        namespace, name = pod_spec.key(pod)
        uid = pod_spec.uid(pod)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        calls = []
        if status is not None:
            body = {"metadata": {"uid": uid}, "status": status}
            calls.append(_Call("PATCH", f"{path}/status", body, MERGE))
        if delete:
            calls.append(_Call("DELETE", path, {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}))
        self._put(f"pod {uid}", calls)

    def event(self, pod: Json, reason: str, message: str) -> None:
        """A Warning event about a pod."""
        namespace, name = pod_spec.key(pod)
        moment = now()
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": namespace, "name": f"{name}.{secrets.token_hex(8)}"},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "namespace": namespace,
                "name": name,
                "uid": pod_spec.uid(pod),
            },
            "reason": reason,
            "message": message[:1024],
            "type": "Warning",
            "source": {"component": "kubelet", "host": self._node},
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
        }
        self._put(
            f"event {event['metadata']}", [_Call("POST", f"/api/v1/namespaces/{namespace}/events", event)]
        )

    def _put(self, key: str, calls: list[_Call]) -> None:
        with self._lock:
            self._pending[key] = calls
            self._lock.notify()

    def _run(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._pending or self._stopping)
                if self._stopping:
                    return
                key = next(iter(self._pending))
                calls = self._pending.pop(key)
            try:
                for call in calls:
                    self._write(call)
            except UnreachableError:
                with self._lock:
                    self._pending.setdefault(key, calls)
                    self._lock.wait_for(lambda: self._stopping, self._retry)

    def _write(self, call: _Call) -> None:
        try:
            self._api.call(call.method, call.path, call.body, call.content)
        except ApiError as error:
            if error.status == 429 or error.status >= 500:
                raise UnreachableError(str(error)) from None
            # 404 and 409: the pod is gone, or another one bears its name; there is nothing to report any more.
            if error.status not in (404, 409):
                log.warning("%s %s: %s", call.method, call.path, error)
