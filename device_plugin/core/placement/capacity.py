"""Capacity: how many pods that ask alike could fit at most, found without placing one."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from device_plugin.core.placement.columns import Numbers
from device_plugin.core.placement.index import Index
from device_plugin.core.placement.need import Amounts, Need
from device_plugin.core.requests import PodRequest


def at_most(index: Index, request: PodRequest, nodes: Sequence[str] | None = None) -> int:
    """No more pods like this one fit on `nodes` (None: all). Exact for one slice, or whole cards, in one container.

    Of a pod of several containers each is counted as if it were alone. Call it with an index that is up to date.
    """
    counts = np.minimum(_by_cards(index, request), _by_hosts(index, request))
    return int(counts.sum() if nodes is None else counts[index.chosen(nodes)].sum())


def _by_cards(index: Index, request: PodRequest) -> Numbers:
    allowed = index.usable & index.of_model(request.models) & index.named(request.uuids)
    counts = []
    for asked, times in Counter(asked for _, asked in request.containers).items():
        need = Need(index, Amounts(index.kinds, asked))
        copies = np.where(allowed & index.of_family(asked.family), need.copies(), 0)
        counts.append(index.by_node(copies) // (times * max(1, asked.whole)))
    least: Numbers = np.min(counts, axis=0)
    return least


def _by_hosts(index: Index, request: PodRequest) -> Numbers:
    counts = np.full(len(index.nodes), np.iinfo(np.int64).max)
    for asked, left in ((request.host.cpu_milli, index.cpu), (request.host.memory_mib, index.memory)):
        if asked:
            counts = np.minimum(counts, np.maximum(left, 0) // asked)
    return counts
