"""The waiting room: all queues of refused pods in one object, so that one call removes a pod from all of them."""

from collections.abc import Callable

from device_plugin.allocator.waiting.node_lists import NodeLists
from device_plugin.allocator.waiting.preemption_queue import PreemptionQueue
from device_plugin.allocator.waiting.refusal_budget import RefusalBudget
from device_plugin.allocator.waiting.refusals import PostponedPods, Refusals, WaitingPods
from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer
from device_plugin.core.pods import Pod


class WaitingRoom:
    """The queues of refused pods. Callers hold the cluster view's lock.

    `pods` are the refused pods, and `preemption` the refused pods that may preempt others. `postponed` are pods that
    are touched in the next step, so that kube-scheduler asks for them again. `unclaimed` are the pods that were refused
    because of their ResourceClaims. `refusals` are the remembered refusals; `budget` limits the time spent on refusing.
    """

    def __init__(self, ledger: Ledger, placer: Placer, clock: Callable[[], float]) -> None:
        self.node_lists = NodeLists(placer.table)
        self.budget = RefusalBudget(clock)
        self.refusals = Refusals(ledger, placer)
        self.pods = WaitingPods(ledger, self.node_lists)
        self.postponed = PostponedPods()
        self.unclaimed = PostponedPods()
        self.preemption = PreemptionQueue(self.node_lists)

    def placed(self, uid: str) -> None:
        """Remove a pod for which slices are reserved now from `pods` and `preemption`."""
        self.preemption.forget_pod(uid)
        self.pods.drop(uid)

    def bound(self, pod: Pod) -> None:
        """Remove a pod that is bound; pods of a higher priority may preempt it from now on."""
        self.preemption.held(pod.priority)
        self.pods.drop(pod.uid)
        self.postponed.drop(pod.uid)
        self.unclaimed.drop(pod.uid)

    def claim_changed(self, pod: Pod) -> None:
        """Add a pod to the pods that are touched next (`postponed`), if it was refused because of its claims.

        Called when the pod or one of its claims (ResourceClaims) has changed, so the pod may fit now. A touch, a change
        of an annotation, makes kube-scheduler ask for the pod again.
        """
        if self.unclaimed.drop(pod.uid) is not None:
            self.postponed.put(pod.namespace, pod.uid, pod)

    def forget_pod(self, uid: str) -> None:
        """Remove a pod that is gone, or cannot be read any more, from all queues."""
        self.placed(uid)
        self.postponed.drop(uid)
        self.unclaimed.drop(uid)

    def clear(self) -> None:
        """Empty `pods` and `preemption`, the queues of refused pods, because this replica leads no longer."""
        self.preemption.clear()
        self.pods.clear()
