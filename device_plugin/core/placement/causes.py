"""Why nothing fits: for every card the first cause that applies, counted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.columns import Columns, Kind, Numbers, Rows
from device_plugin.core.placement.index import Index
from device_plugin.core.placement.need import Amounts, Need
from device_plugin.core.placement.refusal import ORDER, Refusal, gib, rounded
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import ANYTHING, PodRequest

_RANK = {reason: rank for rank, reason in enumerate(ORDER)}
Ranks = NDArray[np.int8]
"""Ranks of reasons, a byte each: a remembered refusal has one for every node."""
_TELLING = (Reason.MEMORY, Reason.CORES, Reason.TOO_LARGE, Reason.SLICES)
# Models that a text names, and characters of each.
_NAMES, _SHOWN = 5, 40


class Causes:
    """A copy of the cards by state, from which to say why a request fits none of `nodes` (None: all).

    Made behind the lock, because a copy is fast. Call `refusal` when the lock is let go.
    """

    def __init__(self, index: Index, request: PodRequest, nodes: Sequence[str] | None) -> None:
        self._request = request
        self._names: Sequence[str] = index.nodes if nodes is None else nodes
        self._position = index.position
        self._node_of = index.node_of
        self._kinds = index.kinds
        self._states, self._code = index.states.copied()
        self._named = None if request.uuids == ANYTHING else index.named(request.uuids)
        self._roomy = None if request.host == NOTHING else index.roomy(request.host)

    def refusal(self) -> Refusal:
        """The refusal."""
        positions = _positions(self._position, self._names)
        offered = np.zeros(len(self._position) + 1, dtype=bool)
        offered[positions] = True
        offered = offered[self._node_of]
        family, need = self._hardest() if self._request.containers else ("", None)
        ranks = self._ranks(family, need)
        counts = np.bincount(ranks[offered], minlength=len(ORDER)).tolist()
        cards = {reason: count for reason, count in zip(ORDER, counts, strict=True) if count}
        foremost = self._foremost(ranks)
        silent = int((foremost[positions] == len(ORDER)).sum())
        details = {
            reason: numbers
            for reason in _TELLING
            if reason in cards and (numbers := self._numbers(reason, (ranks == _RANK[reason]) & offered))
        }
        exact = {reason: _said(family, reason, numbers) for reason, numbers in details.items()}
        about = {reason: _said(family, reason, numbers, about=True) for reason, numbers in details.items()}
        if Reason.MODEL in cards:
            exact[Reason.MODEL] = about[Reason.MODEL] = self._models((ranks == _RANK[Reason.MODEL]) & offered)
        if Reason.TOGETHER in cards and self._wholes > 1:
            about[Reason.TOGETHER] = f"needs {self._wholes} free cards on one node"
            most = self._most_together((ranks == _RANK[Reason.TOGETHER]) & offered)
            exact[Reason.TOGETHER] = f"{about[Reason.TOGETHER]}; the most free: {most}"
        return Refusal(
            cards,
            {Reason.NO_INVENTORY: silent} if silent else {},
            exact,
            about,
            partial(_of_nodes, self._position, foremost),
        )

    @property
    def _wholes(self) -> int:
        """Whole cards that the pod's one container asks for; 0 if it asks for something else."""
        asked = [asked for _, asked in self._request.containers]
        return asked[0].whole if len(asked) == 1 else 0

    def _models(self, rows: Rows) -> str:
        """What the pod asks for, and which models the cards in `rows` are."""
        wanted = self._request.models
        words = [*sorted(wanted.include), *(f"!{word}" for word in sorted(wanted.exclude))]
        kinds = set(self._states.kind[np.unique(self._code[rows])].tolist())
        there = sorted({kind.model for kind, number in self._kinds.items() if number in kinds})
        return f"asked: {_few(words)}; there are: {_few(there)}"

    def _most_together(self, rows: Rows) -> str:
        """The node with the most cards of `rows`, and how many it has."""
        count = np.bincount(self._node_of[rows])
        best = int(count.argmax())
        name = next(name for name, position in self._position.items() if position == best)
        return f"{name} with {count[best]}"

    def _ranks(self, family: str, need: Need | None) -> Numbers:
        """Of each card the rank of its first cause; shape (cards,)."""
        # Causes that all cards of a state share are found by state; those of single cards and nodes come in between.
        states = np.full(len(self._states.kind), _RANK[Reason.TOGETHER], dtype=np.int64)
        for reason, hit in reversed(list(_causes(self._states, self._kinds, self._request, family, need))):
            states[hit] = _RANK[reason]
        ranks: Numbers = states[self._code]
        if need is not None and self._named is not None:
            other = (ranks != _RANK[Reason.FAMILY]) & (ranks != _RANK[Reason.MODEL])
            ranks[other & ~self._named] = _RANK[Reason.UUID]
        together = ranks == _RANK[Reason.TOGETHER]
        if self._request.standing.avoid:
            avoided = np.zeros(len(self._position) + 1, dtype=bool)
            avoided[[self._position.get(name, -1) for name in self._request.standing.avoid]] = True
            ranks[together & avoided[self._node_of]] = _RANK[Reason.APART]
        if self._roomy is not None:
            ranks[together & ~self._roomy[self._node_of]] = _RANK[Reason.HOST]
        return ranks

    def _hardest(self) -> tuple[str, Need]:
        """Of the containers the one that fits the fewest cards: its reasons are the pod's."""
        if len(self._request.containers) == 1:
            ((_, asked),) = self._request.containers
            return asked.family, Need(self._states, Amounts(self._kinds, asked))
        count = np.bincount(self._code, minlength=len(self._states.kind))
        distinct = dict.fromkeys(asked for _, asked in self._request.containers)
        needs = [(asked.family, Need(self._states, Amounts(self._kinds, asked))) for asked in distinct]
        return min(
            needs,
            key=lambda item: int(count[item[1].fits() & _of(self._states, self._kinds, item[0])].sum()),
        )

    def _foremost(self, ranks: Numbers) -> Ranks:
        """For each node the lowest rank of its cards, the cause that is easiest to cure.

        The last element is for nodes without cards.
        """
        least = np.full(len(self._position) + 1, len(ORDER), dtype=np.int8)
        # The cards of a node stand together.
        first = np.flatnonzero(np.diff(self._node_of, prepend=-1))
        if len(first):
            least[self._node_of[first]] = np.minimum.reduceat(ranks, first)
        return least

    def _numbers(self, reason: Reason, rows: Rows) -> tuple[int, int]:
        """Two numbers about the cards in `rows`, which all have `reason`.

        They are the largest free memory (TOO_LARGE: units) and the most core groups. For full cards: the most slices of
        one card, and the idle memory of all.
        """
        states = self._states
        hit = np.bincount(self._code[rows], minlength=len(states.kind)) > 0
        if reason is Reason.TOO_LARGE:
            return int(states.units[hit].max()), int(states.groups[hit].max())
        if reason is Reason.SLICES:
            return int(states.most[hit].max()), int(states.free_mib[self._code[rows]].sum())
        return int(states.free_mib[hit].max()), int(states.free_cores[hit].max())


def _positions(position: Mapping[str, int], nodes: Sequence[str]) -> Numbers:
    """Where the nodes stand; the last place for those that show no cards."""
    return np.fromiter(map(position.get, nodes, repeat(-1)), dtype=np.int64, count=len(nodes))


def _of_nodes(position: Mapping[str, int], foremost: Ranks, nodes: Sequence[str]) -> Sequence[int]:
    ranks: list[int] = foremost[_positions(position, nodes)].tolist()
    return ranks


def _causes(
    states: Columns, kinds: Mapping[Kind, int], request: PodRequest, family: str, need: Need | None
) -> Iterator[tuple[Reason, Rows]]:
    """Which states a cause holds of, the first that applies being the one to name."""
    if need is not None:
        yield Reason.FAMILY, ~_of(states, kinds, family)
        accepted = np.array([request.models.accepts(kind.model) for kind in kinds], dtype=bool)
        yield Reason.MODEL, ~accepted[states.kind]
        yield Reason.TOO_LARGE, need.small
        yield Reason.NOT_SERVING, ~states.serving
        yield Reason.CORDONED, states.cordoned
        yield Reason.SHORT, states.short
        yield Reason.UNHEALTHY, ~states.usable
        yield from need.lacking()


def _of(states: Columns, kinds: Mapping[Kind, int], family: str) -> Rows:
    """States of cards of a family."""
    rows: Rows = np.array([kind.family == family for kind in kinds], dtype=bool)[states.kind]
    return rows


def _said(family: str, reason: Reason, numbers: tuple[int, int], *, about: bool = False) -> str:
    """The number that helps with a reason: exact, or with `about` a lower bound that seldom changes."""
    first, second = numbers
    if reason is Reason.TOO_LARGE:
        return f"at most {family}-mem: {first}, {family}-cores: {second}"
    if reason is Reason.SLICES:
        return f"{first} of {first} slices" if about else f"{first} of {first} slices, {second} MiB idle"
    if reason is Reason.MEMORY:
        return f"largest free {_bound(first, gib, about=about)}"
    return f"most free core groups {_bound(second, str, about=about)}"


def _bound(number: int, text: Callable[[int], str], *, about: bool) -> str:
    return f"at least {text(rounded(number))}" if about and number else text(number)


def _few(words: Sequence[str]) -> str:
    """The first of some words, shortened."""
    return ", ".join([*(word[:_SHOWN] for word in words[:_NAMES]), *(["…"] if len(words) > _NAMES else [])])
