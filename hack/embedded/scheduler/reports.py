"""Writes the scheduler's reports for people, events and the condition PodScheduled, in a separate thread."""

import logging
from concurrent.futures import ThreadPoolExecutor

from device_plugin.kube.api import PODS, Api
from device_plugin.kube.errors import ApiError
from hack.embedded import pod_spec
from hack.embedded.clock import timestamp
from hack.embedded.scheduler.fit import Pod

log = logging.getLogger(__name__)


class SchedulerReports:
    """Writes each report about a pod once; repetitions, which Kubernetes counts in event series, are dropped."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._told: dict[str, tuple[str, str]] = {}
        self._thread = ThreadPoolExecutor(1, "scheduler-reports")

    def close(self) -> None:
        """Write the remaining reports, and stop."""
        self._thread.shutdown(wait=True)

    def failed(self, pod: Pod, reason: str, message: str) -> None:
        """Report that a pod was not scheduled; `reason` is Unschedulable or SchedulerError."""
        uid = pod["metadata"]["uid"]
        if self._told.get(uid) != (reason, message):
            self._told[uid] = (reason, message)
            self._thread.submit(self._failed, pod, reason, message)

    def scheduled(self, pod: Pod, node: str) -> None:
        """Report that a pod is bound."""
        self._told.pop(pod["metadata"]["uid"], None)
        name = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        self._thread.submit(
            self._event, pod, "Scheduled", f"Successfully assigned {name} to {node}", warning=False
        )

    def forget(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self._told.pop(uid, None)

    def _failed(self, pod: Pod, reason: str, message: str) -> None:
        self._event(pod, "FailedScheduling", message)
        condition = {
            "type": "PodScheduled", "status": "False", "reason": reason, "message": message,
            "lastTransitionTime": timestamp(),
        }  # fmt: skip
        conditions = (pod.get("status") or {}).get("conditions") or []
        others = [item for item in conditions if item["type"] != "PodScheduled"]
        # Write only if the pod is unchanged: it may be bound by now, or another pod may have its name.
        same = {"resourceVersion": pod["metadata"]["resourceVersion"]}
        change = {"metadata": same, "status": {"conditions": [*others, condition]}}
        try:
            self._api.patch(PODS, pod_spec.ref(pod), change, subresource="status")
        except ApiError as error:
            log.debug("the condition of %s is not written: %s", pod["metadata"]["name"], error)
            self._told.pop(pod["metadata"]["uid"], None)

    def _event(self, pod: Pod, reason: str, message: str, *, warning: bool = True) -> None:
        try:
            self._api.post_event(PODS, pod_spec.ref(pod), reason, message, warning=warning)
        except ApiError as error:
            log.debug("event %s of %s is not written: %s", reason, pod["metadata"]["name"], error)
