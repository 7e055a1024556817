"""A structure of arrays over all cards, kept up to date with a ledger: one row per card, in the fixed order.

The fixed order is by node name, then card uuid. A decision reads whole columns at once instead of walking thousands
of objects; after a change only the rows of that node are written again.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.ledger import CardState, Ledger
from device_plugin.core.requests import Selector

Rows = NDArray[np.bool_]
Numbers = NDArray[np.int64]


class Index:
    """Columns, each of shape (cards,): free_mib, free_cores (a count), free_slices, and the card's own sizes.

    `cards`, `names` (of nodes), `models` and `uuids` are lists of the same length.
    `usable` is true where the card is healthy and its node serves; `slack` is what its whole node has free, in
    millionths of cards, memory and core groups added.
    """

    free_mib: Numbers
    free_cores: Numbers
    free_slices: Numbers
    mib: Numbers
    units: Numbers
    groups: Numbers
    most: Numbers
    slack: Numbers

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = -1
        self.nodes: tuple[str, ...] = ()
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
        position = self._position.get(node)
        if position is None:
            return 0, 0
        return int(self._bounds[position]), int(self._bounds[position + 1])

    def on(self, nodes: Iterable[str]) -> Rows:
        """Rows of the cards on `nodes`."""
        chosen = np.zeros(len(self.nodes), dtype=bool)
        chosen[[self._position[name] for name in nodes if name in self._position]] = True
        return np.repeat(chosen, np.diff(self._bounds))

    def of_family(self, family: str) -> Rows:
        """Rows of the cards of a family."""
        rows: Rows = self._family == self._codes.get(family, -1)
        return rows

    def accepted(self, selector: Selector, values: Sequence[str]) -> Rows:
        """Rows whose value (of `models` or `uuids`) the selector accepts."""
        if selector == Selector():
            return np.ones(len(values), dtype=bool)
        return np.fromiter((selector.accepts(value) for value in values), dtype=bool, count=len(values))

    def by_node(self, values: Numbers) -> Numbers:
        """Sums of a column over each of `nodes`."""
        before = np.concatenate(([0], np.cumsum(values)))
        sums: Numbers = before[self._bounds[1:]] - before[self._bounds[:-1]]
        return sums

    def _update(self, name: str) -> bool:
        """Write a node's rows again; False if its cards are not the ones that the rows are for."""
        state = self._ledger.node(name)
        if state is None:
            return name not in self._position
        first, after = self.rows(name)
        known = [card.card.uuid for card in self.cards[first:after]]
        if name not in self._position or [card.card.uuid for card in state.cards] != known:
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
        self.models = [card.card.model for card in self.cards]
        self.uuids = [card.card.uuid for card in self.cards]
        for column in ("free_mib", "free_cores", "free_slices", "mib", "units", "groups", "most", "slack"):
            setattr(self, column, np.zeros(len(self.cards), dtype=np.int64))
        self.serving: Rows = np.zeros(len(self.cards), dtype=bool)
        self.usable: Rows = np.zeros(len(self.cards), dtype=bool)
        self._family = np.zeros(len(self.cards), dtype=np.int64)
        self._bounds = np.cumsum([0, *(len(state.cards) for state in states)])
        self._position = {name: i for i, name in enumerate(self.nodes)}
        for state in states:
            self._update(state.name)
        self._version = self._ledger.version

    def _write(self, row: int, state: CardState, *, serving: bool) -> int:
        card = state.card
        self.cards[row], self.models[row] = state, card.model
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
