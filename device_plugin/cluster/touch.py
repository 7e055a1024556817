"""The touch: a write to an annotation of a pod that we refused, so that kube-scheduler asks for it again.

kube-scheduler asks again when something in the cluster changes. It does not see every change that makes room: a
reservation that expired, a gang that was dissolved, a Binding that failed. And it may ask before our watch has shown a
slice that is free by now, and then not for minutes. So as many refused pods as there is room for are touched, in the
order of its queue; a pod that is asked for meanwhile, or refused again, is not.
"""

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import Api, ApiError, GoneError
from device_plugin.cluster.refusals import Waiting
from device_plugin.cluster.reservations import Reservation, Stage
from device_plugin.cluster.shares import LaterError
from device_plugin.cluster.state import State
from device_plugin.core.errors import RequestError
from device_plugin.core.grants import Grant
from device_plugin.core.hosts import NOTHING
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest

log = logging.getLogger(__name__)

# Whoever watches the API server has asked within this time for the pods that an event wakes.
GRACE_SECONDS = 0.3
# Pods touched, and pods looked at, in one step; there are some four steps a second.
TOUCHES, LOOKS = 16, 64
# A touched pod is asked for within milliseconds, or after those that kube-scheduler has before it. For so long what it
# was touched for is not offered to others.
ASKED_SECONDS = 5.0
# Of the pods that another process refused before this one led; not at once, for kube-scheduler asks for most of them
# itself by the end of its backoff.
INHERITED, INHERITED_AFTER_SECONDS = 64, 15.0


@dataclass(frozen=True, slots=True)
class _Expected:
    """Where a pod that was touched would fit, and until when it is expected to be asked for."""

    waiting: Waiting
    grant: Grant
    until: float


class Touch:
    """Call `step` a few times a second, in a thread of its own. It writes only when there is room for a refused pod."""

    def __init__(
        self, api: Api, state: State, leader: Leader, clock: Callable[[], float], scheduler_name: str
    ) -> None:
        self._api = api
        self._state = state
        self._leader = leader
        self._clock = clock
        self._scheduler_name = scheduler_name
        self._inherits: float | None = clock() + INHERITED_AFTER_SECONDS
        self._seen: object = None
        self._changed: float | None = None
        self._left: deque[Waiting] = deque()
        self._hopeless: set[object] = set()
        self._expected: dict[str, _Expected] = {}

    def step(self) -> None:
        """Touch the next of the refused pods that there is room for, if this replica leads."""
        now = self._clock()
        if self._leader.why_not():
            self._inherits = now + INHERITED_AFTER_SECONDS
            self._left.clear()
            self._expected.clear()
            return
        if self._inherits is not None and now >= self._inherits:
            self._inherits = None
            self._inherit()
        self._look_again(now)
        for waiting in self._due(now):
            self._touch(waiting)

    def _look_again(self, now: float) -> None:
        """Go through all refused pods once more where something changed since that began last."""
        with self._state.lock:
            news = self._state.news()
            kept = {uid: one for uid, one in self._expected.items() if self._is_expected(one, now)}
            if any(self._state.reservations.get(uid) is None for uid in self._expected.keys() - kept.keys()):
                # It did not come for its room: others may.
                self._seen = None
            self._expected = kept
        if news != self._seen and self._changed is None:
            self._changed = now
        if not self._left and self._changed is not None and now - self._changed >= GRACE_SECONDS:
            self._seen, self._changed = news, None
            self._hopeless.clear()
            self._left.extend(sorted(self._state.waiting.all(), key=_order))

    def _due(self, now: float) -> list[Waiting]:
        """The next pods to touch, found by a few looks."""
        found: list[Waiting] = []
        looks = LOOKS
        while self._left and looks and len(found) < TOUCHES:
            waiting = self._left.popleft()
            if waiting.alike in self._hopeless:
                continue
            with self._state.lock:
                if not self._state.waiting.outdated(waiting):
                    continue
                fits = self._fits(waiting, now)
            looks -= 1
            if fits:
                found.append(waiting)
            else:
                self._hopeless.add(waiting.alike)
        return found

    def _fits(self, waiting: Waiting, now: float) -> bool:
        """True if the pod would be placed now; a gang has its reservations then. The lock is held."""
        state, uid = self._state, waiting.pod.uid
        known = state.pod(uid)
        if known is None or known.node or known.deleting or known.ended:
            state.waiting.drop(uid)
            return False
        reserved = state.reservations.get(uid)
        if reserved is not None and reserved.stage is not Stage.NOMINATED:
            return reserved.stage is Stage.WAITING
        try:
            request = state.request_of(known)
        except RequestError:
            return False
        if request is None:
            return False
        if request.gang is not None:
            return not self._expected and self._gang_fits(known, request, waiting)
        grant = self._grant(known, request, waiting.nodes)
        if grant is not None:
            self._expected[uid] = _Expected(waiting, grant, now + ASKED_SECONDS)
        return grant is not None

    def _is_expected(self, expected: _Expected, now: float) -> bool:
        """True until the pod was asked for, or is not expected to be any more. The lock is held."""
        uid = expected.waiting.pod.uid
        known = self._state.pod(uid)
        asked = self._state.waiting.get(uid) not in (None, expected.waiting)
        reserved = self._state.reservations.get(uid) is not None
        return expected.until > now and known is not None and not known.node and not asked and not reserved

    def _gang_fits(self, pod: Pod, request: PodRequest, waiting: Waiting) -> bool:
        """All of a gang are placed or none, so they are placed here, as if kube-scheduler had asked for this one."""
        state = self._state
        if waiting.nodes is None or not state.gangs.worth_asking(pod):
            return False
        try:
            placed = isinstance(state.reserve(pod, request, waiting.nodes), Reservation)
        except LaterError:
            return False
        if placed:
            # It was not kube-scheduler who asked.
            state.waiting.keep(waiting)
        return placed

    def _grant(self, pod: Pod, request: PodRequest, nodes: Sequence[str] | None) -> Grant | None:
        """What the pod would get beside those that are expected."""
        state = self._state
        with state.planner.trial.attempt():
            state.planner.trial.leave(pod.uid)
            for expected in self._expected.values():
                state.planner.trial.hold(expected.grant, NOTHING)
            # Without the nodes that kube-scheduler would offer, nobody has looked at hosts.
            vetted = nodes is not None
            return state.placer.find(state.in_group(pod, request), nodes, vetted=vetted)

    def _touch(self, waiting: Waiting) -> None:
        pod = waiting.pod
        with self._state.lock:
            if self._state.waiting.get(pod.uid) is not waiting:
                return  # it was asked for meanwhile
            # It is refused again before it is touched again.
            self._state.waiting.drop(pod.uid)
        try:
            self._api.touch(pod)
        except GoneError:
            self._state.forget_pod(pod.uid)
        except ApiError as error:
            log.info("could not touch pod=%s/%s: %s", pod.namespace, pod.name, error)
        else:
            log.info("touched pod=%s/%s: there is room for it", pod.namespace, pod.name)

    def _inherit(self) -> None:
        """Take over pods that kube-scheduler took back, and did not ask for since this replica leads."""
        pods = [
            pod for pod in self._state.pods()
            if pod.scheduler == self._scheduler_name and pod.refused and not pod.node and not pod.deleting
        ]  # fmt: skip
        pods.sort(key=lambda pod: (-pod.priority, pod.created, pod.uid))
        with self._state.lock:
            for pod in pods[:INHERITED]:
                if self._state.waiting.get(pod.uid) is None and self._state.reservations.get(pod.uid) is None:
                    self._state.waiting.inherit(pod)
        self._seen = None


def _order(waiting: Waiting) -> tuple[int, str, str]:
    """As in kube-scheduler's queue: the highest priority first, then the oldest."""
    pod = waiting.pod
    return -pod.priority, pod.created, pod.uid
