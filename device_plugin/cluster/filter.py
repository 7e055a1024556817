"""/filter: choose one node for a pod and reserve its slices, or refuse it. It makes no call to the API server."""

from collections.abc import Sequence

from msgspec import Struct

from device_plugin.allocator.service import Service, Shared
from device_plugin.allocator.waiting.refusal_budget import LaterError
from device_plugin.cluster.counts import Counts
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import Reservation
from device_plugin.core.placement import Refusal, Refused
from device_plugin.core.placement.node_texts import NO_TEXTS, NodeTexts
from device_plugin.core.placement.offer import Offer
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest

# A fixed text, because kube-scheduler writes each new text to the pod; /readyz and the log say why this replica waits.
NOT_YET = "vgpu places no pods at the moment; kube-scheduler is made to ask again once it does"


class Verdict(Struct, frozen=True):
    """The answer to kube-scheduler: the nodes that remain, the texts of the refused nodes, or an error.

    kube-scheduler looks for pods to evict on `failed` nodes, and not on `hopeless` nodes.
    """

    nodes: Sequence[str] = ()
    failed: NodeTexts = NO_TEXTS
    hopeless: NodeTexts = NO_TEXTS
    error: str = ""


class Filter(Service):
    """Answers kube-scheduler's /filter: the chosen node, where slices are then reserved, or a refusal.

    It may be called from any thread.
    """

    def __init__(self, shared: Shared, counts: Counts) -> None:
        super().__init__(shared)
        self._counts = counts

    def __call__(self, pod: Pod, nodes: Sequence[str]) -> Verdict:
        """Reserve slices for the pod and return the chosen node, or refuse the pod.

        All of `nodes` are returned if the pod asks for no slice.

        While this replica does not place, the pod is refused; once the replica places, it touches the pod (writes to
        it), so that kube-scheduler asks again.
        """
        pod = self._view.gangs.labelled(pod)
        try:
            request = self._request(pod)
        except RequestError as error:
            return self._nowhere(nodes, str(error))
        if request is None:
            return Verdict(nodes)
        if self._why_not_placing():
            return self._postponed(pod, nodes)
        self._allocator.prepare(request, nodes)
        with self._view.lock:
            if self._view.pods.is_gone(pod.uid):
                # Not an error, which kube-scheduler would log and repeat until it learns of the pod's end itself.
                return self._nowhere(nodes, f"pod {pod.namespace}/{pod.name} is gone")
            if self._why_not_placing():
                # The term has ended since the lock was asked for.
                return self._postponed(pod, nodes)
            if why := self._why_not(pod):
                return Verdict(error=why)
            try:
                answer = self._place(pod, request, nodes)
            except LaterError as error:
                return Verdict(error=str(error))
        if isinstance(answer, Reservation):
            return Verdict((answer.grant.node,))
        return self._refused(pod, answer(), nodes)

    def again(self, pod: Pod, nodes: Sequence[str]) -> Verdict | None:
        """Return the earlier refusal of a pod on the same nodes, if still no node can take the pod; else None.

        Nothing is reserved or released.
        """
        pod = self._view.gangs.labelled(pod)
        try:
            request = self._view.pods.request_of(pod)
        except RequestError:
            return None
        # A replica that does not place must answer without the lock, as `__call__` does.
        if request is None or self._why_not_placing():
            return None
        self._allocator.prepare(request, nodes)
        started = self._clock()
        with self._view.lock:
            if self._view.pods.is_gone(pod.uid) or self._why_not_placing() or self._why_not(pod):
                return None
            answer = self._allocator.refused_again(pod, request, nodes)
        if answer is None:
            return None
        self._counts.placed(self._clock() - started)
        return self._refused(pod, answer(), nodes)

    def _request(self, pod: Pod) -> PodRequest | None:
        """The pod's request; None if it asks for no slice. Raises RequestError.

        A pod whose ResourceClaims cannot be read as a request is recorded. Once one of its claims has changed, the pod
        is touched, so that kube-scheduler asks for it again.
        """
        try:
            return self._view.pods.request_of(pod)
        except RequestError:
            if not pod.claims or not self._view.serves_claims:
                raise
        with self._view.lock:
            known = self._view.pod_news.known(pod)
            self._allocator.waiting.unclaimed.put(pod.namespace, pod.uid, known)
            # Once more: the claim may have come before the pod was recorded.
            request = self._view.pods.request_of(pod)
            self._allocator.waiting.unclaimed.drop(pod.uid)
            return request

    def _nowhere(self, nodes: Sequence[str], text: str) -> Verdict:
        return Verdict(hopeless=NodeTexts.same(self._offered(nodes), text))

    def _offered(self, nodes: Sequence[str]) -> Offer:
        """The offer to a pod: the `nodes` that kube-scheduler offers, each with its row in the node table.

        It needs no lock. The table keeps recent offers: the decision on the same nodes has made this one already.
        """
        return self._allocator.placer.table.offered(nodes)

    def _refused(self, pod: Pod, refusal: Refusal, nodes: Sequence[str]) -> Verdict:
        offer = self._offered(nodes)
        texts = refusal.by_node(offer)
        if refusal.main is Reason.GANG:
            return Verdict(hopeless=texts)
        texts = texts.noted(self._view.notes(offer))
        # kube-scheduler found enough of everything that it counts on each of these nodes. So its own preemption would
        # search there without success, which takes longer than the rest of the attempt; our preemption handles cards.
        # But if it has nominated a node, it must continue to wait for that node.
        return Verdict(failed=texts) if pod.nominated else Verdict(hopeless=texts)

    def _postponed(self, pod: Pod, nodes: Sequence[str]) -> Verdict:
        """Keep the pod, which gets no decision now, and return its refusal.

        Once this replica places, the pod is touched: a write to it makes kube-scheduler ask again.
        """
        # Keep the view's object of the pod: the copy that kube-scheduler sent would take memory in addition.
        known = self._view.pods.get(pod.uid) or pod
        self._allocator.waiting.postponed.put(pod.namespace, pod.uid, known)
        # Not an error: after one, kube-scheduler waits for the whole backoff before it asks again.
        return self._nowhere(nodes, NOT_YET)

    def _place(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Reservation | Refused:
        started = self._clock()
        answer = self._allocator.reserve(pod, request, nodes)
        self._counts.placed(self._clock() - started)
        return answer

    def _why_not(self, pod: Pod) -> str:
        known = self._view.pods.get(pod.uid)
        if known is not None and known.node:
            return f"pod {pod.namespace}/{pod.name} is bound to {known.node} already"
        reservation = self._view.ledger.reservation(pod.uid)
        if reservation is not None and reservation.under_way:
            return "the outcome of an earlier Binding is not known yet: try again"
        return ""
