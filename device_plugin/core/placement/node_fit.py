"""A pod of several containers, or of whole cards, on the cards of one node: all or nothing."""

from collections.abc import Mapping, Sequence

from device_plugin.core.grants import Slice
from device_plugin.core.ledger import CardState
from device_plugin.core.placement.fit import fit, take
from device_plugin.core.requests import Request

# A node of 16 cards and a pod of 4 containers needs far less; a hostile pod of 200 must not hang the service.
MAX_STEPS = 2_000

Asking = Sequence[tuple[str, Request]]


def fit_pod(cards: Sequence[CardState], containers: Asking) -> Mapping[str, tuple[Slice, ...]] | None:
    """Slices for every container from the usable `cards` of one node, or None if they do not fit together.

    Tries the largest containers first and the fullest cards first, and takes a choice back when a later container
    finds no place, for at most MAX_STEPS choices.
    """
    order = sorted(containers, key=lambda item: (-item[1].whole, -(item[1].mem or 0), -(item[1].cores or 0)))
    given = _search(list(cards), order, [MAX_STEPS])
    return None if given is None else {name: given[name] for name, _ in containers}


def _search(cards: list[CardState], left: Asking, budget: list[int]) -> dict[str, tuple[Slice, ...]] | None:
    if not left:
        return {}
    (name, request), *rest = left
    for chosen in _choices(cards, request):
        budget[0] -= 1
        if budget[0] < 0:
            return None
        after = list(cards)
        for position, given in chosen:
            after[position] = take(cards[position], given)
        found = _search(after, rest, budget)
        if found is not None:
            return {**found, name: tuple(given for _, given in chosen)}
    return None


def _choices(cards: Sequence[CardState], request: Request) -> list[list[tuple[int, Slice]]]:
    fitting = [
        (position, given)
        for position, state in enumerate(cards)
        if state.card.family == request.family and isinstance(given := fit(state, request), Slice)
    ]
    if request.whole:
        # Which of the free cards is taken makes no difference to the other containers of the pod.
        return [fitting[: request.whole]] if len(fitting) >= request.whole else []
    tried = set()
    choices = []
    for position, given in sorted(fitting, key=lambda item: (cards[item[0]].free_mib, item[0])):
        state = cards[position]
        alike = (
            state.card.mem_mib,
            state.card.core_groups,
            state.free_mib,
            state.free_cores,
            state.free_slices,
        )
        if alike not in tried:
            tried.add(alike)
            choices.append([(position, given)])
    return choices
