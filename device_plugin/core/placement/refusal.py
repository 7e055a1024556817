"""Refusals: count, for the cards of the offered nodes, the first reason that keeps each from taking the request."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.card_columns import Ints, Mask, kinds_where
from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.placement.table import NodeTable, marked, rows_of
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import ANYTHING, PodRequest

# The order in which people read reasons: those first that waiting, or asking for less, would cure.
ORDER = (
    Reason.GANG_ROOM, Reason.TOGETHER, Reason.HOST, Reason.APART, Reason.MEMORY, Reason.CORES, Reason.SLICES,
    Reason.WHOLE, Reason.SHORT, Reason.TOO_LARGE, Reason.UNHEALTHY, Reason.CORDONED, Reason.NOT_SERVING,
    Reason.OTHER_SLICES, Reason.MODEL, Reason.UUID, Reason.FAMILY, Reason.NO_INVENTORY, Reason.GANG, Reason.POLICY,
    Reason.MALFORMED,
)  # fmt: skip
# Reasons that change with every slice that comes or goes: a node may have another of them a moment later.
MOVING = (
    Reason.TOGETHER, Reason.HOST, Reason.APART, Reason.MEMORY, Reason.CORES, Reason.SLICES, Reason.WHOLE
)  # fmt: skip

_RANK = {reason: rank for rank, reason in enumerate(ORDER)}
Ranks = NDArray[np.int8]
"""Indexes into ORDER, one byte each: a remembered refusal has one for every node."""
# Reasons whose text has details; the number of models that a text names, and the characters of each.
_DETAILED = (
    Reason.MEMORY, Reason.CORES, Reason.TOO_LARGE, Reason.SLICES, Reason.OTHER_SLICES, Reason.MODEL
)  # fmt: skip
_NAMES, _SHOWN = 5, 40

NodeRanks = Callable[[Sequence[str]], Iterable[int]]
"""The index in ORDER of the first reason of each node given; len(ORDER) for a node without cards."""


def _silent(nodes: Sequence[str]) -> Iterable[int]:
    return repeat(len(ORDER), len(nodes))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A refused request with its reasons.

    `cards` counts cards per reason, `nodes` the nodes that show no cards. `details` has the number that belongs to a
    reason (`largest free 3 GiB`), `rounded` has it for texts that may not change with every slice. `of_nodes` finds the
    first reason of each node. `said` is the text of a request that is refused whatever the cards, and `steady` replaces
    it where the text may not change by itself.
    """

    cards: Mapping[Reason, int]
    nodes: Mapping[Reason, int] = field(default_factory=dict)
    details: Mapping[Reason, str] = field(default_factory=dict)
    rounded: Mapping[Reason, str] = field(default_factory=dict)
    of_nodes: NodeRanks = field(default=_silent, compare=False)
    said: str = ""
    steady: str = ""

    @classmethod
    def saying(cls, reason: Reason, said: str, steady: str = "") -> "Refusal":
        """The refusal of a request that is refused whatever the cards, for `reason` and with the text `said`."""
        return cls({}, {reason: 1}, said=said, steady=steady)

    @property
    def main(self) -> Reason:
        """The first reason in ORDER, which metrics and advice use."""
        return next((r for r in ORDER if r in self.cards or r in self.nodes), Reason.NO_INVENTORY)

    @property
    def text(self) -> str:
        """For instance `6 cards: 4 lack memory (largest free 3 GiB), 2 unhealthy`."""
        if self.said:
            return self.said
        parts = []
        if total := sum(self.cards.values()):
            causes = ", ".join(f"{self.cards[r]} {_cause(r, self.details)}" for r in ORDER if r in self.cards)
            parts.append(f"{_counted(total, 'card')}: {causes}")
        parts += [
            f"{_counted(self.nodes[r], 'node')} {_cause(r, self.details)}" for r in ORDER if r in self.nodes
        ]
        return "; ".join(parts) or "no node shows any card"

    def by_node(self, nodes: Sequence[str]) -> Mapping[str, str]:
        """A text for each of `nodes`, one text per reason, because kube-scheduler counts nodes by their text.

        The text seldom changes while slices come and go: kube-scheduler writes it into the pod, and tries a pod again
        when the pod changes. So numbers are rounded, and all nodes with any of the MOVING reasons get the first of
        them.
        """
        if self.said:
            return dict.fromkeys(nodes, self.summary)
        foremost = next((reason for reason in MOVING if reason in self.cards), None)
        texts = [
            _cause(foremost if foremost and reason in MOVING else reason, self.rounded)
            for reason in (*ORDER, Reason.NO_INVENTORY)
        ]
        return dict(zip(nodes, map(texts.__getitem__, self.of_nodes(nodes)), strict=True))

    @property
    def summary(self) -> str:
        """The main reason in a text that seldom changes while slices come and go."""
        return self.steady or self.said or _cause(self.main, self.rounded)

    @property
    def advice(self) -> str:
        """The advice that belongs to the main reason."""
        return self.main.advice


def _cause(reason: Reason, details: Mapping[Reason, str]) -> str:
    detail = f" ({details[reason]})" if reason in details else ""
    return f"{reason.text}{detail}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def gib(mib: int) -> str:
    """MiB as a person reads them: `3 GiB`, `3.5 GiB`, `512 MiB`."""
    return f"{mib} MiB" if mib < 1024 else f"{round(mib / 1024, 1):g} GiB"


def rounded(number: int) -> int:
    """The largest power of two that is not above `number`, so that it seldom changes; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number > 0 else 0


class Refused:
    """A refusal whose reasons are computed when it is called: they take too long to compute with the lock held.

    `everywhere` means that no node can take the request; otherwise a node that was not offered may.
    """

    def __init__(self, why: Callable[[], Refusal], *, everywhere: bool = False) -> None:
        self.everywhere = everywhere
        self._why: Callable[[], Refusal] | None = why
        self._refusal: Refusal | None = None

    def __call__(self) -> Refusal:
        """The refusal, computed at the first call."""
        why = self._why
        if why is not None:
            # In this order, because another thread may call it in between.
            self._refusal, self._why = why(), None
        if self._refusal is None:
            raise AssertionError("how the reasons are found is forgotten only once they are")
        return self._refusal


class Causes:
    """A copy of the cards by state, which finds the reasons why a request fits none of `nodes` (None: all).

    The copy is fast and made with the lock held; `refusal` takes longer and is called without the lock.
    """

    def __init__(self, table: NodeTable, request: PodRequest, nodes: Sequence[str] | None) -> None:
        self._request = request
        self._names: Sequence[str] = table.nodes if nodes is None else nodes
        self._position = table.position
        self._there = table.there
        self._kinds = table.kinds
        self._states, self._code = table.states.frozen()
        self._named = None if request.uuids == ANYTHING else table.named(request.uuids)
        self._host = None if request.host == NOTHING else table.with_host(request.host)

    def refusal(self) -> Refusal:
        """The refusal with its counts, numbers and the first reason of each node."""
        offered = marked(self._position, self._names)[:, None] & self._there
        family, need = self._hardest() if self._request.containers else ("", None)
        ranks = self._ranks(need)
        counts = np.bincount(ranks[offered], minlength=len(ORDER)).tolist()
        cards = {reason: count for reason, count in zip(ORDER, counts, strict=True) if count}
        # For each node the lowest rank of its cards, the reason that is easiest to cure; the last element is for nodes
        # without cards.
        foremost = np.append(ranks.min(axis=1), len(ORDER)).astype(np.int8)
        silent = _of_nodes(self._position, foremost, self._names).count(len(ORDER))
        exact, about = self._details(family, cards, ranks, offered)
        return Refusal(
            cards, {Reason.NO_INVENTORY: silent} if silent else {}, exact, about,
            partial(_of_nodes, self._position, foremost),
        )  # fmt: skip

    def _details(
        self, family: str, cards: Collection[Reason], ranks: Ints, offered: Mask
    ) -> tuple[dict[Reason, str], dict[Reason, str]]:
        """The details of each reason: exact ones, and ones that seldom change."""
        exact, about = {}, {}
        for reason in cards:
            if reason in _DETAILED:
                exact[reason], about[reason] = self._texts(family, reason, (ranks == _RANK[reason]) & offered)
        asked = [asked for _, asked in self._request.containers]
        if Reason.TOGETHER in cards and len(asked) == 1 and asked[0].cards > 1:
            what = "free cards" if asked[0].whole else "cards with room for a slice"
            needs = about[Reason.TOGETHER] = f"needs {asked[0].cards} {what} on one node"
            most = self._most_together((ranks == _RANK[Reason.TOGETHER]) & offered)
            exact[Reason.TOGETHER] = f"{needs}; the most: {most}"
        return exact, about

    def _texts(self, family: str, reason: Reason, cells: Mask) -> tuple[str, str]:
        """The details of a reason that all cards in `cells` have: exact ones, and ones that seldom change."""
        states, codes = self._states, self._code[cells]
        hit = np.flatnonzero(np.bincount(codes))
        if reason is Reason.MEMORY:
            free = int(states.free_mib[hit].max())
            return f"largest free {gib(free)}", f"largest free {_at_least(free, gib)}"
        if reason is Reason.CORES:
            free = int(states.free_cores[hit].max())
            return f"most free core groups {free}", f"most free core groups {_at_least(free, str)}"
        if reason is Reason.SLICES:
            most = states.most[hit].max()
            full = f"{most} of {most} slices"
            return f"{full}, {states.free_mib[codes].sum()} MiB idle", full
        if reason is Reason.OTHER_SLICES:
            text = f"each can give: {_few(sorted({*map(str, states.most[hit].tolist())}, key=int))}"
        elif reason is Reason.MODEL:
            text = self._models({*states.kind[hit].tolist()})
        else:
            text = (
                f"at most {family}-mem: {states.units[hit].max()}, {family}-cores: {states.groups[hit].max()}"
            )
        return text, text

    def _models(self, kinds: Collection[int]) -> str:
        """The models that the pod asks for, and those of cards of `kinds`."""
        wanted = self._request.models
        words = [*sorted(wanted.include), *(f"!{word}" for word in sorted(wanted.exclude))]
        there = sorted({kind.model for kind, number in self._kinds.items() if number in kinds})
        return f"asked: {_few(words)}; there are: {_few(there)}"

    def _most_together(self, cells: Mask) -> str:
        """The node with the most cards in `cells`, and their number."""
        count = cells.sum(axis=1)
        best = int(count.argmax())
        name = next(name for name, position in self._position.items() if position == best)
        return f"{name} with {count[best]}"

    def _ranks(self, need: CardFit | None) -> Ints:
        """The rank of the first reason of each card, len(ORDER) for empty cells; shape (nodes, cards)."""
        # Reasons that depend on the state are found once per state, those of single cards and nodes per cell.
        states = np.full(len(self._states.kind), _RANK[Reason.TOGETHER], dtype=np.int64)
        for reason, hit in reversed(self._causes(need) if need is not None else ()):
            states[hit] = _RANK[reason]
        states[0] = len(ORDER)
        ranks: Ints = states[self._code]
        if need is not None and self._named is not None:
            other = self._there & (ranks != _RANK[Reason.FAMILY]) & (ranks != _RANK[Reason.MODEL])
            ranks[other & ~self._named] = _RANK[Reason.UUID]
        together = ranks == _RANK[Reason.TOGETHER]
        if self._request.rank.avoid:
            avoided = marked(self._position, self._request.rank.avoid)
            ranks[together & avoided[:, None]] = _RANK[Reason.APART]
        if self._host is not None:
            ranks[together & ~self._host[:, None]] = _RANK[Reason.HOST]
        return ranks

    def _hardest(self) -> tuple[str, CardFit]:
        """The family and fit of the container that fits the fewest cards: its reasons become those of the pod."""
        distinct = dict.fromkeys(asked for _, asked in self._request.containers)
        needs = [(asked.family, CardFit(self._states, KindSizes(self._kinds, asked))) for asked in distinct]
        if len(needs) == 1:
            return needs[0]
        count = np.bincount(self._code.reshape(-1), minlength=len(self._states.kind))
        count[0] = 0  # empty cells
        return min(needs, key=lambda item: int(count[item[1].fits()].sum()))

    def _causes(self, need: CardFit) -> Sequence[tuple[Reason, Mask]]:
        """Each reason with the states to which it applies, in the order of preference when a state has several."""
        states, models = self._states, self._request.models
        accepted = kinds_where(self._kinds, lambda kind: models.accepts_model(kind.model))
        return (
            (Reason.FAMILY, ~need.sizes.family[states.kind]),
            (Reason.MODEL, ~accepted[states.kind]),
            (Reason.OTHER_SLICES, need.sizes.unlike[states.kind]),
            (Reason.TOO_LARGE, need.sizes.small[states.kind]),
            (Reason.NOT_SERVING, ~states.serving),
            (Reason.CORDONED, states.cordoned),
            (Reason.SHORT, states.short),
            (Reason.UNHEALTHY, ~states.usable),
            (Reason.WHOLE, ~states.untouched & need.sizes.whole),
            (Reason.SLICES, states.free_slices < 1),
            (Reason.MEMORY, states.free_mib < need.mib),
            (Reason.CORES, states.free_cores < need.cores),
        )


def _of_nodes(position: Mapping[str, int], foremost: Ranks, nodes: Sequence[str]) -> Sequence[int]:
    return foremost[rows_of(position, nodes)].tolist()


def _at_least(number: int, text: Callable[[int], str]) -> str:
    """A lower bound of `number` that seldom changes, as text; 0 is exact."""
    return f"at least {text(rounded(number))}" if number else text(number)


def _few(words: Sequence[str]) -> str:
    """The first _NAMES words, each cut to _SHOWN characters."""
    return ", ".join([*(word[:_SHOWN] for word in words[:_NAMES]), *(["…"] if len(words) > _NAMES else [])])
