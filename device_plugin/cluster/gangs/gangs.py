"""Gangs: all of a group's pods get their reservations in one moment, or none does and the group holds nothing.

kube-scheduler asks for one pod at a time. A pod that is asked for before all of its gang exist is refused; the one that
completes the gang decides for all, and the others find their reservations when they are asked for. What follows for a
gang is decided in `core/gang_state.py`; here it is done: to the ledger, within the time that refusals may take.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from device_plugin.cluster.gangs.gang_members import GangMembers, Name
from device_plugin.cluster.gangs.groups import Groups
from device_plugin.cluster.refused.node_lists import NodeLists
from device_plugin.cluster.refused.refusal_budget import LaterError, RefusalBudget
from device_plugin.core.annotations import GROUP_SIZE
from device_plugin.core.errors import RequestError
from device_plugin.core.gang import Member, Nodes, place_all
from device_plugin.core.gang_state import BINDING_SECONDS, GangPod, GangState, GangView, refusal
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger, Reservation, Stage
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.policies import NODE_SCORE
from device_plugin.core.pods import Pod
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest
from device_plugin.core.roles import ALONE


@dataclass(frozen=True, slots=True)
class GangStatus:
    """A gang as people see it; `pods` are their names, `why` says what it waits for, empty if for nothing.

    It has several `sizes` where its pods' labels differ, which is wrong.
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
    """All gangs. Callers hold the view's lock. Times are of its clock, in seconds."""

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
        self._members = GangMembers(groups, ledger)
        self._states: dict[Name, GangState] = {}
        self.news = 0
        """Grows with every change of a gang's pods."""

    def see(self, pod: Pod, now: float) -> Name | None:
        """Take news of a pod; returns the name of the gang that it has left: that may lose its places."""
        try:
            request = self._request_of(pod) if pod.label(GROUP_SIZE) else None
        except RequestError:
            request = None
        before, member = self._members.get(pod.uid), self._members.see(pod, request)
        if member is not None or before is not None:
            self.news += 1
        if member is not None and pod.node and before is not None and not before.pod.node:
            self._state(member.name).bind(now)
        if before is not None and (member is None or member.name != before.name):
            self._tidy(before.name)
            return before.name
        return None

    def forget(self, uid: str) -> Name | None:
        """The pod is gone; returns the name of its gang."""
        member = self._members.forget(uid)
        if member is None:
            return None
        self.news += 1
        self._tidy(member.name)
        return member.name

    def name(self, uid: str) -> Name | None:
        """The name of the pod's gang."""
        member = self._members.get(uid)
        return member.name if member is not None else None

    def name_unless_bound(self, uid: str) -> Name | None:
        """The name of the pod's gang that may lose its places by news of the pod: by a bound one it loses nothing."""
        member = self._members.get(uid)
        return member.name if member is not None and not member.bound else None

    def under_way(self, uid: str) -> bool:
        """True if a Binding of the pod's gang was sent: from then on its reservations no longer end together."""
        member = self._members.get(uid)
        return member is not None and self._members.view(member.name).under_way

    def reserve(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], now: float, *, named: bool
    ) -> Reservation | Refusal:
        """The pod's reservation on one of `nodes`, made for all of its gang if it was not made yet.

        `nodes` are also those of pods that ask alike, unless one was `named` for this pod alone.
        """
        member = self._members.get(pod.uid)
        if member is None or member.gang != request.gang:
            return refusal(Reason.GANG, "the labels of the pod were changed just now")
        if not member.live:
            return refusal(Reason.GANG, "the pod is being deleted, or has ended")
        name = member.name
        held = self._ledger.reservation(pod.uid)
        if held is not None and held.grant.node in nodes:
            self._state(name).keep(now + self._seconds)
            return held
        view = self._members.view(name)
        if held is not None:
            answer = self._moved(held, nodes)
            if isinstance(answer, Reservation) or view.under_way:
                return answer
            for reservation in view.reserved:
                self._ledger.release(reservation.pod.uid)
            view = self._members.view(name)
        offered = self._node_lists.of(nodes)
        if not named:
            self._state(name).offer(member.shape, offered, self._members.shapes(name))
        return self._decided(name, view, member, offered, now, named=named)

    def complete(self, now: float) -> None:
        """Reserve what half-bound gangs lack: the leader before had it reserved, and nobody else has it yet."""
        for name in self._members.names():
            view = self._members.view(name)
            if view.bound and view.waiting:
                self._decided(name, view, view.waiting[0], None, now, named=True)

    def release_incomplete(self, name: Name) -> Sequence[str]:
        """Uids of the pods that lose their reservations because the gang has no longer a place for all."""
        state = self._states.get(name)
        if state is None or state.deadline is None or self._groups.crowded(name):
            return ()
        return state.lose(self._members.view(name))

    def put_back(self, reservation: Reservation, now: float) -> bool:
        """The Binding did not happen: the slice waits for the next; false if the pod is not in that gang any more."""
        member = self._members.get(reservation.pod.uid)
        if member is None or member.gang != reservation.request.gang or not member.live:
            return False
        self._ledger.put(replace(reservation, stage=Stage.WAITING))
        self._state(member.name).keep(now + self._seconds)
        return True

    def worth_asking(self, pod: Pod) -> bool:
        """True if all of the pod's gang exist, and it was not refused since something became free."""
        member = self._members.get(pod.uid)
        if member is None or not member.unbound:
            return False
        return self._known(member.name).may_fit(self._members.view(member.name), self._ledger.freed)

    def expired(self, now: float) -> list[str]:
        """Uids of pods whose gang nobody came to bind in time."""
        due = [
            name
            for name, state in self._states.items()
            if state.deadline is not None and state.deadline <= now
        ]
        return [uid for name in due for uid in self._states[name].expire(self._members.view(name), now)]

    def statuses(self) -> Iterator[GangStatus]:
        """All gangs of which pods count, by name: the last of the others are ending, or have ended well."""
        for name in self._members.names():
            view = self._members.view(name)
            if not view.pods:
                continue
            why = self._known(name).why(view)
            yield GangStatus(
                *name, sorted(view.sizes), sorted(view.pods), len(view.reserved), view.bound, view.finished,
                why.text if why else "",
            )  # fmt: skip

    def refusal(self, pod: Pod, request: PodRequest) -> Refusal | None:
        """Why the pod has no place, as far as that was decided already."""
        name = pod.namespace, request.gang.group if request.gang else ""
        return self._known(name).why(self._members.view(name))

    def _decided(
        self, name: Name, view: GangView, first: GangPod, nodes: Nodes, now: float, *, named: bool
    ) -> Reservation | Refusal:
        """Place `first` on one of `nodes`, together with those that wait and that the gang lacks."""
        if (unready := view.unready) is not None:
            return unready
        state = self._state(name)
        pods = state.lacking(view, first)
        asked = state.asked(pods, None if named else nodes, self._ledger.freed)
        if not named:
            if (known := state.known(asked)) is not None:
                return known
            # A thousand pods take a second, and each slice that becomes free anywhere is a reason to try them again.
            if not self._budget.allows(*name, now):
                raise LaterError(
                    f"group {name[1]} waits for its turn to be tried; kube-scheduler tries again by itself"
                )
        started = self._clock()
        requests = self._in_group(pods)
        members = {
            each.pod.uid: Member(
                requests[each.pod.uid], nodes if each is first else asked.offered[each.shape]
            )
            for each in pods
        }
        answer = place_all(members.values(), self._placer, self._ledger)
        if isinstance(answer, Refusal):
            # What is known of every node is not kept for every gang.
            answer = refusal(
                answer.main, f"group {name[1]}: {answer.text}", f"group {name[1]}: {answer.summary}"
            )
            if not named:
                self._budget.spend(*name, started, self._clock())
                state.refuse(asked, answer)
            return answer
        for grant in answer:
            self._put(grant, members[grant.pod].request)
        state.reserve(now + (BINDING_SECONDS if view.bound else self._seconds))
        made = self._ledger.reservation(first.pod.uid)
        if made is None:
            raise AssertionError(f"the reservation of {first.pod.uid} was just made")
        return made

    def _moved(self, held: Reservation, nodes: Sequence[str]) -> Reservation | Refusal:
        """The reservation, moved to one of `nodes`; it stays where it is if none of them will do."""
        with self._ledger.transaction() as change:
            self._ledger.release(held.pod.uid)
            answer = self._placer.place(held.request, nodes, vetted=True)
            if isinstance(answer, Grant):
                change.commit()
                return self._put(answer, held.request)
        said = f"its slice is on node {held.grant.node}, which kube-scheduler does not offer: "
        return refusal(answer.main, said + answer.text, said + answer.summary)

    def _in_group(self, pods: Sequence[GangPod]) -> Mapping[str, PodRequest]:
        """Their requests, by uid, with their ranks where the policy looks at them."""
        scored = [each.pod for each in pods if each.request.policy == NODE_SCORE]
        ranks = self._groups.ranks(scored) if scored else {}
        return {each.pod.uid: replace(each.request, rank=ranks.get(each.pod.uid, ALONE)) for each in pods}

    def _put(self, grant: Grant, request: PodRequest) -> Reservation:
        # The reservations of a gang have a deadline in common, kept here.
        member = self._members.get(grant.pod)
        if member is None:
            raise AssertionError(f"{grant.pod} was in a gang a moment ago")
        made = Reservation.for_pod(member.pod, request, grant, inf)
        self._ledger.put(made)
        return made

    def _state(self, name: Name) -> GangState:
        return self._states.setdefault(name, GangState())

    def _known(self, name: Name) -> GangState:
        """The state to look at; nothing is remembered of a gang for that."""
        return self._states.get(name) or GangState()

    def _tidy(self, name: Name) -> None:
        """Remember nothing of a gang that is no more, whatever other pods have its label."""
        if not self._members.exist(name):
            self._states.pop(name, None)
