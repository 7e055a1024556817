"""Gangs: all of a group's pods get their reservations in one moment, or none does and the group holds nothing.

kube-scheduler asks for one pod at a time. Who asks before all of the group exist is refused; the one that completes it
decides for all, and the others find their reservations when they are asked for. Until a Binding of one of them was
sent, the reservations stand or fall together. From then on each stays until its pod is bound or gone.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from device_plugin.cluster.groups import Groups
from device_plugin.cluster.node_lists import NodeLists
from device_plugin.cluster.refusal_budget import LaterError, RefusalBudget
from device_plugin.cluster.rolls import Entry, Name, Roll, Rolls, Shape
from device_plugin.core.annotations import GROUP_SIZE
from device_plugin.core.errors import RequestError
from device_plugin.core.gang import Member, Nodes, place_all
from device_plugin.core.grants import Grant
from device_plugin.core.ledger import Ledger, Reservation, Stage
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.policies import NODE_SCORE
from device_plugin.core.pods import Pod
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest
from device_plugin.core.roles import ALONE

# kube-scheduler asks for a refused pod again at the next Binding; where it does not know that (before 1.32), after five
# minutes, and at the latest ten seconds of backoff later. So long after the last Binding the rest must have come.
BINDING_SECONDS = 600.0
# What pods of one gang may ask for, each kind looked at over all cards while others wait.
MOST_SHAPES = 32


@dataclass(frozen=True, slots=True)
class Standing:
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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was refused: so long as nothing has become free since, it would be refused again."""

    pods: frozenset[str]
    offered: Mapping[Shape, Nodes]
    frees: int


@dataclass(frozen=True, slots=True)
class _Refused:
    """The answer to what was `asked`."""

    asked: _Asked
    answer: Refusal


class Gangs:
    """The gangs of one state. Callers hold its lock. Times are of its clock, in seconds."""

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
        self._rolls = Rolls(groups, ledger)
        self._until: dict[Name, float] = {}
        self._offered: dict[Name, dict[Shape, Nodes]] = defaultdict(dict)
        self._refused: dict[Name, _Refused] = {}
        self._frees = 0
        self.news = 0
        """Grows when something became free, and with every change of a gang's pods."""

    def see(self, pod: Pod, now: float) -> Name | None:
        """Take news of a pod; returns the name of its gang, or of the one that it has left, if that may fall now."""
        try:
            request = self._request_of(pod) if pod.label(GROUP_SIZE) else None
        except RequestError:
            request = None
        before, entry = self._rolls.entry(pod.uid), self._rolls.see(pod, request)
        if entry is not None or before is not None:
            self.news += 1
        if entry is not None and pod.node and before is not None and not before.pod.node:
            self._until[entry.name] = now + BINDING_SECONDS
            self._offered.pop(entry.name, None)
        if before is not None and (entry is None or entry.name != before.name):
            self._tidy(before.name)
            return before.name
        # With a pod that is bound, nothing of its gang falls.
        return entry.name if entry is not None and not entry.bound else None

    def forget(self, uid: str) -> Name | None:
        """The pod is gone; returns the name of its gang."""
        entry = self._rolls.forget(uid)
        if entry is None:
            return None
        self.news += 1
        self._tidy(entry.name)
        return entry.name

    def name(self, uid: str) -> Name | None:
        """The name of the pod's gang."""
        entry = self._rolls.entry(uid)
        return entry.name if entry is not None else None

    def under_way(self, uid: str) -> bool:
        """True if a Binding of the pod's gang was sent: from then on its reservations no longer fall together."""
        entry = self._rolls.entry(uid)
        return entry is not None and self._rolls.roll(entry.name).under_way

    def hope(self) -> None:
        """Something became free: what was refused may fit now."""
        self._frees += 1
        self.news += 1

    def reserve(
        self, pod: Pod, request: PodRequest, nodes: Sequence[str], now: float, *, named: bool
    ) -> Reservation | Refusal:
        """The pod's reservation on one of `nodes`, made for all of its gang if it was not made yet.

        `nodes` say where its like may go too, unless one was `named` for this pod alone.
        """
        entry = self._rolls.entry(pod.uid)
        if entry is None or entry.gang != request.gang:
            return _refusal(Reason.GANG, "the labels of the pod were changed just now")
        if not entry.live:
            return _refusal(Reason.GANG, "the pod is being deleted, or has ended")
        name = entry.name
        held = self._ledger.reservation(pod.uid)
        if held is not None and held.grant.node in nodes:
            self._keep(name, now + self._seconds)
            return held
        roll = self._rolls.roll(name)
        if held is not None:
            answer = self._moved(held, nodes)
            if isinstance(answer, Reservation) or roll.under_way:
                return answer
            for reservation in roll.reserved:
                self._drop(reservation.pod.uid)
            roll = self._rolls.roll(name)
        nodes = self._node_lists.of(nodes)
        if not named:
            self._offer(name, entry.shape, nodes)
        return self._decided(name, roll, entry, nodes, now, named=named)

    def complete(self, now: float) -> None:
        """Reserve what half-bound gangs lack: the leader before had it reserved, and nobody else has it yet."""
        for name in self._rolls.names():
            roll = self._rolls.roll(name)
            if roll.bound and roll.waiting:
                self._decided(name, roll, roll.waiting[0], None, now, named=True)

    def falling(self, name: Name) -> list[str]:
        """Uids of the pods that lose their reservations because the gang has no longer a place for all."""
        if name not in self._until or self._groups.crowded(name):
            return []
        roll = self._rolls.roll(name)
        if roll.under_way or roll.placed >= max(roll.sizes, default=0):
            return []
        return [reservation.pod.uid for reservation in roll.reserved]

    def put_back(self, reservation: Reservation, now: float) -> bool:
        """The Binding did not happen: the slice waits for the next; false if the pod is not in that gang any more."""
        entry = self._rolls.entry(reservation.pod.uid)
        if entry is None or entry.gang != reservation.request.gang or not entry.live:
            return False
        self._ledger.put(replace(reservation, stage=Stage.WAITING))
        self._keep(entry.name, now + self._seconds)
        return True

    def worth_asking(self, pod: Pod) -> bool:
        """True if all of the pod's gang exist, and it was not refused since something became free."""
        entry = self._rolls.entry(pod.uid)
        if entry is None or not entry.unbound:
            return False
        if (
            _unready(entry.name[1], self._rolls.roll(entry.name), len(self._rolls.shapes(entry.name)))
            is not None
        ):
            return False
        refused = self._refused.get(entry.name)
        return refused is None or refused.asked.frees != self._frees

    def expired(self, now: float) -> list[str]:
        """Uids of pods whose gang nobody came to bind in time."""
        names = [name for name, until in self._until.items() if until <= now]
        for name in names:
            del self._until[name]
        rolls = [self._rolls.roll(name) for name in names]
        return [r.pod.uid for roll in rolls for r in roll.reserved if not r.under_way]

    def standings(self) -> Iterator[Standing]:
        """All gangs of which pods count, by name: the last of the others are ending, or have ended well."""
        for name in self._rolls.names():
            roll = self._rolls.roll(name)
            if not roll.pods:
                continue
            why = self.why(name, roll)
            yield Standing(
                *name, sorted(roll.sizes), sorted(roll.pods), len(roll.reserved), roll.bound, roll.finished,
                why.text if why else "",
            )  # fmt: skip

    def refusal(self, pod: Pod, request: PodRequest) -> Refusal | None:
        """Why the pod has no place, as far as that was decided already."""
        name = pod.namespace, request.gang.group if request.gang else ""
        return self.why(name, self._rolls.roll(name))

    def why(self, name: Name, roll: Roll) -> Refusal | None:
        """What keeps the gang from having a place for all, as far as that was decided already."""
        if (unready := _unready(name[1], roll, len(self._rolls.shapes(name)))) is not None:
            return unready
        return self._refused[name].answer if roll.waiting and name in self._refused else None

    def _decided(
        self, name: Name, roll: Roll, first: Entry, nodes: Nodes, now: float, *, named: bool
    ) -> Reservation | Refusal:
        """Place `first` on one of `nodes`, together with as many of those that wait as the gang still lacks."""
        if (unready := _unready(name[1], roll, len(self._rolls.shapes(name)))) is not None:
            return unready
        lacking = max(roll.sizes) - roll.placed - 1
        others = [entry for entry in roll.waiting if entry.pod.uid != first.pod.uid][: max(0, lacking)]
        known, elsewhere = self._offered[name], None if named else nodes
        offered = {entry.shape: known.get(entry.shape, elsewhere) for entry in (first, *others)}
        asked = _Asked(frozenset(entry.pod.uid for entry in (first, *others)), offered, self._frees)
        refused = self._refused.get(name)
        if not named:
            if refused is not None and refused.asked == asked:
                return refused.answer
            # A thousand pods take a second, and each slice that becomes free anywhere is a reason to try them again.
            if not self._budget.allows(*name, now):
                raise LaterError(
                    f"group {name[1]} waits for its turn to be tried; kube-scheduler tries again by itself"
                )
        started = self._clock()
        requests = self._in_group((first, *others))
        members = {entry.pod.uid: Member(requests[entry.pod.uid], offered[entry.shape]) for entry in others}
        members[first.pod.uid] = Member(requests[first.pod.uid], nodes)
        answer = place_all(members.values(), self._placer, self._ledger)
        if isinstance(answer, Refusal):
            # What is known of every node is not kept for every gang.
            answer = _refusal(
                answer.main, f"group {name[1]}: {answer.text}", f"group {name[1]}: {answer.summary}"
            )
            if not named:
                self._budget.spend(*name, started, self._clock())
                self._refused[name] = _Refused(asked, answer)
            return answer
        self._refused.pop(name, None)
        for grant in answer:
            self._put(grant, members[grant.pod].request)
        self._keep(name, now + (BINDING_SECONDS if roll.bound else self._seconds))
        return self._reserved(first.pod.uid)

    def _offer(self, name: Name, shape: Shape, nodes: Nodes) -> None:
        """Remember where pods of a shape may go; nothing of shapes that nobody has any more."""
        offered, shapes = self._offered[name], self._rolls.shapes(name)
        offered[shape] = nodes
        if len(offered) > len(shapes):
            self._offered[name] = {shape: nodes for shape, nodes in offered.items() if shape in shapes}

    def _moved(self, held: Reservation, nodes: Sequence[str]) -> Reservation | Refusal:
        """The reservation, moved to one of `nodes`; it stays where it is if none of them will do."""
        with self._ledger.transaction() as change:
            self._ledger.release(held.pod.uid)
            answer = self._placer.place(held.request, nodes, vetted=True)
            if isinstance(answer, Grant):
                change.commit()
                self.hope()
                return self._put(answer, held.request)
        said = f"its slice is on node {held.grant.node}, which kube-scheduler does not offer: "
        return _refusal(answer.main, said + answer.text, said + answer.summary)

    def _in_group(self, entries: Sequence[Entry]) -> Mapping[str, PodRequest]:
        """Their requests, by uid, with their standings where the policy looks at that."""
        scored = [entry.pod for entry in entries if entry.request.policy == NODE_SCORE]
        standings = self._groups.ranks(scored) if scored else {}
        return {
            entry.pod.uid: replace(entry.request, standing=standings.get(entry.pod.uid, ALONE))
            for entry in entries
        }

    def _put(self, grant: Grant, request: PodRequest) -> Reservation:
        # The reservations of a gang have a deadline in common, kept here.
        entry = self._rolls.entry(grant.pod)
        if entry is None:
            raise AssertionError(f"{grant.pod} was in a gang a moment ago")
        made = Reservation.for_pod(entry.pod, request, grant, inf)
        self._ledger.put(made)
        return made

    def _reserved(self, uid: str) -> Reservation:
        found = self._ledger.reservation(uid)
        if found is None:
            raise AssertionError(f"the reservation of {uid} was just made")
        return found

    def _drop(self, uid: str) -> None:
        self._ledger.release(uid)
        self.hope()

    def _tidy(self, name: Name) -> None:
        """Remember nothing of a gang that is no more, whoever has its label still."""
        if all(self._rolls.entry(pod.uid) is None for pod in self._groups.members(name)):
            for kept in (self._until, self._offered, self._refused):
                kept.pop(name, None)

    def _keep(self, name: Name, until: float) -> None:
        self._until[name] = max(until, self._until.get(name, until))


def _unready(group: str, roll: Roll, shapes: int) -> Refusal | None:
    """Why nobody of the gang, whose pods have so many `shapes`, is considered; None if all of it exist."""
    if len(roll.sizes) > 1:
        found = ", ".join(map(str, sorted(roll.sizes)))
        return _refusal(
            Reason.MALFORMED, f"group {group}: write one {GROUP_SIZE} on all of its pods (found {found})"
        )
    if shapes > MOST_SHAPES:
        return _refusal(
            Reason.MALFORMED,
            f"group {group}: its pods ask for {shapes} different things: at most {MOST_SHAPES} can",
        )
    size = max(roll.sizes, default=0)
    if roll.exist >= size:
        return None
    more = "1 more pod" if size - roll.exist == 1 else f"{size - roll.exist} more pods"
    return _refusal(
        Reason.GANG,
        f"group {group} waits for {more} ({roll.exist} of {size} exist)",
        f"group {group} waits until all of its {size} pods exist",
    )


def _refusal(reason: Reason, said: str, steady: str = "") -> Refusal:
    return Refusal({}, {reason: 1}, said=said, steady=steady)
