"""Idle evictions: the leader evicts pods whose slices have all been idle for the pod's idle limit.

The node's agent measures the idle time, warns the pod by an event, and then names the pod in the node's inventory until
it is gone or works again. The pod must have a limit now, not longer than the limit by which the agent judged, and the
agent must be ready: an agent that is down cannot say that the pod works again. An eviction respects
PodDisruptionBudgets. If it is refused, it is tried again, after a delay that doubles each time; only the first refusal
is reported by an event.
"""

import logging
from dataclasses import dataclass

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.announce import announce
from device_plugin.cluster.counts import Counts
from device_plugin.core.contract.annotations import IDLE_LIMIT
from device_plugin.core.contract.events import Event
from device_plugin.core.durations import span
from device_plugin.core.idle import idle_limit
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Api
from device_plugin.kube.errors import ApiError, GoneError, UnknownError

log = logging.getLogger(__name__)

# Most evictions in one turn, of about a second: each waits for the API server.
MOST_AT_ONCE = 4
# Seconds until a refused eviction is tried again; each refusal doubles them.
FIRST_DELAY, LAST_DELAY = 30.0, 600.0


@dataclass(slots=True)
class _Tried:
    """A pod's eviction: when it is due, the delay after the latest try, and whether a refusal was reported."""

    due: float = 0.0
    delay: float = FIRST_DELAY / 2
    said: bool = False


class IdleEvictions(Service):
    """Evicts idle pods. `sweep` is called about once a second."""

    def __init__(self, shared: Shared, api: Api, counts: Counts) -> None:
        super().__init__(shared)
        self._api = api
        self._counts = counts
        # By pod UID.
        self._tried: dict[str, _Tried] = {}

    def sweep(self) -> None:
        """Evict the pods that agents report as idle, if this replica leads; at most MOST_AT_ONCE in one call."""
        if self._why_not_leading():
            return
        idle, now = self._idle(), self._clock()
        self._tried = {pod.uid: self._tried.get(pod.uid, _Tried()) for pod, _ in idle}
        due = [(pod, limit) for pod, limit in idle if self._tried[pod.uid].due <= now]
        # The longest due come first, so that pods that budgets keep hold up no others.
        due.sort(key=lambda each: self._tried[each[0].uid].due)
        for pod, limit in due[:MOST_AT_ONCE]:
            if not self._evict(pod, f"all slices of the pod have been idle for {span(limit)} ({IDLE_LIMIT})"):
                return

    def _idle(self) -> list[tuple[Pod, int]]:
        """The pods to evict, each with its idle limit in seconds."""
        ready = self._view.agents.nodes() or frozenset()
        with self._view.lock:
            reported = [
                (pod, node, idle.limit)
                for node, idle in self._view.reports.idle()
                if (pod := self._view.pods.get(idle.uid))
            ]
        return [
            (pod, limit)
            for pod, node, judged in reported
            if pod.node == node and node in ready and not (pod.deleting or pod.ended)
            if (limit := idle_limit(pod.annotation(IDLE_LIMIT))) is not None and limit <= judged
        ]

    def _evict(self, pod: Pod, why: str) -> bool:
        """Evict a pod, and report the outcome by an event; returns False if the API server did not answer.

        A refusal is reported only once.
        """
        tried = self._tried[pod.uid]
        tried.delay = min(2 * tried.delay, LAST_DELAY)
        tried.due = self._clock() + tried.delay
        try:
            self._api.evict(pod)
        except GoneError:
            self._view.pod_news.gone(pod.uid)
        except ApiError as error:
            log.warning("%s/%s stays for now: %s", pod.namespace, pod.name, error)
            if isinstance(error, UnknownError) and not error.status:
                return False
            self._counts.idle_eviction("refused")
            if not tried.said:
                tried.said = True
                text = f"{why}, and its eviction is refused, and tried again: {error}"
                announce(self._api, pod, Event.IDLE_POD_KEPT, text)
        else:
            self._counts.idle_eviction("evicted")
            log.info("evicted %s/%s: %s", pod.namespace, pod.name, why)
            announce(self._api, pod, Event.IDLE_POD_EVICTED, f"{why}: the pod is evicted")
        return True
