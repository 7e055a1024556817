"""Pods that /filter refused though they may preempt others: what they ask for, and where they could run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from device_plugin.cluster.node_lists import NodeLists
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest

# Wishes in all, and of pods of one namespace.
MOST, MOST_OF_NAMESPACE = 4096, 512


@dataclass(frozen=True, slots=True)
class Wish:
    """A pod that was refused on all of `nodes`, which lack nothing else for it."""

    pod: Pod
    request: PodRequest
    nodes: Sequence[str]


class Wishes:
    """By pod uid, the newest of each. Callers hold the state's lock.

    Only a pod of a priority above the least that anybody held slices with can get anything by it: nobody else's wish is
    noted. Within a priority namespaces take turns, and of one namespace those that were tried least come first: a
    thousand that nothing helps would else stand before all others, again and again. Where there are too many, the
    namespace with the most of them loses the one that was noted last.
    """

    def __init__(self, node_lists: NodeLists) -> None:
        self._node_lists = node_lists
        self._least = float("inf")
        self._by_pod: dict[str, Wish] = {}
        self._tries: Counter[str] = Counter()
        # By namespace: how many there are, and the number of the turn that it had last.
        self._of: Counter[str] = Counter()
        self._turns: dict[str, int] = {}
        self._turn = 0
        self.left_out = 0
        """Wishes that are not noted because there were too many."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._by_pod)

    def held(self, priority: int) -> None:
        """A pod of this priority holds slices."""
        self._least = min(self._least, priority)

    def may_win(self, pod: Pod) -> bool:
        """True if others of less priority hold slices, and the pod may preempt them."""
        return pod.preempts and pod.priority > self._least

    def note(self, wish: Wish) -> None:
        """The pod was refused just now."""
        namespace = wish.pod.namespace
        self._pop(wish.pod.uid)
        if not self.may_win(wish.pod):
            return
        self._by_pod[wish.pod.uid] = replace(wish, nodes=self._node_lists.of(wish.nodes))
        self._of[namespace] += 1
        if self._of[namespace] > MOST_OF_NAMESPACE:
            self._leave_out(namespace)
        elif len(self._by_pod) > MOST:
            self._leave_out(max(self._of, key=self._of.__getitem__))

    def drop(self, uid: str) -> None:
        """The pod is gone, or has what it wants."""
        self._pop(uid)
        self._tries.pop(uid, None)

    def clear(self) -> None:
        """Others decide now."""
        self._by_pod.clear()
        self._of.clear()
        self._tries.clear()
        self._turns.clear()

    def take(self) -> Wish | None:
        """The foremost wish, forgotten here; None if there is none."""
        if not self._by_pod:
            return None
        wish = min(self._by_pod.values(), key=self._order)
        self._tries[wish.pod.uid] += 1
        self._turn += 1
        self._turns[wish.pod.namespace] = self._turn
        if len(self._turns) > MOST:
            del self._turns[min(self._turns, key=self._turns.__getitem__)]
        self._pop(wish.pod.uid)
        return wish

    def _leave_out(self, namespace: str) -> None:
        self._pop(
            next(uid for uid, wish in reversed(self._by_pod.items()) if wish.pod.namespace == namespace)
        )
        self.left_out += 1

    def _pop(self, uid: str) -> None:
        wish = self._by_pod.pop(uid, None)
        if wish is not None:
            self._of[wish.pod.namespace] -= 1
            if not self._of[wish.pod.namespace]:
                del self._of[wish.pod.namespace]

    def _order(self, wish: Wish) -> tuple[int, int, int, str, str]:
        pod = wish.pod
        return -pod.priority, self._turns.get(pod.namespace, 0), self._tries[pod.uid], pod.created, pod.uid
