"""How fragmented the whole cluster is, kept up to date node by node."""

import numpy as np

from device_plugin.core.placement.behind import Behind
from device_plugin.core.placement.columns import Values
from device_plugin.core.placement.fragments import Fragments
from device_plugin.core.placement.index import Index, View


class Waste:
    """F of every node for one target workload; see `fragments`."""

    def __init__(self, index: Index, fragments: Fragments) -> None:
        self._index = index
        self._fragments = fragments
        self._behind = Behind(index)
        self._cards: Values = np.zeros(0)

    def refresh(self, most: int | None = None) -> bool:
        """Measure the nodes that changed since, but `most` of them; true once none is left."""
        if self._behind.relaid():
            self._cards = np.zeros(len(self._index.nodes))
        changed = self._behind.nodes(most)
        if len(changed):
            self._cards[changed] = self._fragments.of(View(self._index, changed))
        return self._behind.done()

    def ratio(self) -> float:
        """Of all cards the share that is idle and of no use to the target workload, as of the last `refresh`."""
        return float(self._cards.sum() / len(self._index.cards)) if self._index.cards else 0.0
