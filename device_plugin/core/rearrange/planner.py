"""Plans room for one request: release pods in a transaction, place the request, and roll the transaction back."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.contract.grants import Grant
from device_plugin.core.ledger import CardState, Ledger, NodeState
from device_plugin.core.placement import Placer
from device_plugin.core.placement.fit import size_on
from device_plugin.core.rearrange.fewest import Ranks, SharedCard, VictimSet, cost, fewest
from device_plugin.core.requests import PodRequest


@dataclass(frozen=True, slots=True)
class Ranked:
    """A pod's request and priority; for a placed pod, the request with which it was placed."""

    request: PodRequest
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Move:
    """A pod that gives up the grant `source` and gets the grant `target`; `target` is None for a victim, which ends."""

    source: Grant
    target: Grant | None = None


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Moves of pods, and the grants that waiting pods can get after the moves."""

    moves: tuple[Move, ...]
    places: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """A node whose cards the request fits once the pods `leaving` have left."""

    node: str
    leaving: VictimSet


class Planner:
    """Makes plans for one ledger, with the decisions of `placer`. Callers hold the ledger's lock."""

    def __init__(self, ledger: Ledger, placer: Placer) -> None:
        self.ledger = ledger
        self.placer = placer

    def cards(self, request: PodRequest, node: str) -> float:
        """The number of cards of a node that a pod would take; a slice counts as its larger share of the card."""
        total = 0.0
        for _, asked in request.containers:
            kinds = [state.card for state in self._cards(node) if state.card.family == asked.family]
            taken = size_on(kinds[0], asked) if kinds else None
            if taken is not None:
                share = max(taken.mem_mib / kinds[0].mem_mib, taken.cores / kinds[0].core_groups)
                total += share * asked.cards
        return total

    def _cards(self, node: str) -> Sequence[CardState]:
        """The states of a node's cards; empty if the node's agent does not serve."""
        state = self._state(node)
        return state.cards if state is not None and state.serving else ()

    def _prepares(self, node: str) -> bool:
        state = self._state(node)
        return state is not None and state.claims

    def _state(self, node: str) -> NodeState | None:
        self.placer.table.refresh()
        return self.placer.table.node(node)

    def option(self, node: str, request: PodRequest, ranks: Ranks) -> Option | None:
        """The fewest pods that must leave the node so that the request fits its cards, as an Option.

        None if the request does not fit even after all pods in `ranks` have left. Also None if the pod has
        ResourceClaims and the node prepares none.
        """
        if request.claims and not self._prepares(node):
            return None
        cards = (SharedCard(card, self.ledger.holders(node, card.card.uuid)) for card in self._cards(node))
        leaving = fewest(cards, request, ranks)
        return None if leaving is None else Option(node, leaving)

    def search(
        self, request: PodRequest, nodes: Collection[str], ranks: Ranks, plan: Callable[[Option], MovePlan | None],
        *, paced: Callable[[Iterable[str]], Iterable[str]] = iter, most: int | None = None,
    ) -> MovePlan | None:  # fmt: skip
        """The first plan that `plan` makes from an option, a node with the pods that leave it; None if it makes none.

        The options of `nodes` are tried in the order of their costs, the fewest pods first; equally cheap options are
        sorted by node name. At most `most` options are tried. `paced` may pause between nodes.
        """
        found = {node: self.option(node, request, ranks) for node in paced(nodes)}
        options = {node: option for node, option in found.items() if option is not None}
        cheapest = sorted(options, key=lambda node: (cost(options[node].leaving, ranks), node))
        plans = (plan(options[node]) for node in paced(cheapest[:most]))
        return next((made for made in plans if made is not None), None)

    def cleared(self, request: PodRequest, option: Option) -> MovePlan | None:
        """The plan in which the option's leaving pods end, and the request gets its grant; the ledger is not changed.

        None if the request still does not fit, such as on a full host.
        """
        with self.ledger.transaction():
            moves = tuple(Move(self.leave(pod)) for pod in option.leaving)
            place = self.placer.find(request, (option.node,))
        return None if place is None else MovePlan(moves, (place,))

    def moved(self, request: PodRequest, holders: Mapping[str, Ranked], option: Option) -> MovePlan | None:
        """The plan in which the leaving pods of the option move elsewhere, and the request gets its grant.

        None if one of the pods, or the request, does not fit. Each moved pod is placed by its own placement policy. The
        ledger is not changed.
        """
        with self.ledger.transaction():
            return self.apply(request, holders, option)

    def apply(self, request: PodRequest, holders: Mapping[str, Ranked], option: Option) -> MovePlan | None:
        """Move the leaving pods of the option elsewhere and place the request; returns the plan.

        Returns None if one of the pods, or the request, does not fit. The changes stay in the caller's transaction,
        also after None: the caller commits them or rolls them back.
        """
        sources = [self.leave(pod) for pod in option.leaving]
        place = self.placer.find(request, (option.node,))
        if place is None:
            return None
        self.ledger.hold(place, request.host)
        moves = []
        for source in sorted(sources, key=lambda grant: (-size(holders[grant.pod].request), grant.pod)):
            asked = holders[source.pod].request
            target = self.placer.find(asked)
            if target is None:
                return None
            self.ledger.hold(target, asked.host)
            moves.append(Move(source, target))
        return MovePlan(tuple(moves), (place,))

    def leave(self, pod: str) -> Grant:
        """End the pod's holding; returns its grant. Raises KeyError if the pod has no grant."""
        left = self.ledger.release(pod)
        if left is None or left.grant is None:
            raise KeyError(pod)
        return left.grant


def size(request: PodRequest) -> int:
    """The size of a pod's request as a sort key; one whole card is larger than any slice."""
    return sum(
        (asked.whole << 40) + asked.count * (((asked.mem or asked.percent or 0) << 10) + (asked.cores or 0))
        for _, asked in request.containers
    )
