"""Records the held share of each node's memory over a day, as the command sees it, for the page's strip below the map.

A day has COLUMNS columns of COLUMN_SECONDS each. A column that has ended holds the mean share over its time, the last
column the present share. Each column is one character.
"""

import threading
from collections.abc import Callable, Iterable, Mapping

from device_plugin.cli.ui.rows import Row

COLUMN_SECONDS, COLUMNS = 600, 144
# From nothing to everything in steps of 5 %; UNKNOWN is for the time before the command or the node was there.
LEVELS, UNKNOWN = "0123456789ABCDEFGHIJK", "-"


def level(share: float) -> str:
    """Returns the character that stands for a share from 0 to 1."""
    return LEVELS[round(min(max(share, 0.0), 1.0) * (len(LEVELS) - 1))]


def held_share(node: Row) -> float | None:
    """Returns the share of a node's memory that slices hold, from the page's entry of the node; None if unknown."""
    total = sum(card["mib"] for card in node["cards"]) if node["complete"] else 0
    return 1 - sum(card["freeMiB"] for card in node["cards"]) / total if total else None


class _NodeDay:
    """The recorded columns of one node's day, up to the present column."""

    def __init__(self, now: float) -> None:
        self.ended = ""
        self.share: float | None = None
        self._column = int(now // COLUMN_SECONDS)
        self._since = now
        # The sum of share times seconds in the current column, and the seconds of known shares.
        self._sum = self._known = 0.0

    def advance(self, now: float) -> bool:
        """Add the time until `now` to the present column; returns true if a column has ended."""
        before = self._column
        # A laptop that slept for days must not count each of their columns.
        first = int(now // COLUMN_SECONDS) - COLUMNS
        if self._column < first:
            self.ended, self._column, self._sum, self._known = "", first, 0.0, 0.0
            self._since = float(first * COLUMN_SECONDS)
        while (end := (self._column + 1) * COLUMN_SECONDS) <= now:
            self._count(end)
            self.ended += level(self._sum / self._known) if self._known else UNKNOWN
            self._column, self._sum, self._known = self._column + 1, 0.0, 0.0
        self.ended = self.ended[1 - COLUMNS :]
        self._count(now)
        return self._column != before

    def _count(self, until: float) -> None:
        seconds = max(0.0, until - self._since)
        if self.share is not None:
            self._sum += self.share * seconds
            self._known += seconds
        self._since = max(until, self._since)

    def row(self) -> Row:
        """Returns the node's entry for the page: the number of its last column, and a character for each column.

        The number of a column is its time in seconds since 1970, divided by COLUMN_SECONDS.
        """
        last = UNKNOWN if self.share is None else level(self.share)
        return {"last": self._column, "levels": self.ended + last}


class HeldDay:
    """Holds the recorded day of each node. Any thread may use it."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns the seconds since 1970."""
        self._clock = clock
        self._lock = threading.Lock()
        self._nodes: dict[str, _NodeDay] = {}
        self._changed = set[str]()
        self._column = 0

    def see(self, nodes: Mapping[str, Row | None]) -> None:
        """Record the shares of memory that slices hold, from these nodes' entries; None stands for a gone node."""
        with self._lock:
            now = self._clock()
            for name, node in nodes.items():
                self._changed.add(name)
                if node is None:
                    self._nodes.pop(name, None)
                    continue
                day = self._nodes.setdefault(name, _NodeDay(now))
                day.advance(now)
                day.share = held_share(node)

    def changes(self) -> Mapping[str, Row | None]:
        """Returns the page's entries of nodes that changed since the previous call; None for nodes that are gone."""
        with self._lock:
            now = self._clock()
            column = int(now // COLUMN_SECONDS)
            names: Iterable[str] = self._changed
            if column != self._column:
                names = {*self._changed, *self._nodes}
                self._column = column
                for day in self._nodes.values():
                    day.advance(now)
            found = {name: self._nodes[name].row() if name in self._nodes else None for name in names}
            self._changed = set()
            return found
