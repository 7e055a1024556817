"""Finds the fewest pods that must leave a node's cards so that a request fits there.

If several sets have equally few pods, the set with the lowest ranks (the order in which pods leave) is chosen. The
amounts that the pods hold do not decide, because a pod that frees more than the request needs does not help more.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import combinations, islice

from device_plugin.core.ledger import CardState
from device_plugin.core.ledger.states import Held
from device_plugin.core.placement.fit import SearchBudget, fit_pod, has_room, size_on
from device_plugin.core.requests import PodRequest, Request

# Most sets of pods that are tried on one node, in less than 0.1 s; after them the best set found is taken. For a pod of
# several containers LOOKS counts looks at cards, at most LOOKS_PER_SET for each set. For comparison: 16 cards with four
# pods each have 240 sets, and one card with twelve pods has 4,095.
LOOKS, LOOKS_PER_SET = 8_192, 500

Ranks = Mapping[str, int]
"""The ranks of the pods that may leave, by UID; a pod with a lower rank leaves first."""

VictimSet = tuple[str, ...]
"""Pods by UID, ascending."""

Fits = Callable[[Collection[str]], bool]


@dataclass(slots=True)
class Budget:
    """The tries left on one node: sets of pods, or, for a pod of several containers, comparisons with cards."""

    left: int = LOOKS


@dataclass(frozen=True, slots=True)
class SharedCard:
    """A card, and the slices held of it."""

    state: CardState
    held: Held

    def without(self, pods: Collection[str]) -> CardState:
        """The state that the card would have after `pods` have left."""
        if self.held.keys().isdisjoint(pods):
            return self.state
        left = (s for holder, held in self.held.items() if holder not in pods for s in held)
        return CardState.of(self.state.card, left)

    def of(self, ranks: Ranks) -> Set[str]:
        """The pods in `ranks` that hold a slice of the card."""
        return ranks.keys() & self.held.keys()


def cost(pods: Iterable[str], ranks: Ranks) -> tuple[int, list[int]]:
    """A sort key for sets of pods: fewer pods come first; of equally many, the set whose highest rank is lower."""
    found = sorted((ranks[pod] for pod in pods), reverse=True)
    return len(found), found


def fewest(cards: Iterable[SharedCard], request: PodRequest, ranks: Ranks) -> VictimSet | None:
    """The fewest of the pods in `ranks` that must leave so that the request fits; empty if the request fits already.

    Among equally few pods, lower ranks leave. None if the request does not fit even after all pods in `ranks` have
    left. `cards` are the cards of one serving node. The host's CPU and memory are not compared.
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
    """The fewest pods that must leave one card so that it can give a slice, or itself as a whole; None if it cannot."""
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
    """The cheapest set of pods that contains `count` of the `sets`: the fewest pods, with the lowest ranks.

    None if there are fewer sets.
    """
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
    """The cheapest subset of `pods` for which `fits` is true: the fewest pods, with the lowest ranks.

    `fits` must be true for all `pods`, and false for no pods. Smaller subsets are tried first. Once the `budget` of
    tries is used up, the result is a subset from which no pod can be removed; a cheaper subset may exist.
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
    """A subset of `pods` for which `fits` is still true; pods with the highest ranks are the first to be left out."""
    left = set(pods)
    for pod in sorted(pods, key=lambda pod: (-ranks[pod], pod)):
        if fits(left - {pod}):
            left.remove(pod)
    return tuple(sorted(left))
