"""How fragmented the whole cluster is, kept up to date node by node."""

import numpy as np

from device_plugin.core.placement.columns import Numbers, Values
from device_plugin.core.placement.fragments import Fragments
from device_plugin.core.placement.index import Index, View


class Waste:
    """F of every node for one target workload; see `fragments`."""

    def __init__(self, index: Index, fragments: Fragments) -> None:
        self._index = index
        self._fragments = fragments
        self._layout = -1
        self._done: Numbers = np.zeros(0, dtype=np.int64)
        self._cards: Values = np.zeros(0)

    def refresh(self, most: int | None = None) -> bool:
        """Measure the nodes that changed since, but `most` of them; true once none is left."""
        index = self._index
        if self._layout != index.layout:
            self._layout = index.layout
            self._done = np.full(len(index.nodes), -1, dtype=np.int64)
            self._cards = np.zeros(len(index.nodes))
        changed = np.flatnonzero(index.stamp > self._done) if index.cards else np.zeros(0, dtype=np.int64)
        now = changed[:most]
        if len(now):
            self._cards[now] = self._fragments.of(View(index, now))
        self._done[now] = index.stamp[now]
        return len(now) == len(changed)

    def ratio(self) -> float:
        """Of all cards the share that is idle and of no use to the target workload, as of the last `refresh`."""
        return float(self._cards.sum() / len(self._index.cards)) if self._index.cards else 0.0
