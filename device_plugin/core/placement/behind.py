"""Who keeps something for each node of an index: which nodes changed since it was made."""

import numpy as np

from device_plugin.core.placement.columns import Numbers
from device_plugin.core.placement.index import Index


class Behind:
    """The nodes for which it is yet to be made, or to be made again."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._layout = -1
        # Made for all nodes as they were at this stamp. While it is made in several goes, newer ones stand beside it.
        self._since = -1
        self._newer: Numbers | None = None
        self._now: Numbers = np.zeros(0, dtype=np.int64)
        self._all = True

    def relaid(self) -> bool:
        """True if positions were given to other nodes since this was asked last: nothing that was made holds."""
        if self._layout == self._index.layout:
            return False
        self._layout, self._since, self._newer = self._index.layout, -1, None
        return True

    def nodes(self, most: int | None = None) -> Numbers:
        """Positions of at most `most` of them, ascending: those to be made now."""
        if not self._index.cards:
            self._now, self._all = np.zeros(0, dtype=np.int64), True
            return self._now
        stamp = self._index.stamp
        behind = np.flatnonzero(stamp > self._since)
        if self._newer is not None:
            behind = behind[stamp[behind] > self._newer[behind]]
        self._now = behind[:most]
        self._all = len(self._now) == len(behind)
        return self._now

    def done(self) -> bool:
        """It was made for those; true once none is left."""
        stamp = self._index.stamp
        if self._all:
            self._since, self._newer = self._index.now, None
        else:
            if self._newer is None:
                self._newer = np.full(len(stamp), -1, dtype=np.int64)
            self._newer[self._now] = stamp[self._now]
        return self._all
