"""A structure of arrays over all cards, kept up to date with a ledger: one row per card, in the fixed order.

The fixed order is by node name, then card uuid. A decision reads whole columns at once instead of walking thousands
of objects; after a change only the rows of that node are written again, and `stamp` says which nodes those are.
"""

from collections.abc import Callable, Collection, Mapping
from copy import copy
from functools import cached_property
from itertools import repeat

import numpy as np

from device_plugin.core.cards import Card
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import CardState, Ledger, NodeState
from device_plugin.core.loads import Loads
from device_plugin.core.placement.card_states import CardStates
from device_plugin.core.placement.columns import COUNTS, Columns, Kind, Numbers, Rows, Values, packed
from device_plugin.core.requests import ANYTHING, Selector


class Index(Columns):
    """Columns of shape (cards,), and of each node, of shape (nodes,), `stamp`, and what it has left beside its cards.

    That is `cpu` (milli), `memory` and `disk` (MiB), and `shares` of shape (3, nodes): what is left of each, 0 to 1.
    `used`, of shape (2, cards), says how many percent of each card's memory and time were measured to be in use.
    `cards`, `names` (of nodes) and `uuids` are lists of the length of a column. `grid` has shape (nodes, most cards of
    a node): the rows of each node's cards, then -1. `kinds` numbers the kinds of cards. `node_of`, of shape (cards,),
    is the position of each card's node. `states` groups cards by equal numbers.
    `layout` changes when rows are given to other cards.
    """

    def __init__(self, ledger: Ledger, loads: Loads | None = None) -> None:
        self._ledger = ledger
        self._loads = loads
        self.position: dict[str, int] = {}
        self._chosen: tuple[dict[str, int], Collection[str], Rows] = {}, (), np.zeros(0, dtype=bool)
        self._seen = self._loads_seen = -1
        self.layout = 0
        self.now = 0
        """Grows with every change; `stamp` holds each node's newest."""
        self._load()

    def refresh(self) -> None:
        """Catch up with the ledger and the loads."""
        if self._seen != self._ledger.version:
            for name in self._ledger.changed_since(self._seen):
                if not self._update(name):
                    self._load()
                    break
            self._seen = self._ledger.version
        if self._loads is not None and self._loads_seen != self._loads.version:
            for name in self._loads.changed_since(self._loads_seen):
                if name in self.position:
                    self._update_loads(self._loads, name)
            self._loads_seen = self._loads.version

    def rows(self, node: str) -> tuple[int, int]:
        """First row and the row after the last of a node's cards."""
        position = self.position.get(node)
        if position is None:
            return 0, 0
        return int(self._bounds[position]), int(self._bounds[position + 1])

    def chosen(self, nodes: Collection[str]) -> Rows:
        """Which of the nodes are among `nodes`; shape (nodes,). Not to be written to.

        It needs no lock, and the answer for the newest `nodes` is kept: to look thousands of names up takes long, so
        call it before the lock is taken, and again behind it.
        """
        # Nearly every decision is offered the same nodes as the one before: to compare is several times faster.
        # `position` is replaced, never changed, so what was found by this one stays true of it.
        position = self.position
        found_by, names, known = self._chosen
        if found_by is position and names == nodes:
            return known
        chosen = _marked(position, nodes)
        self._chosen = position, copy(nodes), chosen
        return chosen

    def looked_up(self, nodes: Collection[str]) -> Rows:
        """Like `chosen`, but the answer is not kept: `nodes` are few, or of one pod only."""
        return _marked(self.position, nodes)

    def roomy(self, room: HostAmounts) -> Rows:
        """Which of the nodes have that much CPU, memory and disk left; shape (nodes,)."""
        roomy: Rows = (self.cpu >= room.cpu_milli) & (self.memory >= room.memory_mib)
        if room.disk_mib:
            roomy &= self.disk >= room.disk_mib
        return roomy

    def on(self, nodes: Collection[str]) -> Rows:
        """Rows of the cards on `nodes`."""
        return self.per_card(self.chosen(nodes))

    def per_card(self, nodes: Rows) -> Rows:
        """For each card what holds for its node."""
        rows: Rows = nodes[self.node_of]
        return rows

    def of_family(self, family: str) -> Rows:
        """Rows of the cards of a family."""
        return self._of_kind(lambda kind: kind.family == family)

    def of_model(self, models: Selector) -> Rows:
        """Rows whose model the selector accepts."""
        return self._of_kind(lambda kind: models.accepts(kind.model))

    def named(self, uuids: Selector) -> Rows:
        """Rows whose uuid the selector accepts."""
        if uuids == ANYTHING:
            return np.ones(len(self.uuids), dtype=bool)
        rows = np.full(len(self.uuids), not uuids.include)
        for words, wanted in ((uuids.include, True), (uuids.exclude, False)):
            for word in words:
                for row in self._rows_of.get(word, ()):
                    rows[row] = wanted
        return rows

    def by_node(self, values: Numbers) -> Numbers:
        """Sums of a column over each of `nodes`."""
        before = np.concatenate(([0], np.cumsum(values)))
        sums: Numbers = before[self._bounds[1:]] - before[self._bounds[:-1]]
        return sums

    def _of_kind(self, accepts: Callable[[Kind], bool]) -> Rows:
        accepted = np.fromiter(map(accepts, self.kinds), dtype=bool, count=len(self.kinds))
        rows: Rows = accepted[self.kind] if len(self.cards) else np.zeros(0, dtype=bool)
        return rows

    def _update(self, name: str) -> bool:
        """Write the rows of a node's cards that changed; False if its cards are not the ones that the rows are for."""
        state = self._ledger.node(name)
        if state is None:
            return name not in self.position
        first, after = self.rows(name)
        if name not in self.position or after - first != len(state.cards):
            return False
        position = self.position[name]
        for slot, card in enumerate(state.cards):
            known = self.cards[first + slot]
            # The ledger makes new states of all cards of a node whose inventory changed.
            if known is card:
                continue
            if known.card is not card.card and not _alike(known.card, card.card):
                return False
            self.cards[first + slot] = card
            column = self._column(card, serving=state.serving)
            self.table[:, first + slot] = self.padded[:, position, slot] = column
            self.states.move(first + slot, column)
        self._update_host(state)
        return True

    def _column(self, state: CardState, *, serving: bool) -> tuple[int, ...]:
        card = state.card
        return (
            state.free_mib, state.free_cores.bit_count(), state.free_slices,
            card.mem_mib, card.units, card.core_groups, card.max_slices, self.kinds[Kind.of(card)],
            serving, serving and state.open, card.cordoned, state.short,
        )  # fmt: skip

    def _update_host(self, state: NodeState) -> None:
        left, whole, position = state.left, state.whole, self.position[state.name]
        self.cpu[position], self.memory[position] = left.cpu_milli, left.memory_mib
        self.disk[position] = left.disk_mib
        amounts = (
            (left.cpu_milli, whole.cpu_milli),
            (left.memory_mib, whole.memory_mib),
            (left.disk_mib, whole.disk_mib),
        )
        self.shares[:, position] = [min(1.0, max(0, free) / most) if most else 0.0 for free, most in amounts]
        self._stamp(state.name)

    def _update_loads(self, loads: Loads, name: str) -> None:
        first, after = self.rows(name)
        used = loads.used(name)
        for row in range(first, after):
            card = used.get(self.uuids[row])
            self.used[:, row] = (card.memory, card.busy) if card is not None else 0
        self._stamp(name)

    def _stamp(self, name: str) -> None:
        self.now += 1
        self.stamp[self.position[name]] = self.now

    def _load(self) -> None:
        self.layout += 1
        self.nodes = self._ledger.nodes()
        states = [state for name in self.nodes if (state := self._ledger.node(name)) is not None]
        self.position = {name: i for i, name in enumerate(self.nodes)}
        self.cards: list[CardState] = [card for state in states for card in state.cards]
        self.names = [state.name for state in states for _ in state.cards]
        self.uuids = [card.card.uuid for card in self.cards]
        kinds = sorted({Kind.of(card.card) for card in self.cards})
        self.kinds = {kind: number for number, kind in enumerate(kinds)}
        sizes = [len(state.cards) for state in states]
        self._bounds = np.cumsum([0, *sizes])
        self.node_of: Numbers = np.repeat(np.arange(len(sizes)), sizes)
        self._rows_of: dict[str, list[int]] = {}
        for row, uuid in enumerate(self.uuids):
            self._rows_of.setdefault(uuid, []).append(row)
        there = np.arange(max(sizes, default=0)) < np.array(sizes, dtype=np.int64)[:, None]
        self.grid: Numbers = np.full(there.shape, -1, dtype=np.int64)
        self.grid[there] = np.arange(len(self.cards))
        columns = [self._column(c, serving=s.serving) for s in states for c in s.cards]
        super().__init__(packed(columns))
        self.states = CardStates(columns)
        # The same by node, so that all of a node's cards are read at once. Where there is no card all sizes are 1, the
        # kind is 0, and nothing is usable or held.
        self.padded: Numbers = np.ones((len(COUNTS), *self.grid.shape), dtype=np.int64)
        for none in ("kind", "serving", "usable", "cordoned", "short"):
            self.padded[COUNTS.index(none)] = 0
        self.padded[:, there] = self.table
        self.stamp = np.zeros(len(states), dtype=np.int64)
        self.cpu = np.zeros(len(states), dtype=np.int64)
        self.memory = np.zeros(len(states), dtype=np.int64)
        self.disk = np.zeros(len(states), dtype=np.int64)
        self.shares: Values = np.zeros((3, len(states)))
        self.used: Numbers = np.zeros((2, len(self.cards)), dtype=np.int64)
        for state in states:
            self._update_host(state)
            if self._loads is not None:
                self._update_loads(self._loads, state.name)
        self._seen = self._ledger.version


def _marked(position: Mapping[str, int], nodes: Collection[str]) -> Rows:
    """Which positions are those of `nodes`."""
    # One place more, the last, for names that are none of ours.
    marked = np.zeros(len(position) + 1, dtype=bool)
    marked[np.fromiter(map(position.get, nodes, repeat(-1)), dtype=np.int64, count=len(nodes))] = True
    return marked[:-1]


def _alike(one: Card, other: Card) -> bool:
    """True if they are the same card, however it is."""
    return one.uuid == other.uuid and Kind.of(one) == Kind.of(other)


class View(Columns):
    """Some nodes of an index. Columns have the shape (nodes, most cards of a node).

    Where `there` is false is no card, and nothing is held of it. `positions`, ascending, are the nodes' and `where`
    indexes the same. `cpu` has the shape (nodes,). Valid until the index changes.
    """

    def __init__(self, index: Index, positions: Numbers) -> None:
        self.positions = positions
        # Neighbours are read where they stand, others are copied.
        together = len(positions) and positions[-1] - positions[0] == len(positions) - 1
        self.where: slice | Numbers = (
            slice(int(positions[0]), int(positions[-1]) + 1) if together else positions
        )
        super().__init__(index.padded[:, self.where] if together else index.padded.take(positions, axis=1))
        self._index = index
        self.cpu: Numbers = index.cpu[self.where]

    @property
    def rows(self) -> Numbers:
        """The index's, then -1; shape (nodes, most cards of a node)."""
        rows: Numbers = self._index.grid[self.where]
        return rows

    @property
    def there(self) -> Rows:
        """Where there is a card."""
        return self.rows >= 0

    @property
    def memory(self) -> Numbers:
        """What nodes have left of it, in MiB; shape (nodes,)."""
        memory: Numbers = self._index.memory[self.where]
        return memory

    @cached_property
    def usable(self) -> Rows:
        """The same, found once: a view does not change."""
        return super().usable

    @cached_property
    def untouched(self) -> Rows:
        """As above."""
        return super().untouched

    @cached_property
    def gives(self) -> Rows:
        """The cards that have a slice left to give."""
        gives: Rows = self.usable & (self.free_slices > 0)
        return gives

    @property
    def shares(self) -> Values:
        """The index's, of shape (3, nodes)."""
        shares: Values = self._index.shares[:, self.where]
        return shares

    @property
    def amounts(self) -> Values:
        """What nodes have left beside their cards: CPUs, GiB of memory, GiB of disk; of shape (3, nodes)."""
        index = self._index
        left = [index.cpu / 1000, index.memory / 1024, index.disk / 1024]
        amounts: Values = np.maximum([amount[self.where] for amount in left], 0)
        return amounts

    @property
    def used(self) -> Numbers:
        """The index's, of shape (2, nodes, cards)."""
        used: Numbers = self._index.used[:, self.rows]
        return used
