"""Why nothing fits: for every card the first cause that applies, counted."""

from collections.abc import Iterator, Sequence

import numpy as np

from device_plugin.core.placement.index import Index, Numbers, Rows
from device_plugin.core.placement.need import Need
from device_plugin.core.placement.refusal import ORDER, Refusal
from device_plugin.core.reasons import Reason
from device_plugin.core.requests import PodRequest


def refusal(index: Index, request: PodRequest, nodes: Sequence[str] | None) -> Refusal:
    """The refusal of a request that fits none of `nodes` (None: all)."""
    names = index.nodes if nodes is None else nodes
    left = index.on(names)
    asked, need = _hardest(index, request)
    cards: dict[Reason, int] = {}
    details: dict[Reason, str] = {}
    ranks = np.full(len(index.cards), len(ORDER), dtype=np.int64)
    for reason, rows in _causes(index, request, asked, need):
        hit = left & rows
        if hit.any():
            cards[reason] = int(hit.sum())
            ranks[hit] = ORDER.index(reason)
            if detail := need.detail(reason, hit):
                details[reason] = detail
            left &= ~rows
    foremost = {name: _foremost(index, ranks, name) for name in names}
    silent = sum(1 for reason in foremost.values() if reason is Reason.NO_INVENTORY)
    return Refusal(cards, {Reason.NO_INVENTORY: silent} if silent else {}, details, foremost)


def _causes(index: Index, request: PodRequest, family: str, need: Need) -> Iterator[tuple[Reason, Rows]]:
    yield Reason.FAMILY, ~index.of_family(family)
    yield Reason.MODEL, ~index.accepted(request.models, index.models)
    yield Reason.UUID, ~index.accepted(request.uuids, index.uuids)
    yield Reason.TOO_LARGE, need.small
    yield Reason.NOT_SERVING, ~index.serving
    yield Reason.UNHEALTHY, ~index.usable
    yield from need.lacking()
    yield Reason.TOGETHER, np.ones(len(index.cards), dtype=bool)


def _hardest(index: Index, request: PodRequest) -> tuple[str, Need]:
    """Of the containers the one that fits the fewest cards: its reasons are the pod's."""
    needs = [(asked.family, Need(index, asked)) for asked in {asked: None for _, asked in request.containers}]
    return min(needs, key=lambda item: int((item[1].fits() & index.of_family(item[0])).sum()))


def _foremost(index: Index, ranks: Numbers, name: str) -> Reason:
    first, after = index.rows(name)
    return ORDER[ranks[first:after].min()] if after > first else Reason.NO_INVENTORY
