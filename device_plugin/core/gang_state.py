"""A gang on its way: waiting → refused → reserved → binding → placed, as a state machine without clock and ledger.

All of a gang's pods get their reservations in one moment. Until a Binding of one of them was sent, the reservations
stand or fall together. From then on each stays until its pod is bound or gone.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from device_plugin.core.annotations import GROUP_SIZE
from device_plugin.core.gang import Nodes
from device_plugin.core.ledger import Reservation
from device_plugin.core.placement import Refusal
from device_plugin.core.pods import Pod
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import Gang, PodRequest

# kube-scheduler asks for a refused pod again at the next Binding; where it does not know that (before 1.32), after five
# minutes, and at the latest ten seconds of backoff later. So long after the last Binding the rest must have come.
BINDING_SECONDS = 600.0
# Different requests of the pods of one gang: each is compared with all cards while others wait.
MOST_SHAPES = 32

Shape = tuple[PodRequest, int]
"""Pods of one shape may go to the same nodes."""


class Phase(Enum):
    """How far a gang is on its way; it may go back to WAITING from every phase but BINDING and PLACED."""

    WAITING = "waiting"
    """Pods are missing, their labels are wrong, or kube-scheduler has not asked for one."""
    REFUSED = "refused"
    """There was no room for all of them."""
    RESERVED = "reserved"
    """Those that exist have a reservation, and no Binding was sent."""
    BINDING = "binding"
    """A Binding was sent, and not all are bound yet."""
    PLACED = "placed"
    """All are bound, or ended well after they were."""


@dataclass(frozen=True, slots=True)
class GangPod:
    """A pod of a gang and what it asks for."""

    pod: Pod
    request: PodRequest
    gang: Gang
    shape: Shape

    @classmethod
    def of(cls, pod: Pod, request: PodRequest, gang: Gang) -> "GangPod":
        """The pod with its shape."""
        return cls(pod, request, gang, (replace(request, pod=""), pod.constraints))

    @property
    def name(self) -> tuple[str, str]:
        """Namespace and group of its gang."""
        return self.pod.namespace, self.gang.group

    @property
    def live(self) -> bool:
        """True until it ends or is deleted."""
        return not self.pod.ended and not self.pod.deleting

    @property
    def bound(self) -> bool:
        """True while it is on a node and lives."""
        return bool(self.pod.node) and self.live

    @property
    def unbound(self) -> bool:
        """True as long as it wants a node."""
        return not self.pod.node and self.live


@dataclass(frozen=True, slots=True)
class GangView:
    """The pods of one gang: names of all, those that wait (the oldest first), and what the others have.

    A pod that failed or is being deleted does not count: another takes its place. One that ended well counts as long
    as its owner has others in the gang, so that a second run under the same name does not build on the first. Of
    several `sizes` all but one are wrong. `shapes` is the number of different requests of pods that want a node.
    """

    group: str
    pods: tuple[str, ...] = ()
    waiting: tuple[GangPod, ...] = ()
    reserved: tuple[Reservation, ...] = ()
    bound: int = 0
    finished: int = 0
    sizes: frozenset[int] = frozenset()
    shapes: int = 0

    @property
    def size(self) -> int:
        """The number of pods that the gang is to have."""
        return max(self.sizes, default=0)

    @property
    def placed(self) -> int:
        """The number of pods that have a place, or had one to their end."""
        return len(self.reserved) + self.bound + self.finished

    @property
    def under_way(self) -> bool:
        """True once a Binding of one of them was sent: then the gang is no longer all or nothing."""
        return self.bound > 0 or any(reservation.under_way for reservation in self.reserved)

    @property
    def unready(self) -> Refusal | None:
        """Why the gang is not considered yet; None if all of its pods exist and are right."""
        if len(self.sizes) > 1:
            found = ", ".join(map(str, sorted(self.sizes)))
            said = f"group {self.group}: write one {GROUP_SIZE} on all of its pods (found {found})"
            return refusal(Reason.MALFORMED, said)
        if self.shapes > MOST_SHAPES:
            said = f"group {self.group}: its pods have more than {MOST_SHAPES} different requests"
            return refusal(Reason.MALFORMED, f"{said}: make their requests alike, or split the group")
        exist, size = len(self.pods), self.size
        if exist >= size:
            return None
        more = "1 more pod" if size - exist == 1 else f"{size - exist} more pods"
        return refusal(
            Reason.GANG,
            f"group {self.group} waits for {more} ({exist} of {size} exist)",
            f"group {self.group} waits until all of its {size} pods exist",
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """Uids of the pods that are to be placed together, and the nodes that each shape is offered.

    `freed` counts what became free before: where the same is asked without more of that, it is refused again.
    """

    pods: frozenset[str]
    offered: Mapping[Shape, Nodes]
    freed: int


@dataclass(slots=True)
class GangState:
    """What was decided of one gang: nodes that were offered for its pods, the last refusal, and a deadline.

    The methods take events. Those that return uids say whose reservations end.
    """

    offered: dict[Shape, Nodes] = field(default_factory=dict)
    refused: tuple[Asked, Refusal] | None = None
    deadline: float | None = None

    def phase(self, view: GangView) -> Phase:
        """How far the gang is."""
        if view.under_way:
            return Phase.PLACED if view.bound + view.finished >= view.size else Phase.BINDING
        if view.reserved:
            return Phase.RESERVED
        return Phase.REFUSED if self.refused and view.waiting and not view.unready else Phase.WAITING

    def offer(self, shape: Shape, nodes: Nodes, wanted: Collection[Shape]) -> None:
        """Remember the nodes of pods of a shape; nothing of shapes that are not among those `wanted` any more."""
        self.offered[shape] = nodes
        if len(self.offered) > len(wanted):
            self.offered = {shape: nodes for shape, nodes in self.offered.items() if shape in wanted}

    def lacking(self, view: GangView, first: GangPod) -> tuple[GangPod, ...]:
        """`first` and the other pods that have to be placed with it, the oldest first."""
        others = [each for each in view.waiting if each.pod.uid != first.pod.uid]
        return first, *others[: max(0, view.size - view.placed - 1)]

    def asked(self, pods: Collection[GangPod], elsewhere: Nodes, freed: int) -> Asked:
        """What is asked for `pods`, on `elsewhere` where no nodes were offered."""
        offered = {each.shape: self.offered.get(each.shape, elsewhere) for each in pods}
        return Asked(frozenset(each.pod.uid for each in pods), offered, freed)

    def known(self, asked: Asked) -> Refusal | None:
        """The answer to what was asked before and would be refused again."""
        return self.refused[1] if self.refused is not None and self.refused[0] == asked else None

    def may_fit(self, view: GangView, freed: int) -> bool:
        """True if all pods exist, and they were not refused since something became free."""
        return view.unready is None and (self.refused is None or self.refused[0].freed != freed)

    def why(self, view: GangView) -> Refusal | None:
        """What keeps the gang from having a place for all, as far as that was decided already."""
        return view.unready or (self.refused[1] if self.refused and view.waiting else None)

    def refuse(self, asked: Asked, answer: Refusal) -> None:
        """There was no room for what was asked."""
        self.refused = asked, answer

    def reserve(self, until: float) -> None:
        """All that the gang lacked were reserved."""
        self.refused = None
        self.keep(until)

    def keep(self, until: float) -> None:
        """The reservations are kept until then, or longer."""
        self.deadline = until if self.deadline is None else max(until, self.deadline)

    def bind(self, now: float) -> None:
        """A pod was bound: the others are expected within BINDING_SECONDS, each on the node that it has."""
        self.deadline = now + BINDING_SECONDS
        self.offered.clear()

    def lose(self, view: GangView) -> tuple[str, ...]:
        """A pod or its place is gone: before the first Binding the others lose theirs, if they are too few now."""
        if self.deadline is None or self.phase(view) is not Phase.RESERVED or view.placed >= view.size:
            return ()
        return tuple(reservation.pod.uid for reservation in view.reserved)

    def expire(self, view: GangView, now: float) -> tuple[str, ...]:
        """Time has passed: after the deadline every reservation ends of which no Binding was sent."""
        if self.deadline is None or now < self.deadline:
            return ()
        self.deadline = None
        return tuple(reservation.pod.uid for reservation in view.reserved if not reservation.under_way)


def refusal(reason: Reason, said: str, steady: str = "") -> Refusal:
    """The refusal of a gang, in words about it as a whole."""
    return Refusal({}, {reason: 1}, said=said, steady=steady)
