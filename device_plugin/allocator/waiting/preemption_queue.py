"""The preemption queue: pods refused by /filter that may preempt others, with their requests and possible nodes."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from device_plugin.allocator.waiting.bounded import Bounded
from device_plugin.allocator.waiting.node_lists import NodeLists
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest

# Most pods in the queue, and most of one namespace.
MOST, MOST_OF_NAMESPACE = 4096, 512


@dataclass(frozen=True, slots=True)
class Pending:
    """A pod that was refused on all of `nodes`; it may fit on each of them once enough slices have ended there."""

    pod: Pod
    request: PodRequest
    nodes: Sequence[str]


class PreemptionQueue(Bounded[str, Pending]):
    """The pods, by UID, that may preempt others, each with its latest refusal. Callers hold the cluster view's lock.

    A pod is left out if no pod of a lower priority ever held slices. Within a priority, namespaces take turns, and in
    each namespace the pods with the fewest tries come first, so that many hopeless pods do not delay the others.
    """

    def __init__(self, node_lists: NodeLists) -> None:
        super().__init__(MOST, MOST_OF_NAMESPACE)
        self._node_lists = node_lists
        self._least = float("inf")
        self._tries: Counter[str] = Counter()
        # By namespace: the number of its last turn.
        self._turns: dict[str, int] = {}
        self._turn = 0

    def held(self, priority: int) -> None:
        """Record that a pod of this priority holds slices: now pods of a higher priority may enter the queue."""
        self._least = min(self._least, priority)

    def may_win(self, pod: Pod) -> bool:
        """True if pods of a lower priority may hold slices, and the pod's class allows preemption."""
        return pod.preempts and pod.priority > self._least

    def add(self, pending: Pending) -> None:
        """Add a pod that was just refused; a pod that may not preempt others is removed."""
        if self.may_win(pending.pod):
            pending = replace(pending, nodes=self._node_lists.of(pending.nodes))
            self.put(pending.pod.namespace, pending.pod.uid, pending)
        else:
            self.drop(pending.pod.uid)

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that is gone or has been placed, and its tries."""
        self.drop(uid)
        self._tries.pop(uid, None)

    def clear(self) -> None:
        """Forget all pods, their tries and whose turn it is, because this replica leads no longer."""
        super().clear()
        self._tries.clear()
        self._turns.clear()

    def take(self) -> Pending | None:
        """Remove and return the next pod, and count the try; None if the queue is empty."""
        if not len(self):
            return None
        pending = min(self.values(), key=self._order)
        self._tries[pending.pod.uid] += 1
        self._turn += 1
        self._turns[pending.pod.namespace] = self._turn
        if len(self._turns) > self.most:
            del self._turns[min(self._turns, key=self._turns.__getitem__)]
        return self.drop(pending.pod.uid)

    def _order(self, pending: Pending) -> tuple[int, int, int, str, str]:
        pod = pending.pod
        return -pod.priority, self._turns.get(pod.namespace, 0), self._tries[pod.uid], pod.created, pod.uid
