"""A structure of arrays over all cards, kept up to date with a ledger: one row per card, in the fixed order.

The fixed order is by node name, then card uuid. A decision reads whole columns at once instead of walking thousands
of objects; after a change only the rows of that node are written again.
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.ledger import CardState, Ledger

Rows = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Index:
    """Columns, each of shape (cards,): free_mib, free_cores (a count), free_slices, and the card's own sizes.

    `usable` is true where the card is healthy and its node serves; `slack` is what its whole node has free, in
    millionths of cards, memory and core groups added.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = -1
        self.nodes: tuple[str, ...] = ()
        self._first: dict[str, tuple[int, int]] = {}
        self._codes: dict[str, int] = {}
        self._load()

    def refresh(self) -> None:
        """Catch up with the ledger."""
        if self._version == self._ledger.version:
            return
        for name in self._ledger.changed_since(self._version):
            if not self._update(name):
                self._load()
                return
        self._version = self._ledger.version

    def rows(self, node: str) -> tuple[int, int]:
        """First row and the row after the last of a node's cards."""
        return self._first.get(node, (0, 0))

    def on(self, nodes: Iterable[str]) -> Rows:
        """Rows of the cards on `nodes`."""
        chosen = np.zeros(len(self.cards), dtype=bool)
        for name in nodes:
            first, after = self.rows(name)
            chosen[first:after] = True
        return chosen

    def of_family(self, family: str) -> Rows:
        """Rows of the cards of a family."""
        rows: Rows = self._family == self._codes.get(family, -1)
        return rows

    def _update(self, name: str) -> bool:
        """Write a node's rows again; False if its cards are not the ones that the rows are for."""
        state = self._ledger.node(name)
        if state is None:
            return name not in self._first
        first, after = self.rows(name)
        known = [card.card.uuid for card in self.cards[first:after]]
        if name not in self._first or [card.card.uuid for card in state.cards] != known:
            return False
        slack = 0
        for row, card in enumerate(state.cards, first):
            slack += self._write(row, card, serving=state.serving)
        self.slack[first:after] = slack
        return True

    def _load(self) -> None:
        self.nodes = self._ledger.nodes()
        states = [state for name in self.nodes if (state := self._ledger.node(name)) is not None]
        self.cards: list[CardState] = [card for state in states for card in state.cards]
        self.names = [state.name for state in states for _ in state.cards]
        for column in ("free_mib", "free_cores", "free_slices", "mib", "units", "groups", "most", "slack"):
            setattr(self, column, np.zeros(len(self.cards), dtype=np.int64))
        self.serving: Rows = np.zeros(len(self.cards), dtype=bool)
        self.usable: Rows = np.zeros(len(self.cards), dtype=bool)
        self._family = np.zeros(len(self.cards), dtype=np.int64)
        self._first = {}
        row = 0
        for state in states:
            self._first[state.name] = (row, row + len(state.cards))
            row += len(state.cards)
        for state in states:
            self._update(state.name)
        self._version = self._ledger.version

    def _write(self, row: int, state: CardState, *, serving: bool) -> int:
        card = state.card
        self.cards[row] = state
        self.free_mib[row] = state.free_mib
        self.free_cores[row] = state.free_cores.bit_count()
        self.free_slices[row] = state.free_slices
        self.mib[row], self.units[row] = card.mem_mib, card.units
        self.groups[row], self.most[row] = card.core_groups, card.max_slices
        self._family[row] = self._codes.setdefault(card.family, len(self._codes))
        self.serving[row], self.usable[row] = serving, serving and card.healthy
        return (
            state.free_mib * 10**6 // card.mem_mib + state.free_cores.bit_count() * 10**6 // card.core_groups
        )

    free_mib: Numbers
    free_cores: Numbers
    free_slices: Numbers
    mib: Numbers
    units: Numbers
    groups: Numbers
    most: Numbers
    slack: Numbers
