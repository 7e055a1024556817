"""Pods whose limits may not hold, because something covers the files that their agent mounted: deleted, if so set.

The agent reports them in its node's inventory, and says so in an event. Whether such a pod may stay is the operator's
to decide (`coveredPods`).
"""

import logging

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import Api, ApiError, GoneError
from device_plugin.cluster.state import State
from device_plugin.core.pods import Pod

log = logging.getLogger(__name__)


class CoveredPods:
    """Call `sweep` about once a second; with `delete` unset it does nothing."""

    def __init__(self, api: Api, state: State, leader: Leader, *, delete: bool) -> None:
        self._api = api
        self._state = state
        self._leader = leader
        self._delete = delete
        self._warned: set[str] = set()

    def sweep(self) -> None:
        """Delete the pods that are reported now, if this replica leads."""
        if not self._delete or self._leader.why_not():
            return
        with self._state.lock:
            found = [
                (pod, report.container)
                for node in self._state.reports.nodes_with_covered()
                for report in self._state.reports.covered(node)
                if (pod := self._state.pod(report.pod)) is not None and pod.node == node
            ]
        self._warned &= {pod.uid for pod, _ in found}
        for pod, container in found:
            if not (pod.deleting or pod.ended):
                self._end(pod, container)

    def _end(self, pod: Pod, container: str) -> None:
        text = (
            f"something covers the files that limit container {container} on {pod.node}: the pod is deleted"
            " (coveredPods: delete)"
        )
        try:
            if pod.uid not in self._warned:
                log.warning("%s/%s: %s", pod.namespace, pod.name, text)
                self._api.warn(pod, "CoveredPodDeleted", text)
                self._warned.add(pod.uid)
            self._api.delete(pod)
        except GoneError:
            self._state.forget_pod(pod.uid)
        except ApiError as error:
            log.warning("%s/%s stays for now: %s", pod.namespace, pod.name, error)
