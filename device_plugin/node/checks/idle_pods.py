"""Idle pods: pods whose slices have all been idle for the pod's idle limit, the annotation `vgpu.io/idle-limit`.

A pod's idle time begins when the last of its slices becomes idle (slice_history.py). The pod is not idle while a
container of its grant has not started, or computing is not measured for one of its slices. An event announces the
eviction before (core/idle.py says how long before). Another event withdraws the announcement if the pod works again, or
its limit has changed. A pod that was announced, and stayed idle until its limit, is named in the node's inventory, and
the leader evicts it. The inventory also names pods whose limit has no effect, because computing is not measured. A pod
that is being deleted is not looked at.

The times are not stored: when the agent restarts, they begin again.
"""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from device_plugin.core.contract.annotations import IDLE_LIMIT
from device_plugin.core.contract.cards import IdlePod
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.grants import Grant
from device_plugin.core.durations import span
from device_plugin.core.idle import idle_together, notice_seconds
from device_plugin.kube.api import Ref
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.slice_history import SliceHistory
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records

log = logging.getLogger(__name__)

# Most announcements at one step: each waits for the API server.
MOST_AT_ONCE = 8
# Seconds for which computing is not measured until the inventory says so: otherwise programs that start and end would
# make the node write its inventory again and again.
UNMEASURED_SECONDS = 120.0

_IDLE = (
    "all slices of the pod have been idle for {}: it is evicted after {} if they stay idle ({}: {}). The time begins"
    " again if one of them computes, its memory changes, or the agent of the node restarts"
)
_IN_USE = f"the pod is not evicted: one of its slices has computed, its memory has changed, or {IDLE_LIMIT} has changed"


@dataclass(slots=True)
class _Pod:
    """A pod with an idle limit, and the state of its eviction.

    `announced` is the time of the latest event that announced the eviction. `warned` is true from that event until
    another event withdraws it. `due` is the idle limit in seconds if the pod is to be evicted now, else 0. `unmeasured`
    is the time since which computing is not measured for some slice of the pod; None if it is measured for all of them.
    """

    ref: Ref
    announced: float = float("-inf")
    warned: bool = False
    due: int = 0
    unmeasured: float | None = None


class IdlePods:
    """Finds the idle pods at each `step`, and posts their events.

    `clock` is monotonic, in seconds; `wall` returns the seconds since 1970.
    """

    def __init__(
        self,
        records: Records,
        pods: NodePods,
        history: SliceHistory,
        api: NodeApi,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._records = records
        self._pods = pods
        self._history = history
        self._api = api
        self._clock = clock
        self._wall = wall
        # By UID.
        self._known: dict[str, _Pod] = {}

    def found(self) -> tuple[IdlePod, ...]:
        """The pods to evict, by the latest step."""
        return tuple(IdlePod(uid, pod.due) for uid, pod in self._known.items() if pod.due)

    def unmeasured(self) -> tuple[str, ...]:
        """The UIDs of the pods whose limit has had no effect for UNMEASURED_SECONDS, by the latest step."""
        last = self._clock() - UNMEASURED_SECONDS
        return tuple(
            uid for uid, pod in self._known.items() if pod.unmeasured is not None and pod.unmeasured <= last
        )

    def step(self) -> None:
        """Announce or withdraw evictions by the pods' idle times and limits, and decide which evictions are due.

        Call it after each SliceHistory.look.
        """
        before, self._known = self._known, {}
        records = self._by_pod()
        room = MOST_AT_ONCE
        for grant, limit in self._pods.idle_limits():
            own = records.get(grant.pod, ())
            if not own:
                continue
            pod = self._known[grant.pod] = before.pop(grant.pod, _Pod(own[0].pod_ref))
            times = self._idle_times(grant, own)
            idle = idle_together(times)
            if None not in times:
                pod.unmeasured = None
            elif pod.unmeasured is None:
                pod.unmeasured = self._clock()
            if idle is None or idle < limit - notice_seconds(limit):
                self._withdraw(pod)
            elif not pod.warned and room > 0 and self._clock() - pod.announced >= notice_seconds(limit):
                # If one event cannot be written, the others would only wait too.
                room = room - 1 if self._announce(pod, idle, limit) else 0
            notified = pod.warned and self._clock() - pod.announced >= notice_seconds(limit)
            pod.due = limit if notified and idle is not None and idle >= limit else 0
        for uid, pod in before.items():
            if self._pods.stays(uid):
                self._known[uid] = pod
                pod.unmeasured = None
                self._withdraw(pod)

    def _by_pod(self) -> Mapping[str, Sequence[Record]]:
        found = dict[str, list[Record]]()
        for record in self._records.all():
            found.setdefault(record.pod, []).append(record)
        return found

    def _idle_times(self, grant: Grant, records: Sequence[Record]) -> Sequence[float | None]:
        """For each slice of the grant, the seconds for which it has been idle; None where computing is not measured.

        Empty if a container of the grant has not started, or if a slice has no history yet.
        """
        if {record.container for record in records} != grant.containers.keys():
            return ()
        histories = [self._history.of(record, part.card) for record in records for part in record.slices]
        begun = [each for each in histories if each is not None]
        return [each.idle for each in begun] if len(begun) == len(histories) else ()

    def _announce(self, pod: _Pod, idle: float, limit: float) -> bool:
        """Post the event that announces the pod's eviction, and note its time.

        Returns False if the event could not be posted.
        """
        end = datetime.fromtimestamp(self._wall() + max(limit - idle, notice_seconds(limit)), UTC)
        text = _IDLE.format(span(idle), end.strftime("%Y-%m-%dT%H:%M:%SZ"), IDLE_LIMIT, span(limit))
        if not self._api.pod_event(pod.ref, Event.SLICES_IDLE, text):
            return False
        log.info("pod %s/%s: %s", pod.ref.namespace, pod.ref.name, text)
        pod.announced, pod.warned = self._clock(), True
        return True

    def _withdraw(self, pod: _Pod) -> None:
        pod.due = 0
        if pod.warned:
            pod.warned = False
            log.info("pod %s/%s: %s", pod.ref.namespace, pod.ref.name, _IN_USE)
            self._api.pod_event(pod.ref, Event.SLICES_IN_USE, _IN_USE)
