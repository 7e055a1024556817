"""The allocator: it reserves slices for a pod or refuses the pod, and keeps the reservations and the refused pods.

Only the leader's allocator decides, and it keeps the reservations only in memory. A reservation ends when its pod is
bound, changes or is gone, when its time is over, when its gang loses a reservation, or when its card takes no new
slices any more.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from msgspec import structs

from device_plugin.allocator.gangs.gangs import Gangs
from device_plugin.allocator.gangs.groups import GroupName, Groups
from device_plugin.allocator.learning import Learning
from device_plugin.allocator.waiting.preemption_queue import Pending
from device_plugin.allocator.waiting.refusals import WaitsFor
from device_plugin.allocator.waiting.room import WaitingRoom
from device_plugin.core.app_types import Scoring
from device_plugin.core.contract.annotations import GROUP
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.errors import RequestError
from device_plugin.core.ledger import Holder, Reservation, ReservationStage
from device_plugin.core.placement import Placer, Refusal, Refused
from device_plugin.core.placement.place import BY_DEFAULT
from device_plugin.core.placement.policies import APART
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Planner
from device_plugin.core.requests import PodRequest
from device_plugin.state.pods import taken_back
from device_plugin.state.view import ClusterView

log = logging.getLogger(__name__)


class Allocator:
    """Places pods, and keeps each grant as a reservation until its pod is bound or its time is over.

    Each public method takes the cluster view's lock, except `prepare` and `news`, which need none.
    """

    def __init__(
        self, view: ClusterView, seconds: float, clock: Callable[[], float], scoring: Scoring = BY_DEFAULT
    ) -> None:
        self._view = view
        self._ledger = view.ledger
        self._seconds = seconds
        self._clock = clock
        self.placer = Placer(view.ledger, loads=view.measured.loads, scoring=scoring)
        self.planner = Planner(view.ledger, self.placer)
        self.waiting = WaitingRoom(view.ledger, self.placer, clock)
        self.groups = Groups(view.ledger)
        self.gangs = Gangs(
            view.ledger,
            self.placer,
            self.groups,
            seconds,
            view.pods.request_of,
            self.waiting.node_lists,
            self.waiting.budget,
            clock,
        )
        self.learning = Learning(view.pods.request_of, view.pods.get)
        view.follow(self)

    # Decisions

    def prepare(self, request: PodRequest, nodes: Sequence[str]) -> None:
        """Find `nodes` in the arrays of cards (node table), before the lock is taken for a decision about the request.

        So the decision holds the lock for less time. The method does nothing for a pod of a gang.
        """
        if request.gang is not None:
            return
        waiting = self.waiting.pods.get(request.pod)
        if (waiting is not None and waiting.hopeless is not None) or self.waiting.refusals.knows(request):
            # A remembered refusal needs only the nodes' rows in the table.
            self.placer.table.chosen(nodes)
        else:
            self.placer.prepare(request, nodes)

    def reserve(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], *, named: bool = False
    ) -> Reservation | Refused:
        """Place the pod on one of `nodes`; returns its new reservation, which replaces an earlier one, or the refusal.

        A pod of a gang keeps an earlier reservation on one of `nodes`. If it has none, all pods of its gang are placed,
        or none. `named` is true if /bind named the node for this pod alone: then the node is not offered to other pods
        of the gang, and the refusal does not count in the refusal budget. Raises LaterError if that budget, the time
        for refusals, is used up.
        """
        with self._view.lock:
            self.expire()
            if wrong := self.problem(pod, request) if not named else self._view.claim_in_use(pod, request):
                refused = Refused(lambda: Refusal.saying(Reason.MALFORMED, wrong))
                if not named:
                    gang = request.gang is not None
                    self.waiting.pods.note(
                        self._view.pod_news.known(pod), nodes, refused, gang=gang, waits_for=WaitsFor.ANYTHING
                    )
                return refused
            beneficiary = self._view.promises.of(pod)
            if not beneficiary:
                again = None if named else self._refused_again(pod, request, nodes)
                return again or self._reserve(pod, request, nodes, named=named)
            with self._view.promises.slices.open(beneficiary):
                return self._reserve(pod, request, nodes, named=named, promised=True)

    def refused_again(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Refused | None:
        """The pod's latest refusal, if it was on the same `nodes` and no node of the cluster can take the pod now.

        Otherwise None: then `reserve` must decide. No reservation changes here, and expired reservations still hold
        their slices. Once `expire` frees these slices, the pod may fit; then it is touched, so that kube-scheduler asks
        for it again.
        """
        with self._view.lock:
            if self.problem(pod, request) or self._view.promises.of(pod):
                return None
            return self._refused_again(pod, request, nodes)

    def problem(self, pod: Pod, request: PodRequest) -> str:
        """The reason why the pod gets no slices as it is: its group is wrong, or another pod has its ResourceClaim.

        Empty if there is none. The lock is held.
        """
        return self.groups.problem((pod.namespace, pod.label(GROUP))) or self._view.claim_in_use(pod, request)

    def in_group(self, pod: Pod, request: PodRequest) -> PodRequest:
        """The request, with the pod's number in its group if its policy gives each pod of a group its own node.

        With another policy the request is returned unchanged.
        """
        if request.policy not in APART:
            return request
        with self._view.lock:
            return replace(request, rank=self.groups.rank(pod))

    def news(self) -> object:
        """A value that changes whenever a refused pod may fit again."""
        return self._ledger.freed, self.groups.news

    # The changes of a reservation

    def nominate(self, pending: Pending, grant: Grant, seconds: float) -> None:
        """Reserve `grant` for `seconds` for a pod whose victims (pods that must end for it) are being evicted.

        Until the victims have ended, the ledger counts both their grants and this grant.
        """
        with self._view.lock:
            until = self._clock() + seconds
            self._ledger.put(
                Reservation.for_pod(pending.pod, pending.request, grant, until, ReservationStage.NOMINATED)
            )

    def resume(self, pending: Pending) -> None:
        """Release the slices that a preemption reserved for the pod, because a victim was not evicted.

        The pod is queued for preemption again. Nothing happens if the pod has no such reservation (NOMINATED) any more.
        """
        with self._view.lock:
            found = self._ledger.reservation(pending.pod.uid)
            if found is not None and found.stage is ReservationStage.NOMINATED:
                self.release(pending.pod.uid)
                self.waiting.preemption.add(pending)

    def claim(self, uid: str, node: str) -> Reservation | None:
        """Mark the pod's reservation on `node` as BINDING, because its Binding is sent now, and return it.

        Returns None if the pod has no reservation there that waits for its Binding. If the card takes no new slices any
        more, the reservation is released, and None is returned too.
        """
        with self._view.lock:
            self.expire()
            found = self._ledger.reservation(uid)
            if found is None or found.stage is not ReservationStage.WAITING or found.grant.node != node:
                return None
            if not self._ledger.fits_still(found.grant):
                # The card was cordoned, became unhealthy or shrank after it was chosen: it takes no new pods.
                self.release(uid)
                return None
            claimed = structs.replace(found, stage=ReservationStage.BINDING, sent=self._clock(), expires=inf)
            self._ledger.put(claimed)
            return claimed

    def unknown(self, reservation: Reservation) -> Reservation | None:
        """Mark the reservation as UNKNOWN, because its Binding got no clear answer.

        Returns the reservation; None if it ended meanwhile.
        """
        with self._view.lock:
            found = self._ledger.reservation(reservation.pod.uid)
            if found is None:
                return None
            unknown = structs.replace(found, stage=ReservationStage.UNKNOWN)
            self._ledger.put(unknown)
            return unknown

    def release(self, uid: str) -> None:
        """End the pod's grant or reservation in the ledger.

        The reservations of the other pods of its gang end too, unless a Binding of the gang was sent.
        """
        with self._view.lock:
            self._view.free(uid)
            self._release_incomplete(self.gangs.name(uid))

    def release_unbound(self, uid: str) -> None:
        """End the reservation of a pod whose Binding failed, unless the pod is of a gang.

        A pod of a gang keeps its reservation, which waits for a new Binding. If the pod is bound all the same, the
        ledger has its grant and no reservation; the grant stays.
        """
        with self._view.lock:
            found = self._ledger.reservation(uid)
            if found is not None and not self.gangs.put_back(found):
                self._view.free(uid)

    def give_back(self, holder: Holder) -> None:
        """Release the reservation of a pod that was preempted or refused, or must be placed again.

        Only a reservation that waits for its Binding is released; every other reservation stays.
        """
        with self._view.lock:
            found = self._ledger.reservation(holder)
            if found is not None and found.stage is ReservationStage.WAITING:
                log.info("reservation given back pod=%s/%s", found.pod.namespace, found.pod.name)
                self.release(found.pod.uid)

    def expire(self) -> None:
        """Release the reservations whose pods were not bound in time.

        Before that, `ClusterView.expire` ends other entries whose time is over, such as promises.
        """
        with self._view.lock:
            self._view.expire()
            now = self._clock()
            for uid in (*self._ledger.expired(now), *self.gangs.expired(now)):
                held = self._ledger.reservation(uid)
                name = f"{held.pod.namespace}/{held.pod.name}" if held is not None else uid
                log.info("reservation expired pod=%s", name)
                self.release(uid)

    def drop(self) -> None:
        """Release all reservations whose Binding was not sent, and empty the queues: this replica leads no longer.

        The outcome of a Binding that was sent will be read from its pod.
        """
        with self._view.lock:
            for reservation in self._ledger.reservations():
                if not reservation.under_way:
                    self.release(reservation.pod.uid)
            self.waiting.clear()

    # Called by the view when a pod changes

    def see(self, pod: Pod, before: Pod | None) -> None:
        """Record the pod's present state in its group and gang.

        The request of a new pod will count in the learnt mix of requests (the target workload), if the pod stays. If
        the pod has left a gang, the reservations of that gang end, unless a Binding of the gang was sent.
        """
        if before is None:
            self.learning.arrived(pod, self._clock() if "pods" in self._view.listed else -inf)
        self._release_incomplete(self.gangs.see(pod))

    def account(self, pod: Pod, before: Pod | None, *, changed: bool) -> None:
        """Update the reservations and the waiting pods after news of a pod.

        A pod loses its reservation if it is being deleted, if it asks for something else now, or if kube-scheduler has
        put it back into its queue. A pod that is bound waits no longer. If a pod of a gang now lacks a reservation, the
        gang loses all of its reservations.
        """
        if changed and pod.node and not pod.ended:
            self.waiting.bound(pod)
        elif changed and not pod.ended:
            self._account_unbound(pod, before)
            if before is not None and before.claims != pod.claims:
                self.waiting.claim_changed(pod)
        self._release_incomplete(self.gangs.name_unless_bound(pod.uid))

    def claim_changed(self, pod: Pod) -> None:
        """Act on a change of a ResourceClaim of an unbound pod.

        If the claim now makes another request, the pod's reservation is released. If the pod was refused because of its
        claims, it will be touched, so that kube-scheduler asks for it again.
        """
        self._account_unbound(pod, pod)
        self.waiting.claim_changed(pod)

    def forget_pod(self, uid: str) -> None:
        """Forget a pod that is gone, or cannot be read any more; the reservations of its gang end too.

        They do not end if a Binding of the gang was sent.
        """
        self.waiting.forget_pod(uid)
        self.learning.forget_pod(uid)
        self._release_incomplete(self.gangs.forget_pod(uid))

    # With the lock held

    def _reserve(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], *, named: bool, promised: bool = False
    ) -> Reservation | Refused:
        if request.gang is not None:
            return self._reserve_gang(pod, request, nodes, named=named)
        alone = partial(self._reserve_alone, pod, request, nodes, named=named, promised=promised)
        return alone() if named else self.waiting.budget.decided(pod.namespace, request, alone)

    def _refused_again(self, pod: Pod, request: PodRequest, nodes: Sequence[str]) -> Refused | None:
        """The pod's latest refusal if it still holds and a new decision would do nothing else; else None.

        A decision does more if the pod holds slices or may preempt other pods. kube-scheduler asks for refused pods at
        every event, so this is the call that comes most often.
        """
        known = self._view.pods.get(pod.uid)
        # A reservation would be released or restored, and a pod that may preempt others is queued for it once more.
        if (
            known is None
            or self._ledger.holding(pod.uid) is not None
            or self.waiting.preemption.may_win(known)
        ):
            return None
        return self.waiting.pods.again(known, request, nodes)

    def _reserve_alone(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], *, named: bool, promised: bool
    ) -> Reservation | Refused:
        decide = self._decided_alone if promised else self._decided
        before = self._ledger.reservation(pod.uid)
        self.release(pod.uid)
        request, answer = decide(pod, request, nodes)
        if isinstance(answer, Refused):
            pod = self._view.pod_news.known(pod)
            self._queue_preemption(Pending(pod, request, nodes), before)
            if not named:
                alone = None if promised else request
                self.waiting.pods.note(
                    pod, nodes, answer, gang=False, waits_for=WaitsFor.CARDS, request=alone
                )
            return answer
        made = Reservation.for_pod(pod, request, answer, self._clock() + self._seconds)
        self._ledger.put(made)
        self.waiting.placed(pod.uid)
        return made

    def _reserve_gang(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], *, named: bool
    ) -> Reservation | Refused:
        known = self._view.pod_news.known(pod)
        found = self.gangs.reserve(pod, request, nodes, named=named)
        if isinstance(found, Reservation):
            self.waiting.pods.drop(pod.uid)
            return found
        refused = Refused(lambda: found)
        if not named:
            self.waiting.pods.note(known, nodes, refused, gang=True, waits_for=WaitsFor.ANYTHING)
        return refused

    def _decided(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str]
    ) -> tuple[PodRequest, Grant | Refused]:
        """Return the request and the decision about it; a refusal is remembered.

        The request has the pod's rank in its group only if the decision needed the rank. Most pods are refused because
        no node has the cards, and most of these refusals are remembered: then the rank is not computed.
        """
        answer: Grant | Refused | None = self.waiting.refusals.get(pod, request, nodes)
        if answer is not None:
            return request, answer
        if request.policy in APART and pod.label(GROUP):
            answer = self.placer.hopeless(request, nodes, vetted=True)
            if answer is None:
                request = self.in_group(pod, request)
                answer = self.waiting.refusals.get(pod, request, nodes)
                if answer is not None:
                    return request, answer
        answer = answer or self.placer.decide(request, nodes, vetted=True)
        if isinstance(answer, Refused):
            self.waiting.refusals.note(pod, request, nodes, answer)
        return request, answer

    def _decided_alone(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str]
    ) -> tuple[PodRequest, Grant | Refused]:
        """Return a new decision on the request, and the request with the pod's rank (number) in its group.

        It is used for a pod with promised slices, which are kept for the pod's job. Remembered refusals are not used:
        they do not count these slices as free.
        """
        request = self.in_group(pod, request)
        return request, self.placer.decide(request, nodes, vetted=True)

    def _queue_preemption(self, pending: Pending, before: Reservation | None) -> None:
        """Queue a refused pod for preemption, or restore its reservation `before`.

        The reservation is restored if it is a nomination for the same request: victims are being evicted already. The
        queue leaves out a pod that may not preempt others.
        """
        if (
            before is not None
            and before.stage is ReservationStage.NOMINATED
            and before.request == pending.request
        ):
            self._ledger.put(before)
        else:
            if self.waiting.preemption.may_win(pending.pod):
                pending = replace(pending, request=self.in_group(pending.pod, pending.request))
            self.waiting.preemption.add(pending)

    def _account_unbound(self, pod: Pod, before: Pod | None) -> None:
        reservation = self._ledger.reservation(pod.uid)
        if reservation is None or reservation.under_way:
            return
        try:
            request = self._view.pods.request_of(pod)
        except RequestError:
            request = None
        # A pod that is being deleted is never bound, and a finalizer may keep it for ever.
        if pod.deleting or request != reservation.request:
            log.info("reservation released: deleted or changed pod=%s/%s", pod.namespace, pod.name)
            self.release(pod.uid)
        elif taken_back(before, pod, reservation) and not self.gangs.under_way(pod.uid):
            # Once a pod of a gang is bound, the others keep their reservations: a failed Binding is tried again.
            self.give_back(pod.uid)

    def _release_incomplete(self, gang: GroupName | None) -> None:
        """Release the reservations of a gang in which a pod has lost its reservation.

        They stay if a Binding of the gang was sent.
        """
        for uid in self.gangs.release_incomplete(gang) if gang is not None else ():
            self._view.free(uid)
