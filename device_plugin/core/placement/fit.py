"""Finds the cards that a request fits: compares it with one card, with the cards of a node, or with a whole table."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from device_plugin.core import percent
from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.contract.masks import core_ids, core_mask
from device_plugin.core.contract.units import proportional, units_to_mib
from device_plugin.core.ledger import CardState, NodeState
from device_plugin.core.placement.card_columns import CardKind, Columns, Floats, Ints, Mask, kinds_where
from device_plugin.core.placement.table import NodeTable
from device_plugin.core.requests import PodRequest, Request

# A look is the cost of comparing a request with one card object. Comparing a request with all cards of the table costs
# one look for every CARDS_IN_A_LOOK cards. Computing the scores of all nodes costs SCORES_IN_LOOKS times as much.
CARDS_IN_A_LOOK, SCORES_IN_LOOKS = 200, 4
# Most looks of a decision, on one node and in all: LOOKS take about 0.1 s. A pod of 8 containers that fits a node of 16
# cards needs a hundred looks, but a pod can be written that needs millions.
LOOKS_PER_NODE = 2_000
LOOKS = 20_000
# Memory of a completed request is cut to this, because a huge request may exceed a signed 64-bit integer.
MOST_MIB = 2**62

Containers = Sequence[tuple[str, Request]]
"""The request of each container, by its name."""
Choice = Sequence[tuple[int, Slice]]


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a request on one card: memory in MiB and a number of core groups."""

    mem_mib: int
    cores: int


def completed(request: Request, mem_mib: int, units: int, groups: int) -> Size:
    """The size of `request` on a card of `mem_mib` MiB with `units` memory units and `groups` core groups.

    The size may be more than the card has. If the request has only memory or only core groups, the other amount is
    completed in proportion, rounded up. For a slice in percent the size is the smallest that the card may grant.
    """
    if request.whole:
        return Size(mem_mib, groups)
    if request.percent is not None:
        return Size(percent.at_least(request.percent, mem_mib), percent.at_least(request.percent, groups))
    mem, cores = request.mem, request.cores
    if mem is None:
        mem = proportional(cores or 0, groups, units)
    if cores is None:
        cores = proportional(mem, units, groups)
    return Size(units_to_mib(mem, mem_mib, units), cores)


def size_on(card: Card, request: Request) -> Size | None:
    """The size of `request` on `card`; None if the card is too small, or has another number of slices than asked."""
    if request.max_slices not in (None, card.max_slices):
        return None
    size = completed(request, card.mem_mib, card.units, card.core_groups)
    return size if size.mem_mib <= card.mem_mib and size.cores <= card.core_groups else None


def has_room(state: CardState, size: Size) -> bool:
    """True if the free part of the card has room for a slice of this size."""
    return (
        not state.short
        and state.free_slices > 0
        and state.free_mib >= size.mem_mib
        and state.free_cores.bit_count() >= size.cores
    )


def fit(state: CardState, request: Request) -> Slice | None:
    """The slice that the card would give for the request; None if the card cannot give one.

    The card may have too little free, be too small, or be able to give another number of slices than asked. Family and
    health are not compared.
    """
    size = size_on(state.card, request)
    if size is None or not has_room(state, size) or (request.whole and not state.untouched):
        return None
    cores = size.cores
    if request.percent is not None:
        wanted = percent.rounded(request.percent, state.card.core_groups, state.percent, state.percent_cores)
        cores = min(wanted, state.free_cores.bit_count())
    return Slice(state.card.uuid, size.mem_mib, choose_cores(state.free_cores, cores), request.percent or 0)


def whole_cards(node: NodeState, request: PodRequest) -> Grant | None:
    """The grant of whole cards of this node to a pod; None if the pod does not fit.

    One container of the pod asks for cards, and the pod chooses no card uuids. The node's agent must serve Allocate,
    and its host must have enough free CPU, memory and disk.
    """
    ((container, asked),) = request.containers
    left, host, found = node.left, request.host, list[CardState]()
    if not node.serving or left.cpu_milli < host.cpu_milli or left.memory_mib < host.memory_mib:
        return None
    if host.disk_mib and left.disk_mib < host.disk_mib:
        return None
    for state in node.cards:
        card = state.card
        if (
            state.untouched
            and state.open
            and card.family == asked.family
            and asked.max_slices in (None, card.max_slices)
            and request.models.accepts_model(card.model)
        ):
            found.append(state)
            if len(found) == asked.whole:
                slices = tuple(_whole(each.card) for each in found)
                return Grant(
                    request.pod, node.name, {container: slices},
                    cards={each.card.uuid: each.card.size for each in found},
                )  # fmt: skip
    return None


def _whole(card: Card) -> Slice:
    return Slice(card.uuid, card.mib(card.units), tuple(range(card.core_groups)))


def choose_cores(free: int, count: int) -> tuple[int, ...]:
    """The ids of `count` free core groups: from the shortest run of neighbours that is long enough, else the lowest.

    `free` is a set of ids (bit g for group g). Neighbouring groups spread evenly over the shader engines. Taking short
    runs first keeps long runs for others.
    """
    start, length = min(
        (run for run in _runs(free) if run[1] >= count), key=lambda run: (run[1], run[0]), default=(-1, 0)
    )
    return tuple(range(start, start + count)) if length else core_ids(free)[:count]


def take(state: CardState, given: Slice) -> CardState:
    """The state of the card after the slice `given` is taken from it."""
    return CardState(
        state.card,
        state.free_mib - given.mem_mib,
        state.free_cores & ~core_mask(given.cores),
        state.free_slices - 1,
        percent=state.percent + given.percent,
        percent_cores=state.percent_cores + (len(given.cores) if given.percent else 0),
    )


def _runs(free: int) -> list[tuple[int, int]]:
    """The runs of neighbouring ids in the set `free`: the first id and the length of each run."""
    runs = []
    start = 0
    while free >> start:
        zeros = (free >> start & -(free >> start)).bit_length() - 1
        start += zeros
        ones = free >> start
        length = (~ones & ones + 1).bit_length() - 1
        runs.append((start, length))
        start += length
    return runs


def looks_at_all(table: NodeTable) -> int:
    """The cost of comparing a request with all cards of the table, in looks (comparisons with one card)."""
    return 1 + table.card_count // CARDS_IN_A_LOOK


class SearchBudget:
    """Counts the looks (comparisons with a card) that one decision may still take, in all and on each node."""

    def __init__(self, total: int = LOOKS) -> None:
        self._total = total
        self._here = 0
        self.spent = 0
        """The looks that were taken."""

    @property
    def left(self) -> int:
        """The looks (comparisons with a card) that may still be taken."""
        return max(0, self._total)

    def next_node(self) -> bool:
        """Give the next node its own bound of looks (comparisons with a card); returns false if none are left."""
        self._here = min(LOOKS_PER_NODE, self._total)
        return self._here > 0

    def spend(self, count: int) -> bool:
        """Count `count` looks (comparisons with a card); false once the node or the decision has used up its looks."""
        self._total -= count
        self._here -= count
        self.spent += count
        return self._here >= 0


def fit_pod(
    cards: Sequence[CardState], containers: Containers, budget: SearchBudget
) -> Mapping[str, tuple[Slice, ...]] | None:
    """Slices for every container from the usable `cards` of one node; None if they do not fit together.

    The search tries the largest requests and the fullest cards first. If a later container finds no place, the search
    takes the last choice back and tries the next one, until the budget is used up.
    """
    fullest_first = sorted(cards, key=lambda s: (s.free_mib, s.free_cores.bit_count(), s.card.uuid))
    largest_first = sorted(containers, key=lambda item: _size(item[1]), reverse=True)
    given = _search(fullest_first, largest_first, 0, budget)
    return None if given is None else {name: given[name] for name, _ in containers}


def _size(request: Request) -> tuple[int, int, int, int, str]:
    return request.whole, request.percent or 0, request.mem or 0, request.cores or 0, request.family


def _search(
    cards: list[CardState], left: Containers, start: int, budget: SearchBudget
) -> dict[str, tuple[Slice, ...]] | None:
    if not left:
        return {}
    (name, request), *rest = left
    for choice in _choices(cards, request, start, budget):
        after = list(cards)
        for position, given in choice:
            after[position] = take(cards[position], given)
        # Equal requests are interchangeable: the next one need not try the cards before this one's card.
        again = not request.whole and bool(rest) and rest[0][1] == request
        found = _search(after, rest, choice[0][0] if again else 0, budget)
        if found is not None:
            return {**found, name: tuple(given for _, given in choice)}
    return None


def _choices(
    cards: Sequence[CardState], request: Request, start: int, budget: SearchBudget
) -> Iterator[Choice]:
    """Yield the ways to give slices to one request, until the `budget` is used up.

    Only the first of several cards in equal states is tried. For slices, only the cards from position `start` on are
    tried.
    """
    if request.whole:
        for choice in _whole_cards(list(_free_cards(cards, request).values()), request.whole):
            if not budget.spend(len(cards)):
                return
            yield choice
        return
    tried = set()
    for position in range(start, len(cards)):
        state = cards[position]
        key = (
            _alike(state.card), state.free_mib, state.free_cores.bit_count(), state.free_slices,
            state.percent, state.percent_cores,
        )  # fmt: skip
        if key in tried:
            continue
        tried.add(key)
        if not budget.spend(1):
            return
        if state.card.family == request.family and (given := fit(state, request)):
            yield ((position, given),)
            least = size_on(state.card, request)
            if least is not None and least.cores < len(given.cores):
                # A slice in percent that is rounded up may leave too little for the next container.
                cores = choose_cores(state.free_cores, least.cores)
                yield ((position, replace(given, cores=cores)),)


def _free_cards(cards: Sequence[CardState], request: Request) -> Mapping[object, list[tuple[int, Slice]]]:
    """The free cards of the request's family with their positions, grouped by size.

    Cards of one size are interchangeable.
    """
    sizes: dict[object, list[tuple[int, Slice]]] = {}
    for position, state in enumerate(cards):
        if state.card.family == request.family and (given := fit(state, request)):
            sizes.setdefault(_alike(state.card), []).append((position, given))
    return sizes


def _whole_cards(sizes: Sequence[list[tuple[int, Slice]]], count: int) -> Iterator[Choice]:
    """All different ways to take `count` cards, if cards of one size are interchangeable."""
    if not sizes:
        if not count:
            yield []
        return
    first, *others = sizes
    for n in range(min(count, len(first)), -1, -1):
        for rest in _whole_cards(others, count - n):
            yield [*first[:n], *rest]


def _alike(card: Card) -> tuple[object, ...]:
    """A key that is equal for two cards if both can give equal slices when they are free."""
    return card.family, card.mem_mib, card.units, card.core_groups, card.max_slices


class KindSizes:
    """The size of one request on each kind of card: `mib`, `cores`, and `share`, the larger share of both.

    The arrays have the shape (kinds + 1,); the last position stands for NO_KIND. `family` marks the kinds of the
    requested family, and `small` the kinds that are too small. `unlike` marks the kinds with another number of slices
    than requested, and `unfit` the kinds with one of these faults. `all_fit` is true if a free card of any kind fits.
    """

    def __init__(self, kinds: Collection[CardKind], request: Request) -> None:
        self.whole = request.whole > 0
        cards = [*kinds, CardKind("", "", 1, 1, 1, 1)]
        sizes = [completed(request, kind.mem_mib, kind.units, kind.groups) for kind in cards]
        columns = [
            (min(size.mem_mib, MOST_MIB), size.cores, kind.mem_mib, kind.groups)
            for size, kind in zip(sizes, cards, strict=True)
        ]
        mib, cores, card_mib, card_cores = np.array(columns, dtype=np.int64).T
        self.cores: Ints = cores
        self.mib: Ints = mib
        self.share: Floats = np.maximum(self.mib / card_mib, cores / card_cores)
        self.family = kinds_where(kinds, lambda kind: kind.family == request.family)
        self.small: Mask = (mib > card_mib) | (cores > card_cores)
        self.unlike = kinds_where(kinds, lambda kind: request.max_slices not in (None, kind.slices))
        self.unfit: Mask = self.small | ~self.family | self.unlike
        self.all_fit = not self.unfit[:-1].any()


class CardFit:
    """Compares one request with many cards, given as arrays (`columns`).

    `mib` and `cores` are the request's size on each card.
    """

    def __init__(self, columns: Columns, sizes: KindSizes) -> None:
        self._columns = columns
        self.sizes = sizes
        self.mib: Ints = sizes.mib[columns.kind]
        self.cores: Ints = sizes.cores[columns.kind]

    @property
    def share(self) -> Floats:
        """The share of each card that the request would take, the larger of memory and core groups."""
        return self.sizes.share[self._columns.kind]

    def fits(self) -> Mask:
        """True for cards of the requested family with enough free; health and card selectors are not compared."""
        columns = self._columns
        enough: Mask = (
            (columns.free_mib >= self.mib) & (columns.free_cores >= self.cores) & (columns.free_slices >= 1)
        )
        if not self.sizes.all_fit:
            enough &= ~self.sizes.unfit[columns.kind]
        return enough & columns.untouched if self.sizes.whole else enough

    def copies(self) -> Ints:
        """The number of slices of this request that each card has room for now; for whole cards 1 or 0."""
        columns = self._columns
        slices = np.minimum(
            columns.free_mib // np.maximum(self.mib, 1), columns.free_cores // np.maximum(self.cores, 1)
        )
        return np.where(self.fits(), np.minimum(slices, columns.free_slices), 0)

    def leftover(self) -> Ints:
        """The free share of memory plus the free share of core groups of each card, after the request took its part.

        The shares are in millionths.
        """
        columns = self._columns
        left: Ints = (columns.free_mib - self.mib) * 10**6 // columns.mib
        left += (columns.free_cores - self.cores) * 10**6 // columns.groups
        return left


def allowed_cards(table: NodeTable, request: PodRequest, *, closed: bool = False) -> Mask:
    """True for usable cards that the request's card selectors accept; shape (nodes, cards).

    With `closed`, cards that are not usable now count too.
    """
    models = kinds_where(table.kinds, lambda kind: request.models.accepts_model(kind.model))
    return (table.there if closed else table.usable) & models[table.kind] & table.named(request.uuids)


def fits_by_node(table: NodeTable, request: PodRequest, allowed: Mask) -> Iterator[tuple[int, Ints]]:
    """Yields, for each distinct request of the pod's containers, the wanted number of slices and the room of each node.

    The room, of shape (nodes,), is the number of such slices that fit the node's `allowed` cards, as if no other
    container of the pod were placed. For whole cards both numbers count cards.
    """
    for asked, times in Counter(asked for _, asked in request.containers).items():
        copies = CardFit(table, KindSizes(table.kinds, asked)).copies()
        copies = np.where(allowed, copies, 0)
        counts: Ints = copies.sum(axis=1) if asked.count == 1 else asked.count * _pods(copies, asked.count)
        yield times * asked.cards, counts


def _pods(copies: Ints, count: int) -> Ints:
    """The most pods that fit on each node if each pod takes a slice of `count` different cards; shape (nodes,).

    n pods fit if the cards give n * `count` slices together when each card gives at most n.
    """
    pods: Ints = np.zeros(len(copies), dtype=np.int64)
    for number in range(1, int(copies.sum(axis=1).max(initial=0)) // count + 1):
        enough = np.minimum(copies, number).sum(axis=1) >= count * number
        if not enough.any():
            break
        pods[enough] = number
    return pods


def at_most(
    table: NodeTable, request: PodRequest, nodes: Sequence[str] | None = None, *, closed: bool = False
) -> int:
    """An upper bound of the number of pods with this request that fit on `nodes` (None: all).

    The bound is exact for one slice, and for whole cards. Each container is counted as if it were alone, and slices in
    percent as if all were rounded down. With `closed`, cards that are not usable now count too. The table must be up to
    date.
    """
    return limited(table, by_cards(table, request, closed=closed), request, nodes)


def by_cards(table: NodeTable, request: PodRequest, *, closed: bool = False) -> Ints:
    """An upper bound of the number of pods with this request for which each node's cards have room; shape (nodes,).

    With `closed`, cards that are not usable now count too.
    """
    allowed = allowed_cards(table, request, closed=closed)
    counts: Ints = np.min(
        [count // wanted for wanted, count in fits_by_node(table, request, allowed)], axis=0
    )
    return counts


def limited(table: NodeTable, counts: Ints, request: PodRequest, nodes: Sequence[str] | None = None) -> int:
    """The number of pods that fit on `nodes` (None: all) by their cards, CPU and memory.

    `counts` has, for each node, the number of pods that fit by cards alone.
    """
    for asked, left in zip((request.host.cpu_milli, request.host.memory_mib), table.host[:2], strict=True):
        if asked:
            counts = np.minimum(counts, np.maximum(left, 0) // asked)
    return int(counts.sum() if nodes is None else counts[table.chosen(nodes)].sum())
