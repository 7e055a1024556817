"""The node table: all cards and nodes as arrays that follow the ledger, and caches of values about its rows.

A row is a node, and the cells of a row are its cards; rows are sorted by node name, cells by card uuid. A decision
reads whole columns, which is faster than walking thousands of objects. When a node changes, only its row is written
again and gets a new stamp, the largest of all. A RowCache computes values again only for rows with newer stamps.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np

from device_plugin.core.contract.cards import Card
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import CardState, Ledger, NodeState
from device_plugin.core.loads import Loads
from device_plugin.core.node_constraints import NodeIndex, NodeSet
from device_plugin.core.placement.card_columns import (
    COLUMNS,
    EMPTY,
    NO_KIND,
    CardKind,
    CardStates,
    Columns,
    Floats,
    Ints,
    Mask,
    packed,
)
from device_plugin.core.placement.offer import Offer, RecentOffers, rows_of
from device_plugin.core.requests import ANYTHING, Selector

NO_ROWS: Ints = np.zeros(0, dtype=np.int64)


class NodeTable(Columns):
    """The cards of all nodes as columns of shape (nodes, most cards of a node), and the hosts' CPU, memory and disk.

    - `there` marks the cells that hold a card.
    - `host` is the free CPU (milli), memory and disk (MiB) of each node, and `host_most` the node's total amounts;
      shape (3, nodes).
    - `claims`, of shape (nodes,), marks the nodes that prepare ResourceClaims.
    - `used`, of shape (2, nodes, cards), is the measured use of each card's memory and time, in percent.
    - `kinds` numbers the kinds of cards, `states` groups cards with equal columns.
    - `stamp`, of shape (nodes,), grows with every change of a row; `layout` grows when rows are assigned to other
      nodes.
    - `position` is the row of each node by name; a new layout replaces it and never changes it.
    """

    def __init__(self, ledger: Ledger, loads: Loads | None = None) -> None:
        self._ledger, self._loads = ledger, loads or Loads()
        self._seen = self._versions()
        self._offers = RecentOffers()
        # For each row the position of its node in a NodeIndex, with the `position` and the index that this is for.
        self._indexed: tuple[dict[str, int], NodeIndex | None, Ints] = {}, None, NO_ROWS
        # `there`, which is replaced when it changes, and the rows in which it marks a cell.
        nothing: Mask = np.zeros(0, dtype=bool)
        self._shown = nothing, nothing
        self.layout = 0
        self.now = 0
        """The newest stamp."""
        self._load()

    def _load(self) -> None:
        """Give all nodes new rows of the table, and write all of these rows."""
        nodes = self._ledger.nodes()
        states = [state for name in nodes if (state := self._ledger.node(name)) is not None]
        kinds = sorted({CardKind.of(card.card) for state in states for card in state.cards})
        self.kinds = {kind: number for number, kind in enumerate(kinds)}
        self._numbers = [kind.numbers(number) for kind, number in self.kinds.items()]
        shape = len(nodes), max((len(state.cards) for state in states), default=0) or 1
        Columns.__init__(self, np.zeros((len(COLUMNS), *shape), dtype=np.int64))
        self.there: Mask = np.zeros(shape, dtype=bool)
        self.states = CardStates(shape)
        self.stamp: Ints = np.zeros(len(nodes), dtype=np.int64)
        self.host: Ints = np.zeros((3, len(nodes)), dtype=np.int64)
        self.host_most: Ints = np.zeros((3, len(nodes)), dtype=np.int64)
        self.claims: Mask = np.zeros(len(nodes), dtype=bool)
        self.used: Ints = np.zeros((2, *shape), dtype=np.int64)
        self._rows = list(states)
        # The cells of each uuid; None until they are first needed.
        self._cells: dict[str, list[tuple[int, int]]] | None = None
        self._name_rows(nodes)
        for position, state in enumerate(states):
            self._write_row(position, state)
        self.card_count = int(self.there.sum())

    def refresh(self) -> None:
        """Write all changes of the ledger and the loads since the previous refresh into the table."""
        seen, self._seen = self._seen, self._versions()
        if seen == self._seen:
            return
        others = [name for name in self._ledger.changed_since(seen[0]) if not self._update_node(name)]
        if others:
            self._exchange(others)
        for name in self._loads.changed_since(seen[1]):
            if name in self.position:
                self._write_used(self.position[name])

    @property
    def seen(self) -> tuple[int, int]:
        """The versions of the ledger and of the measured loads as of the latest refresh."""
        return self._seen

    def node(self, name: str) -> NodeState | None:
        """The state of a node as of the latest refresh; None if it has no inventory."""
        position = self.position.get(name)
        return None if position is None else self._rows[position]

    def cards(self, position: int) -> tuple[CardState, ...]:
        """The cards of the node in the row `position`, in the order of the row's cells."""
        return self._rows[position].cards

    @property
    def shown(self) -> Mask:
        """True for the rows (nodes) that show a card; shape (nodes,). Callers must not write to the array."""
        if self._shown[0] is not self.there:
            shown: Mask = np.logical_or.reduce(self.there, axis=1)
            self._shown = self.there, shown
        return self._shown[1]

    def offered(self, nodes: Sequence[str]) -> Offer:
        """The offer: `nodes` with their rows in the table; recent equal `nodes` return the same object.

        It needs no lock. Finding thousands of rows takes long, so callers call it once before they take the lock; then
        the call with the lock held is fast.
        """
        return self._offers.of(self.position, nodes)

    def chosen(self, nodes: Sequence[str]) -> Mask:
        """True for the rows of `nodes`; shape (nodes,). Callers must not write to the array. It needs no lock."""
        return self._in_set(nodes) if isinstance(nodes, NodeSet) else self.offered(nodes).mask

    def _in_set(self, nodes: NodeSet) -> Mask:
        """An array with True for the rows of the nodes in a NodeSet, computed from the set's bits.

        The bits are a hundred times faster than names.
        """
        found_by, index, positions = self._indexed
        if found_by is not self.position or index is not nodes.node_index:
            positions = rows_of(nodes.node_index.position, self.nodes)
            self._indexed = self.position, nodes.node_index, positions
        # One more bit at the end stands for rows that the index does not know.
        packed = nodes.bits.to_bytes(len(nodes.node_index.names) // 8 + 1, "little")
        bits = np.unpackbits(np.frombuffer(packed, dtype=np.uint8), bitorder="little")
        return bits.astype(bool)[positions]

    def with_host(self, asked: HostAmounts) -> Mask:
        """An array with True for nodes with at least `asked` of CPU, memory and disk free; shape (nodes,)."""
        enough: Mask = (self.host[0] >= asked.cpu_milli) & (self.host[1] >= asked.memory_mib)
        if asked.disk_mib:
            enough &= self.host[2] >= asked.disk_mib
        return enough

    def preparing(self) -> Mask | None:
        """An array with True for nodes that prepare ResourceClaims; None if all nodes do. The array is a copy."""
        return None if self.claims.all() else self.claims.copy()

    def named(self, uuids: Selector) -> Mask:
        """An array with True for the cards whose uuid the selector accepts; shape (nodes, cards)."""
        if uuids == ANYTHING:
            return self.there
        mask = np.zeros(self.there.shape, dtype=bool) if uuids.include else self.there.copy()
        for words, wanted in ((uuids.include, True), (uuids.exclude, False)):
            for word in words:
                for position, slot in self._cells_of(word):
                    mask[position, slot] = wanted
        return mask

    def _cells_of(self, uuid: str) -> list[tuple[int, int]]:
        """The cells (row and place in it) of the cards with this uuid; several if two nodes report it."""
        if self._cells is None:
            self._cells = {}
            for position, state in enumerate(self._rows):
                for slot, card in enumerate(state.cards):
                    self._cells.setdefault(card.card.uuid, []).append((position, slot))
        return self._cells.get(uuid, [])

    def _versions(self) -> tuple[int, int]:
        return self._ledger.version, self._loads.version

    def _update_node(self, name: str) -> bool:
        """Write the table's cells of a changed node; False if the node came or went, or has other cards than before."""
        state, position = self._ledger.node(name), self.position.get(name)
        if state is None or position is None:
            return state is None and position is None
        known = self._rows[position]
        if len(known.cards) != len(state.cards):
            return False
        for slot, (before, after) in enumerate(zip(known.cards, state.cards, strict=True)):
            # A change of one slice replaces one state. A new inventory replaces all states, most of them by equal ones.
            if before is after:
                continue
            if before.card is not after.card and not _alike(before.card, after.card):
                return False
            cell = position, slot
            left = _free_part(state, after)
            self.layers[: len(left), position, slot] = left
            self.states.move(cell, left + self._numbers[self.kind[cell]])
        self._rows[position] = state
        self._write_node(position, state, known)
        return True

    def _exchange(self, names: Collection[str]) -> None:
        """Write the rows of the nodes that came, went, or have other cards than before.

        This takes some milliseconds at 5,000 nodes of 8 cards, a hundredth of the time to write all rows. All rows are
        written if the table was empty, or if the kinds of cards or the largest number of cards of a node have changed.
        """
        found = {name: state for name in names if (state := self._ledger.node(name)) is not None}
        # `there` is replaced, never changed, because readers without the lock may use it.
        self.there = self.there.copy()
        for name in names:
            if name in self.position:
                self._write_cards(self.position[name], NodeState(name))
        kinds = {
            self.kinds.get(CardKind.of(state.card), NO_KIND)
            for node in found.values()
            for state in node.cards
        }
        kinds.update(np.unique(self.kind[self.there]).tolist())
        widths = [self.there.sum(axis=1).max(initial=1), *(len(state.cards) for state in found.values())]
        same_form = kinds == set(range(len(self.kinds))) and max(widths) == self.there.shape[1]
        if not (self.nodes and same_form):
            self._load()
            return
        if any((name in self.position) != (name in found) for name in names):
            self._assign_rows()
        for name, state in found.items():
            self._write_row(self.position[name], state)
        self._cells, self.card_count = None, int(self.there.sum())

    def _assign_rows(self) -> None:
        """Assign the table's rows to the present nodes; the caller has emptied the rows of nodes that went."""
        nodes = self._ledger.nodes()
        origin = np.array([self.position.get(name, -1) for name in nodes], dtype=np.int64)
        rows = [*self._rows, NodeState("")]
        self._rows = [rows[position] for position in origin.tolist()]
        Columns.__init__(self, self.layers.take(origin, axis=1))
        self.there, self.stamp = self.there.take(origin, axis=0), self.stamp.take(origin)
        self.host, self.host_most = self.host.take(origin, axis=1), self.host_most.take(origin, axis=1)
        self.claims = self.claims.take(origin)
        self.used = self.used.take(origin, axis=1)
        self.states.assign_rows(origin)
        self._name_rows(nodes)

    def _name_rows(self, nodes: tuple[str, ...]) -> None:
        self.layout += 1
        self.nodes = nodes
        self.position = {name: position for position, name in enumerate(nodes)}

    def _write_row(self, position: int, state: NodeState) -> None:
        self._write_cards(position, state)
        self._write_node(position, state)
        self._write_used(position)

    def _write_cards(self, position: int, state: NodeState) -> None:
        """Write all cells of a node's row: the node's cards, then empty cells."""
        self._rows[position] = state
        self.there[position] = np.arange(self.there.shape[1]) < len(state.cards)
        cells = [EMPTY] * self.there.shape[1]
        for slot, card in enumerate(state.cards):
            cells[slot] = _free_part(state, card) + self._numbers[self.kinds[CardKind.of(card.card)]]
        self.layers[:, position] = packed(cells)
        for slot, cell in enumerate(cells):
            self.states.move((position, slot), cell)

    def _write_node(self, position: int, state: NodeState, known: NodeState | None = None) -> None:
        """Write a node's host amounts, and whether it prepares ResourceClaims, and stamp the row as changed.

        Values that are equal in the `known` state are in the row already.
        """
        left, whole = state.left, state.whole
        if known is None or known.taken != state.taken or known.whole != whole:
            self.host[:, position] = left.cpu_milli, left.memory_mib, left.disk_mib
        if known is None or known.whole != whole:
            self.host_most[:, position] = whole.cpu_milli, whole.memory_mib, whole.disk_mib
        if known is None or known.inventory is not state.inventory:
            self.claims[position] = state.claims
        self._stamp(position)

    def _write_used(self, position: int) -> None:
        used = self._loads.used(self.nodes[position])
        self.used[:, position] = 0
        for slot, state in enumerate(self.cards(position)):
            if (card := used.get(state.card.uuid)) is not None:
                self.used[:, position, slot] = card.memory, card.busy
        self._stamp(position)

    def _stamp(self, position: int) -> None:
        self.now += 1
        self.stamp[position] = self.now


def _free_part(node: NodeState, state: CardState) -> tuple[int, ...]:
    """A card's values of the columns before "mib": its free part, its health and its cordon."""
    return (
        state.free_mib, state.free_cores.bit_count(), state.free_slices,
        node.serving, node.serving and state.open, state.card.cordoned, state.short,
    )  # fmt: skip


def _alike(one: Card, other: Card) -> bool:
    """True if both cards have the same uuid and kind; their health may differ."""
    return one.uuid == other.uuid and CardKind.of(one) == CardKind.of(other)


class NodeView(Columns):
    """Some rows of a table as columns of shape (rows, cards), as wide as the table; valid until the table changes.

    `positions` are the ascending positions of the rows; `where` selects the rows in arrays of shape (nodes, …).
    """

    def __init__(self, table: NodeTable, positions: Ints) -> None:
        self.positions = positions
        # For neighbouring rows this is a view of the table's arrays; other rows are copied.
        together = len(positions) and positions[-1] - positions[0] == len(positions) - 1
        self.where: slice | Ints = slice(int(positions[0]), int(positions[-1]) + 1) if together else positions
        super().__init__(table.layers[:, self.where] if together else table.layers.take(positions, axis=1))
        self._table = table
        self.cpu: Ints = table.host[0, self.where]

    @property
    def there(self) -> Mask:
        """True for those cells (places for cards) of the rows that hold a card."""
        return self._table.there[self.where]

    @property
    def memory(self) -> Ints:
        """The free memory of the nodes' hosts, in MiB; shape (rows,)."""
        return self._table.host[1, self.where]

    # A view does not change, so each of these properties is computed once.
    @cached_property
    def usable(self) -> Mask:
        """True for cards that may get new slices, of nodes whose agent serves Allocate."""
        return super().usable

    @cached_property
    def untouched(self) -> Mask:
        """True for cards of which no slice is held."""
        return super().untouched

    @cached_property
    def gives(self) -> Mask:
        """True for usable cards that can give at least one more slice."""
        return self.usable & (self.free_slices > 0)

    def node_slack(self) -> Floats:
        """The sum of the free parts of each node's cards, in millionths of a card; shape (rows,)."""
        return np.where(self.there, self.slack(), 0).sum(axis=1).astype(np.float64)

    @property
    def shares(self) -> Floats:
        """The free shares of each node's CPU, memory and disk, 0 to 1; shape (3, rows)."""
        left, most = np.maximum(self._table.host[:, self.where], 0), self._table.host_most[:, self.where]
        return np.where(most > 0, np.minimum(1.0, left / np.maximum(most, 1)), 0.0)

    @property
    def amounts(self) -> Floats:
        """The free amounts of each node: CPUs, GiB of memory, GiB of disk; shape (3, rows)."""
        return np.maximum(self._table.host[:, self.where] / [[1000], [1024], [1024]], 0)

    @property
    def used(self) -> Ints:
        """The measured use of each card's memory and time, in percent; shape (2, rows, cards)."""
        return self._table.used[:, self.where]


class RowCache(ABC):
    """Keeps values about each row (node) of a table, and computes them again only for rows that changed."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = self._seen = -1
        # Rows that were outdated at the last refresh, by the newest stamp `_seen`, and were not computed then.
        self._left: Ints = NO_ROWS

    @abstractmethod
    def _lay_out(self) -> None:
        """Drop all values, because rows of the table were assigned to other nodes."""

    @abstractmethod
    def _compute(self, positions: Ints, /) -> None:
        """Compute the values of the rows (nodes) at these positions, which are ascending and at least one."""

    def refresh(self, most: int | None = None) -> bool:
        """Compute the values of at most `most` rows (nodes) with outdated values; true once no value is outdated."""
        self._follow()
        outdated = self._outdated() if self._table.kinds else NO_ROWS
        now = outdated[:most]
        if len(now):
            self._compute(now)
            self._note(now, outdated[len(now) :])
        return len(now) == len(outdated)

    def _follow(self) -> None:
        if self._layout != self._table.layout:
            self._layout = self._table.layout
            self._restart()
            self._lay_out()

    def _restart(self) -> None:
        """Note that the values of all rows (nodes) are outdated."""
        self._seen, self._left = -1, NO_ROWS

    def _outdated(self) -> Ints:
        """The positions of the rows (nodes) whose values are outdated, ascending."""
        changed = np.flatnonzero(self._table.stamp > self._seen)
        return np.union1d(self._left, changed) if len(self._left) else changed

    def _note(self, _now: Ints, left: Ints) -> None:
        """Record that rows (nodes) were computed now, so that only the rows `left` are outdated."""
        self._seen, self._left = self._table.now, left


class StampedRowCache(RowCache):
    """A RowCache that can compute the values of single rows.

    For this it keeps the stamp of each row (the number of its latest change), 8 bytes each.
    """

    def __init__(self, table: NodeTable) -> None:
        super().__init__(table)
        # For each row its stamp when its values were computed.
        self._made: Ints = NO_ROWS

    def refresh_some(self, positions: Ints) -> None:
        """Compute the outdated values among the rows (nodes) at `positions`."""
        self._follow()
        now = positions[self._table.stamp[positions] > self._made[positions]]
        if len(now):
            self._compute(now)
            self._note(now, NO_ROWS)

    def _restart(self) -> None:
        self._made = np.full(len(self._table.nodes), -1, dtype=np.int64)

    def _outdated(self) -> Ints:
        return np.flatnonzero(self._table.stamp > self._made)

    def _note(self, now: Ints, _left: Ints) -> None:
        self._made[now] = self._table.stamp[now]
