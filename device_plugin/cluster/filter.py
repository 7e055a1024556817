"""/filter: exactly one node for a pod, with its slices reserved; or why not. No call to the API server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import Counts
from device_plugin.cluster.reservations import Reservation
from device_plugin.cluster.shares import LaterError, Shares
from device_plugin.cluster.state import State
from device_plugin.core.annotations import GROUP
from device_plugin.core.errors import RequestError
from device_plugin.core.placement import Refusal
from device_plugin.core.pods import Pod
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class Verdict:
    """What kube-scheduler is told: nodes that remain, texts of those that do not, or an error.

    `hopeless` nodes would not do even if other pods went away.
    """

    nodes: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    hopeless: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


# kube-scheduler retries a waiting pod at the very event that frees a slice, and hears of it by a watch of its own: it
# may ask before our watch has shown the same event, and then not again for minutes. So a "no" waits a moment for news;
# but at most once in NEWS_PAUSE, or a queue of hopeless pods would stand still.
NEWS_SECONDS = 0.1
NEWS_PAUSE = 0.25


class Filter:
    """Call it from any thread."""

    def __init__(self, state: State, leader: Leader, counts: Counts, clock: Callable[[], float]) -> None:
        self._state = state
        self._leader = leader
        self._counts = counts
        self._clock = clock
        self._waited = -NEWS_PAUSE
        self._shares = Shares()

    def __call__(self, pod: Pod, nodes: Sequence[str]) -> Verdict:
        """Choose among `nodes`. A pod that asks for no slice may go to all of them."""
        try:
            request = self._state.request_of(pod)
        except RequestError as error:
            return Verdict(hopeless=dict.fromkeys(nodes, str(error)))
        if request is None:
            return Verdict(nodes)
        with self._state.lock:
            if why := self._why_not_heard_of(pod, request) or self._why_not(pod):
                return Verdict(error=why)
            if why := self._state.groups.crowded((pod.namespace, pod.label(GROUP))):
                return Verdict(hopeless=dict.fromkeys(nodes, why))
            try:
                answer = self._place(pod, request, nodes)
                if isinstance(answer, Refusal) and answer.main is not Reason.GANG and self._news():
                    if why := self._why_not(pod):
                        return Verdict(error=why)
                    answer = self._place(pod, request, nodes)
            except LaterError as error:
                return Verdict(error=str(error))
        if isinstance(answer, Refusal):
            if answer.main is Reason.GANG:
                # Nobody else's leaving completes a gang: kube-scheduler need not look for victims.
                return Verdict(hopeless=answer.by_node)
            return Verdict(failed=answer.by_node)
        return Verdict((answer.grant.node,))

    def _place(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Reservation | Refusal:
        started, several = self._clock(), len(request.containers) > 1 and request.gang is None
        if several:
            self._shares.check(pod.namespace, started)
        answer = self._state.reserve(pod, request, nodes)
        ended = self._clock()
        self._counts.placed(ended - started)
        if several and isinstance(answer, Refusal):
            self._shares.refused(pod.namespace, started, ended)
        return answer

    def _news(self) -> bool:
        """Wait a moment for a slice to become free; the lock is held, and let go meanwhile."""
        now = self._clock()
        if now - self._waited < NEWS_PAUSE:
            return False
        self._waited = now
        return self._state.freed.wait(NEWS_SECONDS)

    def _why_not_heard_of(self, pod: Pod, request: PodRequest) -> str:
        """In words why nobody can tell whether all of the pod's gang exist; empty if that is known.

        kube-scheduler asks for the last pod of a gang as soon as it hears of it, and if refused not again for minutes.
        Once our watch has shown that pod as well, it has shown the older ones. The lock is held, and let go meanwhile.
        """

        def heard_of() -> bool:
            return self._state.is_gone(pod.uid) or self._state.gangs.knows(pod, request)

        if request.gang is None or self._state.gangs.mustered.wait_for(heard_of, NEWS_SECONDS):
            return ""
        return f"the watch has not shown pod {pod.namespace}/{pod.name} yet as it is now: try again"

    def _why_not(self, pod: Pod) -> str:
        if why := self._leader.why_not() or self._state.why_not_synced():
            return why
        if self._state.is_gone(pod.uid):
            return f"pod {pod.namespace}/{pod.name} is gone"
        known = self._state.pod(pod.uid)
        if known is not None and known.node:
            return f"pod {pod.namespace}/{pod.name} is bound to {known.node} already"
        reservation = self._state.reservations.get(pod.uid)
        if reservation is not None and reservation.under_way:
            return "what became of an earlier Binding is not known yet: try again"
        return ""
