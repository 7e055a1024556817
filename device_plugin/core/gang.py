"""Gangs: groups of pods that are placed all together or not at all, and the states of one gang.

Placing a gang, in one transaction of the ledger:

1. Sort the pods: largest request first, and among equal requests fewest allowed nodes first. With `node-score` the
   order of their roles comes before both.
2. Place each pod by its placement policy. A placed pod is not moved again.

If all pods have equal requests and nodes, this finds room whenever there is room. If they differ, another order might
find room when this order finds none: then the gang waits for more room than it needs.

A gang's states are waiting → refused → reserved → binding → placed. All its pods get their reservations at the same
moment. Before the first Binding is sent, the reservations end together. After that, each reservation stays until its
pod is bound or gone.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from device_plugin.core.contract.annotations import GROUP_SIZE
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.counted import counted
from device_plugin.core.ledger import Ledger, Reservation
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.placement.fit import CARDS_IN_A_LOOK, SearchBudget, at_most
from device_plugin.core.placement.policies import APART
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import size
from device_plugin.core.requests import Gang, PodRequest

# Most cards to look at for one gang's pods with several containers: 1 to 2 s.
LOOKS = 200_000
# Seconds that the unbound pods of a gang have after each Binding. kube-scheduler asks for a refused pod again at the
# next Binding; before 1.32 it asks after five minutes and up to 10 s of backoff.
BINDING_SECONDS = 600.0
# Most distinct requests in one gang: each is compared with all cards with the lock held.
MOST_CLASSES = 32
_CUT = "the search for a place for all containers was too long"

Nodes = Sequence[str] | None
EquivalenceClass = tuple[PodRequest, int]
"""A request without its pod's UID, and the pod's constraints: pods of one class may go to the same nodes."""


@dataclass(frozen=True, slots=True)
class Member:
    """The request of a gang's pod that must be placed, and the nodes where the pod may go (None: all)."""

    request: PodRequest
    nodes: Nodes = None


def place_all(
    members: Iterable[Member], placer: Placer, ledger: Ledger, budget: SearchBudget | None = None
) -> Sequence[Grant] | Refusal:
    """Place all `members` (pods of a gang) or none; returns their grants, which are then in the ledger, or a refusal.

    The members must hold nothing before, and `placer` must read this `ledger`. `budget` bounds how often the search may
    compare a request with a card; by default LOOKS times.
    """
    ordered = sorted(sorted(members, key=lambda member: member.request.pod), key=_order)
    bound = _bound(ordered, placer)
    if 0 < bound < len(ordered):
        return _short(bound, len(ordered))
    budget = SearchBudget(LOOKS) if budget is None else budget
    with ledger.transaction() as change:
        grants: list[Grant] = []
        for member in ordered:
            request = _apart(member.request, grants)
            if len(request.containers) > 1:
                budget.spend(len(request.containers) * placer.table.card_count // CARDS_IN_A_LOOK)
            answer = placer.place(request, member.nodes, budget=budget)
            if isinstance(answer, Refusal):
                return _short(len(grants), len(ordered), cut=not budget.next_node()) if grants else answer
            ledger.hold(answer, request.host)
            grants.append(answer)
        change.commit()
    return grants


def _order(member: Member) -> tuple[float, ...]:
    request = member.request
    role = request.rank.number or 0 if request.policy in APART else 0
    return role, -size(request), math.inf if member.nodes is None else len(member.nodes)


def _bound(members: Sequence[Member], placer: Placer) -> int:
    """An upper bound of the number of members that fit together.

    The bound is fast to compute, and decides most refusals.
    """
    placer.table.refresh()
    alike = Counter(replace(member, request=replace(member.request, pod="")) for member in members)
    return sum(
        min(times, at_most(placer.table, member.request, member.nodes)) for member, times in alike.items()
    )


def _apart(request: PodRequest, grants: Sequence[Grant]) -> PodRequest:
    """The request, which also avoids the nodes of `grants` if its policy gives each pod of a group its own node.

    Such a request leaves no better nodes to other pods, because the pods of earlier roles are placed before it.
    """
    if request.policy not in APART:
        return request
    avoid = request.rank.avoid.union(grant.node for grant in grants)
    return replace(request, rank=replace(request.rank, avoid=avoid, leave=0))


def _short(fitting: int, count: int, *, cut: bool = False) -> Refusal:
    if cut:
        return Refusal.saying(
            Reason.GANG_ROOM,
            f"room for {fitting} of {count} pods: {_CUT}",
            f"no room for all {count} pods at once: {_CUT}",
        )
    return Refusal.saying(
        Reason.GANG_ROOM, f"room for {fitting} of {count} pods", f"no room for all {count} pods at once"
    )


class Phase(Enum):
    """The phases of a gang, in order; it may return to WAITING from every phase except BINDING and PLACED."""

    WAITING = "waiting"
    """Pods are missing, their labels are wrong, or kube-scheduler has not asked for one."""
    REFUSED = "refused"
    """There was no room for all pods of the gang."""
    RESERVED = "reserved"
    """All existing pods have a reservation, and no Binding was sent."""
    BINDING = "binding"
    """A Binding was sent, and not all pods are bound yet."""
    PLACED = "placed"
    """Each pod is bound, or has succeeded."""


@dataclass(frozen=True, slots=True)
class GangPod:
    """A pod of a gang, with its request and its class; pods of one class have equal requests and constraints."""

    pod: Pod
    request: PodRequest
    gang: Gang
    equivalence: EquivalenceClass

    @classmethod
    def of(cls, pod: Pod, request: PodRequest, gang: Gang) -> "GangPod":
        """The pod as a pod of `gang`, with its equivalence class (pods with equal requests and constraints)."""
        return cls(pod, request, gang, (replace(request, pod=""), pod.constraints))

    @property
    def name(self) -> tuple[str, str]:
        """The name of the gang: the pod's namespace and the name of its group."""
        return self.pod.namespace, self.gang.group

    @property
    def live(self) -> bool:
        """True until the pod ends or its deletion begins."""
        return not self.pod.ended and not self.pod.deleting

    @property
    def bound(self) -> bool:
        """True while the pod is live and bound."""
        return bool(self.pod.node) and self.live

    @property
    def unbound(self) -> bool:
        """True while the pod is live and not bound."""
        return not self.pod.node and self.live


@dataclass(frozen=True, slots=True)
class GangView:
    """The pods of one gang at one time.

    `pods` are the names of all; `waiting` are the pods that have neither a node nor a reservation, the oldest first;
    the other pods are `reserved`, `bound` or `finished`. A pod that failed or is being deleted does not count, because
    another pod replaces it. A pod that succeeded counts while its owner has other pods in the gang, so that a second
    gang of the same name does not count pods of the first. `sizes` are the sizes that the pods state; if there are
    several, the pods contradict each other. `classes` is the number of distinct requests of unbound pods.
    """

    group: str
    pods: tuple[str, ...] = ()
    waiting: tuple[GangPod, ...] = ()
    reserved: tuple[Reservation, ...] = ()
    bound: int = 0
    finished: int = 0
    sizes: frozenset[int] = frozenset()
    classes: int = 0

    @property
    def size(self) -> int:
        """The number of pods that the gang must have."""
        return max(self.sizes, default=0)

    @property
    def placed(self) -> int:
        """The number of pods that have a reservation, are bound, or have succeeded."""
        return len(self.reserved) + self.bound + self.finished

    @property
    def under_way(self) -> bool:
        """True once a Binding of one of the gang's pods was sent: from then on each pod is handled alone."""
        return self.bound > 0 or any(reservation.under_way for reservation in self.reserved)

    @property
    def unready(self) -> Refusal | None:
        """The refusal of a gang that lacks pods or whose pods contradict each other; None for a gang that is ready."""
        if len(self.sizes) > 1:
            found = ", ".join(map(str, sorted(self.sizes)))
            return Refusal.saying(
                Reason.MALFORMED,
                f"group {self.group}: write one {GROUP_SIZE} on all of its pods (found {found})",
            )
        if self.classes > MOST_CLASSES:
            return Refusal.saying(
                Reason.MALFORMED,
                f"group {self.group}: its pods have more than {MOST_CLASSES} different requests: make their requests"
                " alike, or split the group",
            )
        exist, size = len(self.pods), self.size
        if exist >= size:
            return None
        return Refusal.saying(
            Reason.GANG,
            f"group {self.group} waits for {counted(size - exist, 'more pod')} ({exist} of {size} exist)",
            f"group {self.group} waits until all of its {size} pods exist",
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """The inputs of a decision about a gang: the UIDs of its pods, and the nodes offered to each class of equal pods.

    `freed` is the value that the ledger's counter of freed room had at the decision: until the counter grows, equal
    inputs give the same refusal.
    """

    pods: frozenset[str]
    offered: Mapping[EquivalenceClass, Nodes]
    freed: int

    @classmethod
    def of(
        cls,
        pods: Collection[GangPod],
        offered: Mapping[EquivalenceClass, Nodes],
        elsewhere: Nodes,
        freed: int,
    ) -> "Asked":
        """The inputs of a decision about `pods`; a class of equal pods not in `offered` gets the nodes `elsewhere`."""
        nodes = {each.equivalence: offered.get(each.equivalence, elsewhere) for each in pods}
        return cls(frozenset(each.pod.uid for each in pods), nodes, freed)


@dataclass(slots=True)
class GangState:
    """The state of one gang that lasts between decisions: the latest refusal, and the deadline of its reservations.

    A method records an event. If it returns UIDs, the caller must end the reservations of these pods.
    """

    refused: tuple[Asked, Refusal] | None = None
    deadline: float | None = None

    def phase(self, view: GangView) -> Phase:
        """The phase of the gang whose pods are in `view`."""
        if view.under_way:
            return Phase.PLACED if view.bound + view.finished >= view.size else Phase.BINDING
        if view.reserved:
            return Phase.RESERVED
        return Phase.REFUSED if self.refused and view.waiting and not view.unready else Phase.WAITING

    def lacking(self, view: GangView, first: GangPod) -> tuple[GangPod, ...]:
        """`first` and the oldest other waiting pods, which must be placed together: as many as the gang still lacks."""
        others = [each for each in view.waiting if each.pod.uid != first.pod.uid]
        return first, *others[: max(0, view.size - view.placed - 1)]

    def known(self, asked: Asked) -> Refusal | None:
        """The latest refusal if its decision had inputs equal to `asked`; else None."""
        return self.refused[1] if self.refused is not None and self.refused[0] == asked else None

    def may_fit(self, view: GangView, freed: int) -> bool:
        """True if all pods of the gang exist, and it was not refused since room last became free in the cluster.

        `freed` is the present value of the ledger's counter that grows when room becomes free.
        """
        return view.unready is None and (self.refused is None or self.refused[0].freed != freed)

    def why(self, view: GangView) -> Refusal | None:
        """The refusal that keeps the gang waiting; None if the gang does not wait or is not decided yet."""
        return view.unready or (self.refused[1] if self.refused and view.waiting else None)

    def refuse(self, asked: Asked, answer: Refusal) -> None:
        """Record `answer` as the refusal of a decision with the inputs `asked`."""
        self.refused = asked, answer

    def reserve(self, until: float) -> None:
        """Record that all missing pods got reservations, which last until `until`; the latest refusal is dropped."""
        self.refused = None
        self.keep(until)

    def keep(self, until: float) -> None:
        """Move the deadline of the reservations to `until`, if that is later."""
        self.deadline = until if self.deadline is None else max(until, self.deadline)

    def bind(self, now: float) -> None:
        """Record that a pod was bound at `now`: the other reservations last until BINDING_SECONDS after it."""
        self.deadline = now + BINDING_SECONDS

    def lose(self, view: GangView) -> tuple[str, ...]:
        """The UIDs of the pods whose reservations must end, because the gang is not complete any more.

        They are all reserved pods if a pod or a reservation of the gang is missing, and no Binding was sent. Otherwise
        there are none.
        """
        if self.deadline is None or self.phase(view) is not Phase.RESERVED or view.placed >= view.size:
            return ()
        return tuple(reservation.pod.uid for reservation in view.reserved)

    def expire(self, view: GangView, now: float) -> tuple[str, ...]:
        """The UIDs of the pods whose reservations must end at `now`, because the deadline has passed.

        Before the deadline there are none. After it they are all reserved pods without a Binding under way, and the
        deadline is removed.
        """
        if self.deadline is None or now < self.deadline:
            return ()
        self.deadline = None
        return tuple(reservation.pod.uid for reservation in view.reserved if not reservation.under_way)
