"""What the scheduler tells people: events, and the condition PodScheduled. Written in a thread of its own."""

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hack.embedded.kubelet.api import MERGE, Api, ApiError, UnreachableError
from hack.embedded.kubelet.reporter import now
from hack.embedded.scheduler.fit import Pod

log = logging.getLogger(__name__)

_MESSAGE = 1024


class Reports:
    """Says the same thing of a pod once; Kubernetes' event series count repetitions, which nobody here reads."""

    def __init__(self, api: Api, name: str) -> None:
        self._api = api
        self._name = name
        self._told: dict[str, tuple[str, str]] = {}
        self._thread = ThreadPoolExecutor(1, "scheduler-reports")

    def close(self) -> None:
        """Write what is left."""
        self._thread.shutdown(wait=True)

    def failed(self, pod: Pod, reason: str, message: str) -> None:
        """The pod is not scheduled: `reason` is Unschedulable or SchedulerError."""
        uid = pod["metadata"]["uid"]
        if self._told.get(uid) != (reason, message):
            self._told[uid] = (reason, message)
            self._thread.submit(self._failed, pod, reason, message)

    def scheduled(self, pod: Pod, node: str) -> None:
        """The pod is bound."""
        self._told.pop(pod["metadata"]["uid"], None)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._thread.submit(
            self._event, pod, "Normal", "Scheduled", f"Successfully assigned {name} to {node}"
        )

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._told.pop(uid, None)

    def _failed(self, pod: Pod, reason: str, message: str) -> None:
        self._event(pod, "Warning", "FailedScheduling", message)
        condition = {
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": now(),
        }  # fmt: skip
        conditions = (pod.get("status") or {}).get("conditions") or []
        others = [item for item in conditions if item["type"] != "PodScheduled"]
        metadata = pod["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/status"
        # Only if the pod is as it was: it may be bound by now, or another one of that name.
        same = {key: metadata[key] for key in ("uid", "resourceVersion")}
        patch = {"metadata": same, "status": {"conditions": [*others, condition]}}
        if not self._write("PATCH", path, patch, MERGE):
            self._told.pop(metadata["uid"], None)

    def _event(self, pod: Pod, kind: str, reason: str, message: str) -> None:
        metadata = pod["metadata"]
        about = {key: metadata[key] for key in ("namespace", "name", "uid")}
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
            "type": kind,
            "reason": reason,
            "action": "Scheduling" if kind == "Warning" else "Binding",
            "message": message[:_MESSAGE],
            "reportingComponent": self._name,
            "source": {"component": self._name},
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "count": 1,
        }
        self._write("POST", f"/api/v1/namespaces/{metadata['namespace']}/events", event)

    def _write(self, method: str, path: str, body: Any, content: str = "application/json") -> bool:
        try:
            self._api.call(method, path, body, content)
        except (ApiError, UnreachableError) as error:
            log.debug("%s %s: %s", method, path, error)
            return False
        return True
