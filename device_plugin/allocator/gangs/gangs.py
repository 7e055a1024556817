"""Gangs: all of a group's pods get their reservations in one moment, or none does and the group holds nothing.

kube-scheduler asks for one pod at a time. While pods of the gang are missing, each of its pods is refused. Once the
gang is complete, the first /filter for a pod of it reserves for all; later calls find these reservations.
`core/gang.py` decides the next step of a gang; this module carries it out on the ledger, while the time for refusals
(the refusal budget) lasts.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from msgspec import structs

from device_plugin.allocator.gangs.groups import GroupName, Groups
from device_plugin.allocator.gangs.offered import OfferedNodes
from device_plugin.allocator.waiting.node_lists import NodeLists
from device_plugin.allocator.waiting.refusal_budget import RefusalBudget
from device_plugin.core.contract.annotations import GROUP_SIZE
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.errors import RequestError
from device_plugin.core.gang import (
    BINDING_SECONDS,
    Asked,
    GangPod,
    GangView,
    Member,
    Nodes,
    place_all,
)
from device_plugin.core.ledger import Ledger, Reservation, ReservationStage
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.policies import APART
from device_plugin.core.pods import Pod
from device_plugin.core.requests import PodRequest
from device_plugin.core.roles import ALONE


@dataclass(frozen=True, slots=True)
class GangStatus:
    """The state of a gang, for people.

    `pods` are the names of its pods; `why` is the reason why it waits, empty if it does not wait. More than one entry
    in `sizes` is an error: the labels of its pods give different sizes.
    """

    namespace: str
    group: str
    sizes: Sequence[int]
    pods: Sequence[str]
    reserved: int
    bound: int
    finished: int
    why: str


class Gangs:
    """The gangs among `groups`, and their reservations. Callers hold the cluster view's lock."""

    def __init__(
        self, ledger: Ledger, placer: Placer, groups: Groups, seconds: float,
        request_of: Callable[[Pod], PodRequest | None],
        node_lists: NodeLists, budget: RefusalBudget, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._request_of = request_of
        self._ledger = ledger
        self._placer = placer
        self._seconds = seconds
        self._groups = groups
        self._node_lists = node_lists
        self._budget = budget
        self._clock = clock
        self.offered = OfferedNodes()
        # The earliest time at which the reservations of a gang expire.
        self._first_deadline = inf

    def see(self, pod: Pod) -> GroupName | None:
        """Record the present state of a pod; returns the name of the gang that the pod has left, or None.

        Callers must check whether the gang that the pod has left loses its reservations. A newly bound pod sets a new
        deadline for the other reservations of its gang, and drops the gang's lists of offered nodes.
        """
        before, now = self._groups.gang_pod(pod.uid), self._gang_pod(pod)
        self._groups.see(pod, now)
        if now is not None and pod.node and before is not None and not before.pod.node:
            self._groups.group(now.name).state.bind(self._clock())
            self._end_later(BINDING_SECONDS)
            self.offered.drop(now.name)
        if before is None or (now is not None and now.name == before.name):
            return None
        return self._left(before)

    def forget_pod(self, uid: str) -> GroupName | None:
        """Remove a pod that is gone; returns the name of its gang, None if the pod was in no gang."""
        before = self._groups.gang_pod(uid)
        self._groups.forget_pod(uid)
        return self._left(before) if before is not None else None

    def name(self, uid: str) -> GroupName | None:
        """The name of the pod's gang; None if the pod is in no gang."""
        member = self._groups.gang_pod(uid)
        return member.name if member is not None else None

    def name_unless_bound(self, uid: str) -> GroupName | None:
        """The name of the gang of an unbound pod; None if the pod is in no gang, or is bound.

        A change of a bound pod ends no reservations of its gang.
        """
        member = self._groups.gang_pod(uid)
        return member.name if member is not None and not member.bound else None

    def under_way(self, uid: str) -> bool:
        """True if a Binding of the pod's gang was sent: after that, one lost reservation does not end the others."""
        name = self.name(uid)
        return name is not None and self._groups.gang_view(name).under_way

    def reserve(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], *, named: bool
    ) -> Reservation | Refusal:
        """The pod's reservation on one of `nodes`; if there is none yet, all pods of its gang get one, or none does.

        `nodes` are also recorded for the gang's pods with equal requests, unless /bind `named` a node for this pod.
        Raises LaterError if the time for refusals (the refusal budget) is used up.
        """
        member = self._groups.gang_pod(pod.uid)
        if member is None or member.gang != request.gang:
            return Refusal.saying(
                Reason.GANG,
                "the labels of the pod were changed just now: wait, kube-scheduler tries it again",
            )
        if not member.live:
            return Refusal.saying(Reason.GANG, "the pod is being deleted, or has ended: leave it as it is")
        group = self._groups.group(member.name)
        held = self._ledger.reservation(pod.uid)
        if held is not None and held.grant.node in nodes:
            group.state.keep(self._end_later(self._seconds))
            return held
        view = self._groups.gang_view(member.name)
        if held is not None:
            answer = self._moved(member, held, nodes)
            if isinstance(answer, Reservation) or view.under_way:
                return answer
            for reservation in view.reserved:
                self._ledger.release(reservation.pod.uid)
            view = self._groups.gang_view(member.name)
        offered = self._node_lists.of(nodes)
        if not named:
            self.offered.put(member.name, member.equivalence, offered, group.classes.keys())
        return self._decided(view, member, offered, named=named)

    def complete(self, opened_for: Callable[[Pod], AbstractContextManager[None]]) -> None:
        """Reserve slices for the unbound pods of each gang of which some pods are bound.

        The earlier leader kept the reservations of these unbound pods only in memory, so the reservations are lost.
        `opened_for` makes a context in which the slices kept for a pod's job are free.
        """
        for name in self._groups.gangs():
            view = self._groups.gang_view(name)
            if view.bound and view.waiting:
                first = view.waiting[0]
                with opened_for(first.pod):
                    self._decided(view, first, None, named=True)

    def release_incomplete(self, name: GroupName) -> Sequence[str]:
        """The UIDs of the pods whose reservations the caller must end, because a pod of the gang lost its reservation.

        Empty if every pod has its reservation, if a Binding of the gang was sent, or if the group has too many pods.
        """
        group = self._groups.group(name)
        if group.state.deadline is None or group.crowded():
            return ()
        return group.state.lose(self._groups.gang_view(name))

    def put_back(self, reservation: Reservation) -> bool:
        """Make the reservation of a gang's pod, whose Binding failed, wait for a new Binding; true if that was done.

        False if the pod is in no gang, has left its gang, has ended, or is being deleted: then nothing changes.
        """
        member = self._groups.gang_pod(reservation.pod.uid)
        if member is None or member.gang != reservation.request.gang or not member.live:
            return False
        self._ledger.put(structs.replace(reservation, stage=ReservationStage.WAITING))
        self._groups.group(member.name).state.keep(self._end_later(self._seconds))
        return True

    def worth_asking(self, pod: Pod) -> bool:
        """True if the pod's gang may fit: all of its pods exist, and slices became free since its latest refusal.

        Also true if the complete gang was not refused yet.
        """
        member = self._groups.gang_pod(pod.uid)
        if member is None or not member.unbound:
            return False
        state, view = self._groups.group(member.name).state, self._groups.gang_view(member.name)
        return state.may_fit(view, self._ledger.freed)

    def find(self, pod: Pod, nodes: Nodes) -> Sequence[Grant]:
        """The grants that the gang would get if kube-scheduler asked for this pod now; empty without room for all.

        The pod is tried on `nodes` (None: all). Callers open a transaction, and roll it back. Raises LaterError.
        """
        first = self._groups.gang_pod(pod.uid)
        if first is None:
            return ()
        pods, asked = self._asked(self._groups.gang_view(first.name), first, nodes)
        place = partial(self._placed, pods, asked, nodes)
        answer = self._budget.decided(pod.namespace, first.request, place)
        return () if isinstance(answer, Refusal) else [reservation.grant for reservation in answer]

    def expired(self, now: float) -> list[str]:
        """The UIDs of the pods whose reservations the caller must end, because their gang's deadline has passed.

        These pods are not bound and have no Binding under way.
        """
        # Every decision calls this, and nearly always nothing has expired.
        if now < self._first_deadline:
            return []
        self._first_deadline = inf
        expired: list[str] = []
        for name in self._groups.gangs():
            state = self._groups.group(name).state
            if state.deadline is not None and state.deadline <= now:
                expired += state.expire(self._groups.gang_view(name), now)
            elif state.deadline is not None:
                self._first_deadline = min(self._first_deadline, state.deadline)
        return expired

    def statuses(self) -> Iterator[GangStatus]:
        """The states of all gangs, sorted by name; gangs whose pods have all ended or are ending are left out."""
        for name in self._groups.gangs():
            view = self._groups.gang_view(name)
            if not view.pods:
                continue
            why = self._groups.group(name).state.why(view)
            yield GangStatus(
                *name, sorted(view.sizes), sorted(view.pods), len(view.reserved), view.bound, view.finished,
                why.text if why else "",
            )  # fmt: skip

    def refusal(self, pod: Pod, request: PodRequest) -> Refusal | None:
        """The refusal that keeps the pod's gang waiting; None if there is none, or nothing was decided yet."""
        name = pod.namespace, request.gang.group if request.gang else ""
        return self._groups.group(name).state.why(self._groups.gang_view(name))

    def _gang_pod(self, pod: Pod) -> GangPod | None:
        """The pod with its gang; None if its labels name no gang, or if its request is malformed."""
        try:
            request = self._request_of(pod) if pod.label(GROUP_SIZE) else None
        except RequestError:
            return None
        return GangPod.of(pod, request, request.gang) if request is not None and request.gang else None

    def _left(self, member: GangPod) -> GroupName:
        """Return the name of the pod's former gang; drop the offered nodes of a gang that has no pods left."""
        if not self._groups.group(member.name).gang:
            self.offered.drop(member.name)
        return member.name

    def _end_later(self, seconds: float) -> float:
        """Return a deadline for a gang's reservations, `seconds` from now; later `expired` returns the gang's pods."""
        until = self._clock() + seconds
        self._first_deadline = min(self._first_deadline, until)
        return until

    def _asked(self, view: GangView, first: GangPod, nodes: Nodes) -> tuple[Sequence[GangPod], Asked]:
        """Return the pods to place together (`first` and those without a reservation), and the nodes for each.

        Pods for which kube-scheduler has not offered nodes yet get `nodes`.
        """
        pods = self._groups.group(first.name).state.lacking(view, first)
        return pods, Asked.of(pods, self.offered.of(first.name), nodes, self._ledger.freed)

    def _decided(self, view: GangView, first: GangPod, nodes: Nodes, *, named: bool) -> Reservation | Refusal:
        """Reserve slices for all pods that must be placed with `first`.

        Returns the reservation of `first`, or the refusal.
        """
        if (unready := view.unready) is not None:
            return unready
        state = self._groups.group(first.name).state
        pods, asked = self._asked(view, first, None if named else nodes)
        if not named and (known := state.known(asked)) is not None:
            return known
        place = partial(self._placed, pods, asked, nodes)
        # A thousand pods take a second, and each slice that becomes free anywhere is a reason to try them again.
        answer = place() if named else self._budget.decided(first.pod.namespace, first.request, place)
        if isinstance(answer, Refusal):
            if not named:
                state.refuse(asked, answer)
            return answer
        for reservation in answer:
            self._ledger.put(reservation)
        state.reserve(self._end_later(BINDING_SECONDS if view.bound else self._seconds))
        return next(reservation for reservation in answer if reservation.pod.uid == first.pod.uid)

    def _placed(self, pods: Sequence[GangPod], asked: Asked, nodes: Nodes) -> Sequence[Reservation] | Refusal:
        """Place all `pods`: the first on one of `nodes`, each other pod on a node last offered for its class of pods.

        Returns the reservations, whose grants the ledger holds already, or a refusal.
        """
        by_uid = {each.pod.uid: each.pod for each in pods}
        scored = [each.pod for each in pods if each.request.policy in APART]
        ranks = self._groups.ranks(scored) if scored else {}
        members = {
            each.pod.uid: Member(
                replace(each.request, rank=ranks.get(each.pod.uid, ALONE)),
                nodes if each is pods[0] else asked.offered[each.equivalence],
            )
            for each in pods
        }
        answer = place_all(members.values(), self._placer, self._ledger)
        if isinstance(answer, Refusal):
            # Only the texts are kept: the details of all nodes would take memory for each gang.
            group = f"group {pods[0].gang.group}: "
            return Refusal.saying(answer.main, group + answer.text, group + answer.summary)
        # The reservations of a gang end together, by the deadline in its state.
        return [
            Reservation.for_pod(by_uid[grant.pod], members[grant.pod].request, grant, inf) for grant in answer
        ]

    def _moved(self, member: GangPod, held: Reservation, nodes: Sequence[str]) -> Reservation | Refusal:
        """Move the pod's reservation to one of `nodes`; returns a refusal, and changes nothing, if it fits on none."""
        with self._ledger.transaction() as change:
            self._ledger.release(held.pod.uid)
            answer = self._placer.place(held.request, nodes, vetted=True)
            if isinstance(answer, Grant):
                moved = Reservation.for_pod(member.pod, held.request, answer, inf)
                self._ledger.put(moved)
                change.commit()
                return moved
        said = f"its slice is on node {held.grant.node}, which kube-scheduler does not offer: "
        return Refusal.saying(answer.main, said + answer.text, said + answer.summary)
