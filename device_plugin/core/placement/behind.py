"""Who keeps something for each node of an index: which nodes changed since it was made."""

import numpy as np

from device_plugin.core.placement.columns import Numbers
from device_plugin.core.placement.index import Index


class Behind:
    """The nodes for which it is yet to be made, or to be made again."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._layout = -1
        self._done: Numbers = np.zeros(0, dtype=np.int64)

    def relaid(self) -> bool:
        """True if positions were given to other nodes since this was asked last: nothing that was made holds."""
        if self._layout == self._index.layout:
            return False
        self._layout = self._index.layout
        self._done = np.full(len(self._index.nodes), -1, dtype=np.int64)
        return True

    def nodes(self) -> Numbers:
        """Their positions, ascending."""
        if not self._index.cards:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self._index.stamp > self._done)

    def done(self, positions: Numbers) -> None:
        """It was made for the nodes at `positions` as they are now."""
        self._done[positions] = self._index.stamp[positions]
