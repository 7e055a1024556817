"""Refusals: for each card of the offered nodes the first reason why it cannot take the request, and their counts."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.contract.reasons import Reason
from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.card_columns import Ints, Mask, kinds_where
from device_plugin.core.placement.fit import CardFit, KindSizes
from device_plugin.core.placement.node_texts import NodeTexts
from device_plugin.core.placement.offer import Offer, marked
from device_plugin.core.placement.table import NodeTable
from device_plugin.core.requests import ANYTHING, PodRequest

# Reasons in the order in which people read them: first the reasons that waiting, or asking for less, would cure.
ORDER = (
    Reason.GANG_ROOM, Reason.TOGETHER, Reason.HOST, Reason.APART, Reason.MEMORY, Reason.CORES, Reason.SLICES,
    Reason.WHOLE, Reason.SHORT, Reason.TOO_LARGE, Reason.UNHEALTHY, Reason.CORDONED, Reason.NOT_SERVING,
    Reason.CLAIMS, Reason.OTHER_SLICES, Reason.MODEL, Reason.UUID, Reason.FAMILY, Reason.NO_INVENTORY, Reason.GANG,
    Reason.POLICY, Reason.MALFORMED,
)  # fmt: skip
# Reasons that change when any slice comes or goes: a node may have another of them a moment later.
MOVING = (
    Reason.TOGETHER, Reason.HOST, Reason.APART, Reason.MEMORY, Reason.CORES, Reason.SLICES, Reason.WHOLE
)  # fmt: skip

# Reasons that only a changed inventory cures, and no end of a slice.
LASTING = (
    Reason.TOO_LARGE, Reason.OTHER_SLICES, Reason.MODEL, Reason.UUID, Reason.FAMILY, Reason.CLAIMS
)  # fmt: skip

_RANK = {reason: rank for rank, reason in enumerate(ORDER)}
_LASTING_RANKS = [_RANK[reason] for reason in LASTING]
_LASTING = bytes(_LASTING_RANKS)
_TEXTS = (*(reason.text for reason in ORDER), Reason.NO_INVENTORY.text)
# Tables for bytes.translate, by reason: they map the ranks of all MOVING reasons to the reason's rank, and keep others.
_TO_FIRST = {
    first: bytes(_RANK[first] if rank < len(ORDER) and ORDER[rank] in MOVING else rank for rank in range(256))
    for first in MOVING
}
Ranks = NDArray[np.uint8]
"""Indexes into ORDER, one byte each, because a remembered refusal has an index for every node."""
NO_RANKS: Ranks = np.zeros(0, dtype=np.uint8)
# Reasons whose text has details. _NAMES and _SHOWN are the most models in a text, and the most characters of each.
_DETAILED = (
    Reason.MEMORY, Reason.CORES, Reason.TOO_LARGE, Reason.SLICES, Reason.OTHER_SLICES, Reason.MODEL
)  # fmt: skip
_NAMES, _SHOWN = 5, 40
# Added if core groups lack for a slice in percent: the slices of a card may lack groups although they sum to 100 %.
_SHARES = "; a share is of whole core groups, so shares of 100 % in all do not always fit"


@dataclass(frozen=True, slots=True)
class NodeReasons:
    """The first reason of each node to refuse a request.

    `ranks` holds, for each row (node) of the node table, the index of the reason in ORDER. Its last element is for
    nodes without a row. The index len(ORDER) is no reason: it stands for a node without cards. `position` is the row of
    each node by name.
    """

    position: Mapping[str, int]
    ranks: bytes

    def of(self, nodes: Iterable[str]) -> bytes:
        """The indexes in ORDER of the first reasons of these nodes."""
        return bytes(self.ranks[self.position.get(node, -1)] for node in nodes)

    def laid_out(self, position: Mapping[str, int]) -> bytes:
        """The indexes in ORDER of all nodes' first reasons, in the order of another table's rows (`position`)."""
        return self.ranks if position is self.position else self.of(position) + self.ranks[-1:]


SILENT = NodeReasons({}, bytes([len(ORDER)]))


@dataclass(frozen=True)
class Refusal:
    """A refused request with its reasons.

    - `cards` counts cards by reason, `nodes` the nodes that show no cards. `of_nodes` is the first reason of each node.
    - `details` holds a detail of a reason (`largest free 3 GiB`), and `rounded` the same detail in a form that seldom
      changes.
    - `said` is the text of a request that is refused without regard to cards; `steady` replaces it in texts that must
      not change by themselves.
    """

    cards: Mapping[Reason, int]
    nodes: Mapping[Reason, int] = field(default_factory=dict)
    details: Mapping[Reason, str] = field(default_factory=dict)
    rounded: Mapping[Reason, str] = field(default_factory=dict)
    of_nodes: NodeReasons = field(default=SILENT, compare=False)
    said: str = ""
    steady: str = ""

    @classmethod
    def saying(cls, reason: Reason, said: str, steady: str = "") -> "Refusal":
        """The refusal of a request without regard to cards, for `reason` and with the text `said`."""
        return cls({}, {reason: 1}, said=said, steady=steady)

    @cached_property
    def lasting(self) -> bool:
        """True if all nodes, offered or not, refuse for reasons that no freed slice can change."""
        found = self.of_nodes.ranks[:-1].translate(None, bytes([len(ORDER)]))
        return bool(found) and not found.translate(None, _LASTING)

    @cached_property
    def main(self) -> Reason:
        """The main reason, for metrics and advice: the first in ORDER; NO_INVENTORY if the refusal has no reason."""
        return next((r for r in ORDER if r in self.cards or r in self.nodes), Reason.NO_INVENTORY)

    @property
    def text(self) -> str:
        """The reasons as people read them: `6 cards: 4 lack memory (largest free 3 GiB), 2 unhealthy`."""
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

    def by_node(self, offer: Offer) -> NodeTexts:
        """A text for each node of the offer, one text per reason, because kube-scheduler counts nodes by their text.

        The text must seldom change, because kube-scheduler writes it into the pod, and tries a pod again when the pod
        changes. So numbers are rounded, and all nodes with a MOVING reason (it changes as slices come and go) get the
        first MOVING reason of the refusal.
        """
        if self.said:
            return NodeTexts.same(offer, self.summary)
        texts, first = self._shown
        return NodeTexts(offer, texts, first.laid_out(offer.position))

    @cached_property
    def _shown(self) -> tuple[tuple[str, ...], NodeReasons]:
        """The texts that nodes can have, and for each node the index of its text."""
        texts = list(_TEXTS)
        for reason in self.rounded:
            texts[_RANK[reason]] = _cause(reason, self.rounded)
        foremost = next((reason for reason in MOVING if reason in self.cards), None)
        first = self.of_nodes
        if foremost is not None:
            first = NodeReasons(first.position, first.ranks.translate(_TO_FIRST[foremost]))
        return tuple(texts), first

    @property
    def summary(self) -> str:
        """The text of the main reason, in a form that seldom changes while slices come and go."""
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
    """An amount in MiB as people read it: `3 GiB`, `3.5 GiB`, `512 MiB`."""
    return f"{mib} MiB" if mib < 1024 else f"{round(mib / 1024, 1):g} GiB"


def rounded(number: int) -> int:
    """The largest power of two up to `number`, which seldom changes when the number does; 0 for 0."""
    return 1 << (number.bit_length() - 1) if number > 0 else 0


class Refused:
    """A refusal whose reasons are computed when the object is called: they take too long to compute with the lock held.

    `everywhere` means that no node can take the request; otherwise a node that was not offered may.
    """

    def __init__(self, why: Callable[[], Refusal], *, everywhere: bool = False) -> None:
        self.everywhere = everywhere
        self._why: Callable[[], Refusal] | None = why
        self._refusal: Refusal | None = None

    @property
    def lasting(self) -> bool:
        """True if the refusal was computed and stays valid until an inventory changes."""
        return self.everywhere and self._refusal is not None and self._refusal.lasting

    def __call__(self) -> Refusal:
        """The refusal with its reasons, which the first call computes."""
        why = self._why
        if why is not None:
            # The refusal is stored before `_why` is dropped, because another thread may call it in between.
            self._refusal, self._why = why(), None
        if self._refusal is None:
            raise AssertionError("how the reasons are found is forgotten only once they are")
        return self._refusal


class Causes:
    """Finds the reasons why a request fits none of `nodes` (None: all), from a copy of the cards' states.

    Making the copy is fast, and is done with the lock held. `refusal` takes longer and is called without the lock.
    """

    def __init__(self, table: NodeTable, request: PodRequest, nodes: Sequence[str] | None) -> None:
        self._request = request
        self._position = table.position
        self._offer = table.offered(table.nodes if nodes is None else nodes)
        self._there = table.there
        self._shown = table.shown
        self._kinds = table.kinds
        self._states, self._code, self._cells = table.states.frozen()
        named = None if request.uuids == ANYTHING else table.named(request.uuids)
        self._none_named = named is not None and not named.any()
        # Nearly always the uuids name none of the cards, or exclude none of them.
        alike = named is None or self._none_named or np.array_equal(named, self._there)
        self._named = None if alike else named
        self._host = None if request.host == NOTHING else table.with_host(request.host)
        self._preparing = table.preparing() if request.claims else None

    def refusal(self) -> Refusal:
        """The refusal with its counts, its details, and the first reason of each node."""
        family, need = self._hardest() if self._request.containers else ("", None)
        by_state = self._ranks_by_state(need)
        common = self._common(by_state)
        ranks = self._ranks(by_state, need) if common is None else NO_RANKS
        foremost = self._foremost(ranks, common)
        of_nodes = NodeReasons(self._position, foremost.tobytes())
        silent = int(np.count_nonzero(foremost[self._offer.rows] == len(ORDER)))
        ranks = ranks if common is not None or self._offer.mask.all() else ranks[self._offer.mask]
        counts = self._counts(by_state, ranks)
        cards = {reason: int(count.sum()) for reason, count in counts.items()}
        exact, about = self._details(family, counts, ranks)
        return Refusal(cards, {Reason.NO_INVENTORY: silent} if silent else {}, exact, about, of_nodes)

    def _common(self, by_state: Ranks) -> int | None:
        """The rank (index in ORDER) of the reason that all cards have; None if they have different reasons.

        With a common reason, cards need not be looked at one by one. None too if the reason is TOGETHER, whose detail
        depends on the nodes of the cards.
        """
        here = np.flatnonzero(np.bincount(by_state[1:], self._cells[1:])).tolist()
        common = here[0] if self._cells_alike and len(here) == 1 else None
        return None if common == _RANK[Reason.TOGETHER] else common

    def _foremost(self, ranks: Ranks, common: int | None) -> Ranks:
        """The rank (index in ORDER) of the first reason of each node, by the node's row in the node table.

        The first reason of a node is the lowest rank of its cards, the easiest to cure. The last element is for nodes
        without a row: its value, len(ORDER), is no reason's rank. `common` is the rank that all cards have, or None.
        """
        if common is not None:
            found = np.where(self._shown, np.uint8(common), np.uint8(len(ORDER)))
        else:
            # A loop over the few columns of cards is faster than a minimum along the short axis.
            found = reduce(np.minimum, ranks.T)
        return np.append(found, np.uint8(len(ORDER)))

    def _counts(self, by_state: Ranks, ranks: Ranks) -> Mapping[Reason, Ints]:
        """For each reason, the number of offered cards that it refuses, by their state (set of equal cards).

        `by_state` has the rank (index in ORDER) of each state's reason. `ranks` has the rank of each offered card's
        reason; it matters only if cards of one state can have different reasons.
        """
        whole, size = self._offer.mask.all(), len(by_state)
        code = self._code if whole else self._code[self._offer.mask]
        if not self._cells_alike:
            found = np.flatnonzero(np.bincount(ranks.reshape(-1), minlength=len(ORDER))).tolist()
            counts = ((rank, np.bincount(code[ranks == rank], minlength=size)) for rank in found)
        else:
            count = self._cells if whole else np.bincount(code.reshape(-1), minlength=size)
            found = np.flatnonzero(np.bincount(by_state, count)).tolist()
            counts = ((rank, np.where(by_state == rank, count, 0)) for rank in found)
        return {ORDER[rank]: count for rank, count in counts if rank < len(ORDER)}

    def _details(
        self, family: str, counts: Mapping[Reason, Ints], ranks: Ranks
    ) -> tuple[dict[Reason, str], dict[Reason, str]]:
        """The details of each reason, as two mappings: exact texts, and texts that seldom change.

        `counts` has, for each reason, the number of cards in each state. `ranks` has the rank (index in ORDER) of each
        offered card's reason.
        """
        exact, about = {}, {}
        for reason, count in counts.items():
            if reason in _DETAILED:
                exact[reason], about[reason] = self._texts(family, reason, count)
        asked = [asked for _, asked in self._request.containers]
        if Reason.TOGETHER in counts and len(asked) == 1 and asked[0].cards > 1:
            what = "free cards" if asked[0].whole else "cards with room for a slice"
            needs = about[Reason.TOGETHER] = f"needs {asked[0].cards} {what} on one node"
            most = self._most_together(ranks == _RANK[Reason.TOGETHER])
            exact[Reason.TOGETHER] = f"{needs}; the most: {most}"
        return exact, about

    def _texts(self, family: str, reason: Reason, count: Ints) -> tuple[str, str]:
        """Two texts with the details of a reason: an exact text, and a text that seldom changes.

        `count` is the number of cards in each state that have the reason.
        """
        states = self._states
        hit = np.flatnonzero(count)
        if reason is Reason.MEMORY:
            free = int(states.free_mib[hit].max())
            return f"largest free {gib(free)}", f"largest free {_at_least(free, gib)}"
        if reason is Reason.CORES:
            free = int(states.free_cores[hit].max())
            shares = _SHARES if any(asked.percent for _, asked in self._request.containers) else ""
            return (
                f"most free core groups {free}{shares}",
                f"most free core groups {_at_least(free, str)}{shares}",
            )
        if reason is Reason.SLICES:
            most = states.most[hit].max()
            full = f"{most} of {most} slices"
            return f"{full}, {states.free_mib @ count} MiB free", full
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
        """A text with the card models that the pod asks for, and the models of the cards of these `kinds`."""
        wanted = self._request.models
        words = [*sorted(wanted.include), *(f"!{word}" for word in sorted(wanted.exclude))]
        there = sorted({kind.model for kind, number in self._kinds.items() if number in kinds})
        return f"asked: {_few(words)}; there are: {_few(there)}"

    def _most_together(self, cells: Mask) -> str:
        """A text with the offered node that has the most marked cards; `cells` has a row for each offered node."""
        count = cells.sum(axis=1)
        best = int(count.argmax())
        position = np.flatnonzero(self._offer.mask)[best]
        name = next(name for name, row in self._position.items() if row == position)
        return f"{name} with {count[best]}"

    @property
    def _cells_alike(self) -> bool:
        """True if all cards of one state (equal columns) refuse for the same reason: uuids and nodes do not matter."""
        single = self._named, self._host, self._preparing
        return all(each is None for each in single) and not self._request.rank.avoid

    def _ranks_by_state(self, need: CardFit | None) -> Ranks:
        """For each state (set of equal cards), the rank (index in ORDER) of its first reason; len(ORDER): no card."""
        ranks = np.full(len(self._states.kind), _RANK[Reason.TOGETHER], dtype=np.uint8)
        for reason, hit in reversed(self._causes(need) if need is not None else ()):
            np.copyto(ranks, _RANK[reason], where=hit)
        if need is not None and self._none_named:
            ranks[(ranks != _RANK[Reason.FAMILY]) & (ranks != _RANK[Reason.MODEL])] = _RANK[Reason.UUID]
        ranks[0] = len(ORDER)
        return ranks

    def _ranks(self, by_state: Ranks, need: CardFit | None) -> Ranks:
        """The rank (index in ORDER) of each card's first reason, len(ORDER) for empty cells; shape (nodes, cards)."""
        # Reasons that depend on the state come from `by_state`; reasons of single cards and nodes are found here.
        ranks: Ranks = by_state[self._code]
        if self._cells_alike:
            return ranks
        if need is not None and self._named is not None:
            other = self._there & (ranks != _RANK[Reason.FAMILY]) & (ranks != _RANK[Reason.MODEL])
            ranks[other & ~self._named] = _RANK[Reason.UUID]
        if self._preparing is not None:
            # A card that the request does not accept on any node keeps its reason.
            accepted = self._there & ~np.isin(ranks, _LASTING_RANKS)
            ranks[accepted & ~self._preparing[:, None]] = _RANK[Reason.CLAIMS]
        together = ranks == _RANK[Reason.TOGETHER]
        if self._request.rank.avoid:
            avoided = marked(self._position, self._request.rank.avoid)
            ranks[together & avoided[:, None]] = _RANK[Reason.APART]
        if self._host is not None:
            ranks[together & ~self._host[:, None]] = _RANK[Reason.HOST]
        return ranks

    def _hardest(self) -> tuple[str, CardFit]:
        """The family and the fit of the container that fits the fewest cards.

        The reasons of this container become the pod's reasons.
        """
        distinct = dict.fromkeys(asked for _, asked in self._request.containers)
        needs = [(asked.family, CardFit(self._states, KindSizes(self._kinds, asked))) for asked in distinct]
        if len(needs) == 1:
            return needs[0]
        count = np.bincount(self._code.reshape(-1), minlength=len(self._states.kind))
        count[0] = 0  # empty cells
        return min(needs, key=lambda item: int(count[item[1].fits()].sum()))

    def _causes(self, need: CardFit) -> Sequence[tuple[Reason, Mask]]:
        """Each reason with the states (sets of equal cards) to which it applies; of several, the first one counts."""
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


def _at_least(number: int, text: Callable[[int], str]) -> str:
    """The text of `number` rounded down, such as `at least 4`, which seldom changes; 0 is shown as 0."""
    return f"at least {text(rounded(number))}" if number else text(number)


def _few(words: Sequence[str]) -> str:
    """The first _NAMES words as text, each cut to _SHOWN characters; `…` stands for further words."""
    return ", ".join([*(word[:_SHOWN] for word in words[:_NAMES]), *(["…"] if len(words) > _NAMES else [])])
