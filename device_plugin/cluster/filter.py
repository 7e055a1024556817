"""/filter: exactly one node for a pod, with its slices reserved; or why not. No call to the API server."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from device_plugin.cluster.leader import Leader
from device_plugin.cluster.ports import Counts
from device_plugin.cluster.reservations import Stage
from device_plugin.cluster.state import State
from device_plugin.core.errors import RequestError
from device_plugin.core.placement import Refusal
from device_plugin.core.pods import Pod


@dataclass(frozen=True, slots=True)
class Verdict:
    """What kube-scheduler is told: nodes that remain, texts of those that do not, or an error.

    `hopeless` nodes would not do even if other pods went away.
    """

    nodes: Sequence[str] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    hopeless: Mapping[str, str] = field(default_factory=dict)
    error: str = ""


class Filter:
    """Call it from any thread."""

    def __init__(self, state: State, leader: Leader, counts: Counts, clock: Callable[[], float]) -> None:
        self._state = state
        self._leader = leader
        self._counts = counts
        self._clock = clock

    def __call__(self, pod: Pod, nodes: Sequence[str]) -> Verdict:
        """Choose among `nodes`. A pod that asks for no slice may go to all of them."""
        try:
            request = self._state.request_of(pod)
        except RequestError as error:
            return Verdict(hopeless=dict.fromkeys(nodes, str(error)))
        if request is None:
            return Verdict(nodes)
        with self._state.lock:
            if why := self._why_not(pod):
                return Verdict(error=why)
            started = self._clock()
            answer = self._state.reserve(pod, request, nodes)
            self._counts.placed(self._clock() - started)
        if isinstance(answer, Refusal):
            return Verdict(failed=answer.by_node)
        return Verdict((answer.grant.node,))

    def _why_not(self, pod: Pod) -> str:
        if why := self._leader.why_not() or self._state.why_not_synced():
            return why
        if self._state.is_gone(pod.uid):
            return f"pod {pod.namespace}/{pod.name} is gone"
        known = self._state.pod(pod.uid)
        if known is not None and known.node:
            return f"pod {pod.namespace}/{pod.name} is bound to {known.node} already"
        reservation = self._state.reservations.get(pod.uid)
        if reservation is not None and reservation.stage is not Stage.WAITING:
            return "what became of an earlier Binding is not known yet: try again"
        return ""
