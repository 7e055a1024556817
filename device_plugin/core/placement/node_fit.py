"""A pod of several containers, or of whole cards, on the cards of one node: all or nothing."""

from collections.abc import Iterator, Mapping, Sequence

from device_plugin.core.cards import Card
from device_plugin.core.grants import Slice
from device_plugin.core.ledger import CardState
from device_plugin.core.placement.fit import fit, take
from device_plugin.core.requests import Request

# A node of 16 cards and a pod of 8 containers needs a hundred looks when it fits. A pod made so that nearly
# everything fits must not hold the service up: all looks of a decision take some 0.1 s.
LOOKS_PER_NODE = 2_000
LOOKS = 20_000

Asking = Sequence[tuple[str, Request]]
Choice = Sequence[tuple[int, Slice]]


class Looks:
    """How often one decision may still look at a card: in all, and on the node at hand."""

    def __init__(self, total: int = LOOKS) -> None:
        self._total = total
        self._here = 0

    @property
    def left(self) -> int:
        """How many are left in all."""
        return max(0, self._total)

    def next_node(self) -> bool:
        """Turn to another node; False if nothing is left for it."""
        self._here = min(LOOKS_PER_NODE, self._total)
        return self._here > 0

    def spend(self, count: int) -> bool:
        """Take `count` looks; False if the node has had its share."""
        self._total -= count
        self._here -= count
        return self._here >= 0


def fit_pod(
    cards: Sequence[CardState], containers: Asking, looks: Looks
) -> Mapping[str, tuple[Slice, ...]] | None:
    """Slices for every container from the usable `cards` of one node, or None if they do not fit together.

    Tries the largest requests first and the fullest cards first, and takes a choice back when a later container finds
    no place, as long as there are `looks`.
    """
    fullest_first = sorted(cards, key=lambda s: (s.free_mib, s.free_cores.bit_count(), s.card.uuid))
    largest_first = sorted(containers, key=lambda item: _size(item[1]), reverse=True)
    given = _search(fullest_first, largest_first, 0, looks)
    return None if given is None else {name: given[name] for name, _ in containers}


def _size(request: Request) -> tuple[int, int, int, str]:
    return request.whole, request.mem or 0, request.cores or 0, request.family


def _search(
    cards: list[CardState], left: Asking, start: int, looks: Looks
) -> dict[str, tuple[Slice, ...]] | None:
    if not left:
        return {}
    (name, request), *rest = left
    for choice in _choices(cards, request, start, looks):
        after = list(cards)
        for position, given in choice:
            after[position] = take(cards[position], given)
        # Equal requests are interchangeable: the next one need not look at cards before this one's.
        again = not request.whole and bool(rest) and rest[0][1] == request
        found = _search(after, rest, choice[0][0] if again else 0, looks)
        if found is not None:
            return {**found, name: tuple(given for _, given in choice)}
    return None


def _choices(cards: Sequence[CardState], request: Request, start: int, looks: Looks) -> Iterator[Choice]:
    """Cards for one request, of cards that are alike only the first."""
    if request.whole:
        for choice in _whole_cards(list(_free_cards(cards, request).values()), request.whole):
            if not looks.spend(len(cards)):
                return
            yield choice
        return
    tried = set()
    for position in range(start, len(cards)):
        state = cards[position]
        kind = (_shape(state.card), state.free_mib, state.free_cores.bit_count(), state.free_slices)
        if kind in tried:
            continue
        tried.add(kind)
        if not looks.spend(1):
            return
        if state.card.family == request.family and isinstance(given := fit(state, request), Slice):
            yield ((position, given),)


def _free_cards(
    cards: Sequence[CardState], request: Request
) -> Mapping[tuple[object, ...], list[tuple[int, Slice]]]:
    """Wholly free cards by shape, the smallest first: which one of a shape is taken makes no difference."""
    shapes: dict[tuple[object, ...], list[tuple[int, Slice]]] = {}
    for position, state in enumerate(cards):
        if state.card.family == request.family and isinstance(given := fit(state, request), Slice):
            shapes.setdefault(_shape(state.card), []).append((position, given))
    return shapes


def _whole_cards(shapes: Sequence[list[tuple[int, Slice]]], count: int) -> Iterator[Choice]:
    """Every way to take `count` cards that differs in how many of each shape it takes."""
    if not shapes:
        if not count:
            yield []
        return
    first, *others = shapes
    for n in range(min(count, len(first)), -1, -1):
        for rest in _whole_cards(others, count - n):
            yield [*first[:n], *rest]


def _shape(card: Card) -> tuple[object, ...]:
    return card.family, card.mem_mib, card.units, card.core_groups, card.max_slices
