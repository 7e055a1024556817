"""Find the fewest pods that must leave a node's cards so that a request fits there.

A pod that holds more of a card than the request needs helps no more than a pod that holds just that. So among sets of
equally few pods the set with the lowest ranks is chosen, however much its pods hold.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, islice

from device_plugin.core.ledger import CardState
from device_plugin.core.ledger.states import Held
from device_plugin.core.placement.fit import SearchBudget, fit_pod, has_room, size_on
from device_plugin.core.requests import PodRequest, Request

# Sets of pods that are tried on one node, before the best so far is taken: less than 0.1 s. For a pod of several
# containers LOOKS counts cards instead, and each set may look at LOOKS_PER_SET. There are 240 sets of four pods on each
# of 16 cards, and 4,095 sets of twelve pods on one card.
LOOKS, LOOKS_PER_SET = 8_192, 500

Ranks = Mapping[str, int]
"""The ranks of the pods that may leave, by UID; a pod with a lower rank leaves first."""

VictimSet = tuple[str, ...]
"""Pods by UID, ascending."""

Fits = Callable[[Collection[str]], bool]


@dataclass(slots=True)
class Budget:
    """Counts how many more sets of pods may be tried on one node."""

    left: int = LOOKS


@dataclass(frozen=True, slots=True)
class SharedCard:
    """A card, and the slices held of it."""

    state: CardState
    held: Held

    def without(self, pods: Collection[str]) -> CardState:
        """The state of the card after `pods` have left."""
        if self.held.keys().isdisjoint(pods):
            return self.state
        left = (s for holder, held in self.held.items() if holder not in pods for s in held)
        return CardState.of(self.state.card, left)

    def of(self, ranks: Ranks) -> Set[str]:
        """The pods of `ranks` that hold a slice of the card."""
        return ranks.keys() & self.held.keys()


def cost(pods: Iterable[str], ranks: Ranks) -> tuple[int, list[int]]:
    """A sort key for sets of pods: the fewest pods first, then the lowest ranks, comparing the highest ranks first."""
    found = sorted((ranks[pod] for pod in pods), reverse=True)
    return len(found), found


def fewest(cards: Iterable[SharedCard], request: PodRequest, ranks: Ranks) -> VictimSet | None:
    """The pods that must leave; empty if the request fits already, None if it does not fit even without all of `ranks`.

    `cards` are those of one serving node. The host's CPU and memory are not compared.
    """
    allowed = [shared for shared in cards if _accepts(request, shared.state)]
    if len(request.containers) > 1:
        return _for_several(allowed, request, ranks)
    asked, budget = request.containers[0][1], Budget()
    found = [
        _for_card(shared, asked, ranks, budget)
        for shared in allowed
        if shared.state.card.family == asked.family
    ]
    sets = [pods for pods in found if pods is not None]
    return _together(sets, asked.cards, ranks)


def _accepts(request: PodRequest, state: CardState) -> bool:
    card = state.card
    return card.open and request.models.accepts_model(card.model) and request.uuids.accepts(card.uuid)


def _for_card(shared: SharedCard, asked: Request, ranks: Ranks, budget: Budget) -> VictimSet | None:
    """The pods that must leave one card for one slice of it, or for the whole card; None if that is not possible."""
    size = size_on(shared.state.card, asked)
    if size is None:
        return None
    if asked.whole:
        return tuple(sorted(shared.of(ranks))) if shared.held.keys() <= ranks.keys() else None
    if has_room(shared.state, size):
        return ()
    movable = sorted(
        shared.of(ranks),
        key=lambda pod: (-sum(s.mem_mib for s in shared.held[pod]), pod),
    )
    if not has_room(shared.without(movable), size):
        return None

    def fits(pods: Collection[str]) -> bool:
        budget.left -= 1
        return has_room(shared.without(pods), size)

    return _least(movable, fits, ranks, budget)


def _together(sets: Sequence[VictimSet], count: int, ranks: Ranks) -> VictimSet | None:
    """The cheapest union of `count` of the sets; None if there are fewer sets."""
    if len(sets) < count:
        return None
    ordered = sorted(sets, key=lambda pods: (cost(pods, ranks), pods))
    everybody = [pod for pods in ordered for pod in pods]
    if count == 1 or len(set(everybody)) == len(everybody):
        return tuple(sorted(pod for pods in ordered[:count] for pod in pods))
    unions = ({pod for pods in some for pod in pods} for some in combinations(ordered, count))
    return tuple(sorted(min(islice(unions, LOOKS), key=lambda pods: (cost(pods, ranks), sorted(pods)))))


def _for_several(cards: Sequence[SharedCard], request: PodRequest, ranks: Ranks) -> VictimSet | None:
    budget = Budget()

    def fits(pods: Collection[str]) -> bool:
        looks = SearchBudget(LOOKS_PER_SET)
        looks.next_node()
        left = (shared.without(pods) for shared in cards)
        given = fit_pod([state for state in left if not state.short], request.containers, looks)
        budget.left -= LOOKS_PER_SET - looks.left
        return given is not None

    if fits(()):
        return ()
    movable = sorted(set[str]().union(*(shared.of(ranks) for shared in cards)))
    return _least(movable, fits, ranks, budget) if fits(movable) else None


def _least(pods: Sequence[str], fits: Fits, ranks: Ranks, budget: Budget) -> VictimSet:
    """The cheapest subset of `pods` for which `fits` is true; it must be true for all of them, and false for none.

    Subsets are tried by size, because a request that fits without a set fits without a larger one. Once the budget is
    spent, the answer is a subset of which no pod can be left out, though a cheaper one may exist.
    """
    for count in range(1, len(pods)):
        found = []
        for some in combinations(pods, count):
            if budget.left <= 0:
                break
            if fits(some):
                found.append(some)
        if found:
            return tuple(sorted(min(found, key=lambda some: (cost(some, ranks), sorted(some)))))
        if budget.left <= 0:
            return _spared(pods, fits, ranks)
    return tuple(sorted(pods))


def _spared(pods: Sequence[str], fits: Fits, ranks: Ranks) -> VictimSet:
    """`pods` without those that need not leave; pods of the highest ranks are spared first."""
    left = set(pods)
    for pod in sorted(pods, key=lambda pod: (-ranks[pod], pod)):
        if fits(left - {pod}):
            left.remove(pod)
    return tuple(sorted(left))
