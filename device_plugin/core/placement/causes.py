"""Why nothing fits: for every card the first cause that applies, counted."""

from collections.abc import Iterator, Sequence

import numpy as np

from device_plugin.core.hosts import NOTHING
from device_plugin.core.placement.columns import Numbers, Rows
from device_plugin.core.placement.index import Index
from device_plugin.core.placement.need import Amounts, Need
from device_plugin.core.placement.refusal import ORDER, Refusal, gib, largest
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest


def refusal(index: Index, request: PodRequest, nodes: Sequence[str] | None) -> Refusal:
    """The refusal of a request that fits none of `nodes` (None: all)."""
    names = index.nodes if nodes is None else nodes
    left = index.on(names)
    # A pod that asks for no card, in a replayed trace, can still find no host.
    asked, need = _hardest(index, request) if request.containers else ("", None)
    cards: dict[Reason, int] = {}
    details: dict[Reason, str] = {}
    ranks = np.full(len(index.cards), len(ORDER), dtype=np.int64)
    for reason, rows in _causes(index, request, asked, need):
        hit = left & rows
        if hit.any():
            cards[reason] = int(hit.sum())
            ranks[hit] = ORDER.index(reason)
            if detail := _detail(index, asked, reason, hit):
                details[reason] = detail
            left &= ~rows
    foremost = _foremost(index, ranks, names)
    silent = sum(1 for reason in foremost.values() if reason is Reason.NO_INVENTORY)
    return Refusal(cards, {Reason.NO_INVENTORY: silent} if silent else {}, details, foremost)


def _causes(
    index: Index, request: PodRequest, family: str, need: Need | None
) -> Iterator[tuple[Reason, Rows]]:
    if need is not None:
        yield Reason.FAMILY, ~index.of_family(family)
        yield Reason.MODEL, ~index.of_model(request.models)
        yield Reason.UUID, ~index.named(request.uuids)
        yield Reason.TOO_LARGE, need.small
        yield Reason.NOT_SERVING, ~index.serving
        yield Reason.CORDONED, index.cordoned
        yield Reason.SHORT, index.short
        yield Reason.UNHEALTHY, ~index.usable
        yield from need.lacking()
    if request.host != NOTHING:
        yield Reason.HOST, ~index.per_card(index.roomy(request.host))
    if request.standing.avoid:
        yield Reason.APART, index.on(request.standing.avoid)
    yield Reason.TOGETHER, np.ones(len(index.cards), dtype=bool)


def _hardest(index: Index, request: PodRequest) -> tuple[str, Need]:
    """Of the containers the one that fits the fewest cards: its reasons are the pod's."""
    distinct = dict.fromkeys(asked for _, asked in request.containers)
    needs = [(asked.family, Need(index, Amounts(index.kinds, asked))) for asked in distinct]
    return min(needs, key=lambda item: int((item[1].fits() & index.of_family(item[0])).sum()))


def _foremost(index: Index, ranks: Numbers, names: Sequence[str]) -> dict[str, Reason]:
    """Of each node the reason that is easiest to cure."""
    padded = np.append(ranks, len(ORDER))[index.grid]
    least = padded.min(axis=1, initial=len(ORDER)).tolist()
    reasons = [*ORDER, Reason.NO_INVENTORY]
    position = index.position
    return {
        name: reasons[least[position[name]]] if name in position else Reason.NO_INVENTORY for name in names
    }


def _detail(index: Index, family: str, reason: Reason, rows: Rows) -> str:
    """A number that helps with the reason, over `rows`; empty if there is none."""
    if reason is Reason.MEMORY:
        return f"largest free {gib(int(index.free_mib[rows].max()))}"
    if reason is Reason.CORES:
        return f"most free core groups {int(index.free_cores[rows].max())}"
    if reason is Reason.TOO_LARGE:
        units, groups = largest(
            (index.cards[r].card.units, index.cards[r].card.core_groups) for r in np.flatnonzero(rows)
        )
        return f"at most {family}-mem: {units}, {family}-cores: {groups}"
    return ""
