"""Touches (changes an annotation of) bound pods whose claims are not prepared, once their node's agent can do so.

The kubelet repeats a failed prepare after 60 to 90 s, or at once if an annotation of the pod changes. So when the
kubelet has registered a node's agent as a DRA driver, or the agent reports other slices than before, the pods that wait
on the node are touched. A pod that does not run after that is touched twice more.
"""

from dataclasses import dataclass, field

from device_plugin.allocator.service import Service, Shared
from device_plugin.cluster.touching import touch
from device_plugin.core.ledger import Holder
from device_plugin.core.pods import Pod
from device_plugin.kube.api import Api

# Seconds after a change at which a pod is touched: a claim is prepared in well under a second, but the first touch may
# reach the kubelet before the agent is ready.
DELAYS = (0.0, 5.0, 20.0)
# Least seconds between two touches of a pod: an agent's reports may change all the time.
GAP_SECONDS = 5.0
# Most touches in one step; there are about four steps per second.
MOST = 16


@dataclass(slots=True)
class _Starting:
    """A bound pod that does not run yet, and the times `due` at which to touch it (change an annotation of it).

    `touched` is the time of the last touch.
    """

    pod: Pod
    due: list[float] = field(default_factory=list)
    touched: float = float("-inf")


@dataclass(slots=True)
class _Node:
    """The bound pods of a node that do not run, by UID, and the last news of the node's agent."""

    agent: object
    starting: dict[str, _Starting] = field(default_factory=dict)


class ClaimTouch(Service):
    """Touches bound pods with ResourceClaims that wait for their node's agent; `step` is called 4 times a second."""

    def __init__(self, shared: Shared, api: Api) -> None:
        super().__init__(shared)
        self._api = api
        # No node is without a pod that does not run.
        self._nodes: dict[str, _Node] = {}
        self._node_of: dict[str, str] = {}
        self._led = False
        self._view.follow(self)

    def step(self) -> None:
        """Touch (write an annotation of) the pods that are due, if this replica leads.

        At the beginning of its term each pod that waits is touched.
        """
        leads, now = not self._why_not_leading(), self._clock()
        with self._view.lock:
            for name, node in self._nodes.items():
                before, node.agent = node.agent, self._agent(name)
                if leads and (node.agent != before or not self._led):
                    _plan(node, now)
            due = [each for node in self._nodes.values() for each in node.starting.values() if each.due]
        self._led = leads
        if leads:
            due = [each for each in due if each.due[0] <= now]
            for each in sorted(due, key=lambda each: each.due[0])[:MOST]:
                self._touch(each, now)

    def _agent(self, node: str) -> object:
        """A value that changes when pods with claims may be able to start on the node; None if none can start.

        It has the reports of the node's agent, and the number of its registrations: a registration may end and another
        may begin between two steps. The lock is held.
        """
        nodes = self._view.node_news
        inventory = nodes.inventory(node)
        if inventory is None or not inventory.claims:
            return None
        return inventory.slices, nodes.registrations(node)

    def _touch(self, starting: _Starting, now: float) -> None:
        pod = starting.pod
        starting.due, starting.touched = [at for at in starting.due if at > now], now
        touch(self._api, self._view, pod, f"the agent of {pod.node} can prepare it")

    # Called by the view when a pod changes

    def see(self, pod: Pod, before: Pod | None) -> None:
        """Does nothing: `account` receives the same pod."""

    def account(self, pod: Pod, before: Pod | None, *, changed: bool) -> None:  # noqa: ARG002 - Follower's
        """Record a bound pod with ResourceClaims that waits for its start; remove a pod that waits no longer."""
        if not pod.claims:
            return
        waits = pod.node and pod.phase == "Pending" and not pod.deleting
        if not waits or self._node_of.get(pod.uid, pod.node) != pod.node:
            self.forget_pod(pod.uid)
        if not waits:
            return
        node = self._nodes.get(pod.node)
        if node is None:
            node = self._nodes[pod.node] = _Node(self._agent(pod.node))
        self._node_of[pod.uid] = pod.node
        node.starting.setdefault(pod.uid, _Starting(pod))

    def claim_changed(self, pod: Pod) -> None:
        """Does nothing, because the pod is not bound."""

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that is gone, or that waits no longer."""
        name = self._node_of.pop(uid, "")
        if name:
            starting = self._nodes[name].starting
            del starting[uid]
            if not starting:
                del self._nodes[name]

    def give_back(self, holder: Holder) -> None:
        """Does nothing: only bound pods are kept here, and a bound pod has no reservation."""


def _plan(node: _Node, now: float) -> None:
    """Set the times at which to touch the node's pods after a change; none while its agent cannot prepare claims."""
    for each in node.starting.values():
        begin = max(now, each.touched + GAP_SECONDS)
        each.due = [begin + delay for delay in DELAYS] if node.agent is not None else []
