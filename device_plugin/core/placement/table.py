"""The node table: all cards and nodes as arrays that follow the ledger, and how caches learn which rows changed.

A row is a node, and the cells of a row are its cards; both stand in the fixed order, by node name and card uuid. A
decision reads whole columns at once instead of walking thousands of objects. After a change only that node's row is
written again and stamped, and StaleRows tells each cache for which rows its own values are older than the stamp.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import repeat
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.cards import Card
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.ledger import CardState, NodeState
from device_plugin.core.loads import Loads
from device_plugin.core.requests import ANYTHING, Selector

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

COLUMNS = (
    "free_mib", "free_cores", "free_slices", "serving", "usable", "cordoned", "short",
    "mib", "units", "groups", "most", "kind",
)  # fmt: skip
"""The columns, in the order of a table's layers. From "mib" on they are the same for all cards of a kind."""
NO_KIND = -1
# Nothing of an empty cell is usable, and nothing is divided by zero.
EMPTY = tuple(
    {"kind": NO_KIND, "serving": 0, "usable": 0, "cordoned": 0, "short": 0}.get(c, 1) for c in COLUMNS
)


class Kind(NamedTuple):
    """Cards of one kind are alike but for what is left of them."""

    family: str
    model: str
    mem_mib: int
    units: int
    groups: int
    slices: int

    @classmethod
    def of(cls, card: Card) -> "Kind":
        """The kind of a card."""
        return cls(card.family, card.model, card.mem_mib, card.units, card.core_groups, card.max_slices)

    def numbers(self, number: int) -> tuple[int, ...]:
        """The columns from "mib" on of the kind's cards; `number` is what the column "kind" says."""
        return self.mem_mib, self.units, self.groups, self.slices, number


def kinds_where(kinds: Collection[Kind], accepts: Callable[[Kind], bool]) -> Mask:
    """For which kinds it holds, and False in the last place, which is NO_KIND; shape (kinds + 1,)."""
    return np.array([*map(accepts, kinds), False], dtype=bool)


class Columns:
    """Cards as arrays of one shape, a layer of `layers` for each of COLUMNS; `free_cores` counts core groups."""

    def __init__(self, layers: Ints) -> None:
        self.layers = layers
        self.free_mib: Ints = layers[0]
        self.free_cores: Ints = layers[1]
        self.free_slices: Ints = layers[2]
        self.mib: Ints = layers[7]
        self.units: Ints = layers[8]
        self.groups: Ints = layers[9]
        self.most: Ints = layers[10]
        self.kind: Ints = layers[11]

    @classmethod
    def free(cls, kinds: Sequence[Kind]) -> "Columns":
        """One free, usable card of each kind; shape (kinds,)."""
        return cls(_packed([
            (k.mem_mib, k.groups, k.slices, 1, 1, 0, 0, *k.numbers(number)) for number, k in enumerate(kinds)
        ]))  # fmt: skip

    @property
    def serving(self) -> Mask:
        """Where the card's node serves."""
        mask: Mask = self.layers[3] == 1
        return mask

    @property
    def usable(self) -> Mask:
        """Where the card may get new slices and its node serves."""
        mask: Mask = self.layers[4] == 1
        return mask

    @property
    def cordoned(self) -> Mask:
        """Where the card is cordoned."""
        mask: Mask = self.layers[5] == 1
        return mask

    @property
    def short(self) -> Mask:
        """Where the card has less than its holders were granted."""
        mask: Mask = self.layers[6] == 1
        return mask

    @property
    def untouched(self) -> Mask:
        """Where no slice of the card is held."""
        mask: Mask = self.free_slices == self.most
        return mask

    def idle(self) -> Floats:
        """The share of each card that a slice could still have: the lesser of its free memory and core groups."""
        idle: Floats = np.minimum(self.free_mib / self.mib, self.free_cores / self.groups)
        return idle

    def slack(self) -> Ints:
        """What is free of each card, in millionths, memory and core groups added."""
        slack: Ints = self.free_mib * 10**6 // self.mib + self.free_cores * 10**6 // self.groups
        return slack


class CardStates:
    """Cards grouped by equal columns: of thousands of cards most are alike, and what holds of one holds of its group.

    To find out that nothing fits takes some ten passes over every card, and a hundredth of that over every state.
    `code` has the number of each cell's state; state 0 is EMPTY. A number that no card has any more is given to the
    next new state, so there are never more numbers than cards.
    """

    def __init__(self, cells: Ints) -> None:
        flat = cells.reshape(len(COLUMNS), -1)
        self._codes: dict[tuple[int, ...], int] = {EMPTY: 0}
        codes = [self._codes.setdefault(tuple(state), len(self._codes)) for state in flat.T.tolist()]
        self.code: Ints = np.array(codes, dtype=np.int64).reshape(cells.shape[1:])
        self._states = [*self._codes]
        self._layers: Ints = _packed(self._states)
        self._count = np.bincount(self.code.reshape(-1), minlength=len(self._codes)).tolist()
        self._unused: list[int] = []
        self._frozen: tuple[Columns, Ints] | None = None

    def fork(self) -> "CardStates":
        """An independent copy."""
        made = copy(self)
        made._codes, made._states = self._codes.copy(), self._states.copy()
        made.code, made._layers = self.code.copy(), self._layers.copy()
        made._count, made._unused = self._count.copy(), self._unused.copy()
        return made

    def columns(self) -> Columns:
        """The states as columns of shape (states,). Valid until a card changes."""
        return Columns(self._layers)

    def frozen(self) -> tuple[Columns, Ints]:
        """Columns of the states and the code of each cell, copied: later changes do not show."""
        if self._frozen is None:
            self._frozen = Columns(self._layers.copy()), self.code.copy()
        return self._frozen

    def move(self, cell: tuple[int, int], state: tuple[int, ...]) -> None:
        """Note that the card of this cell has another state now."""
        self._frozen = None
        before = int(self.code[cell])
        self._count[before] -= 1
        if before and not self._count[before]:
            del self._codes[self._states[before]]
            self._layers[:, before] = EMPTY
            self._unused.append(before)
        code = self._codes.get(state)
        if code is None:
            code = self._codes[state] = self._new()
            self._states[code], self._layers[:, code] = state, state
        self.code[cell] = code
        self._count[code] += 1

    def _new(self) -> int:
        if not self._unused:
            known = len(self._states)
            more = max(16, known)
            self._states += [EMPTY] * more
            self._layers = np.concatenate((self._layers, np.array([EMPTY] * more).T), axis=1)
            self._count += [0] * more
            self._unused = list(range(known, known + more))
        return self._unused.pop()


class Store(Protocol):
    """What a table follows: a record of each node, and which of them changed since a version."""

    @property
    def version(self) -> int:
        """Grows with every change."""

    def changed_since(self, version: int) -> Iterator[str]:
        """Nodes that changed after `version`, newest first."""


class Cards(Store, Protocol):
    """A ledger, or a private copy of one."""

    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes with an inventory, in order."""

    def node(self, name: str) -> NodeState | None:
        """What remains on a node, or None if it has no inventory."""


class NodeTable(Columns):
    """Columns of shape (nodes, most cards of a node), and of each node what it has left beside its cards.

    `there` says which cells are cards. `host` has what each node has left of CPU (milli), memory and disk (MiB), and
    `host_most` what it can give in all; shape (3, nodes). `used`, of shape (2, nodes, cards), says how many percent of
    each card's memory and time were measured to be in use. `kinds` numbers the kinds of cards, `states` groups equal
    cards. `stamp`, of shape (nodes,), grows with every change of a row; `layout` when rows are given to other cards.
    `position` says where a node's row is; it is replaced with each layout and never changed.
    """

    def __init__(self, ledger: Cards, loads: Loads | None = None) -> None:
        self._follow(ledger, loads)
        self._chosen: tuple[dict[str, int], Collection[str], Mask] = {}, (), np.zeros(0, dtype=bool)
        self._seen: tuple[int, ...] = ()
        self.layout = 0
        self.now = 0
        """The newest stamp."""
        self._load()

    def fork(self, ledger: Cards, loads: Loads | None = None) -> "NodeTable":
        """A table of its own that follows these stores, which hold now what this table has caught up with.

        It copies the arrays and shares what is replaced and never changed: 2 ms for 5,000 nodes of 8 cards, where
        to build a table takes 200.
        """
        made = copy(self)
        made._follow(ledger, loads)
        made._seen = made._versions()
        Columns.__init__(made, self.layers.copy())
        made.host, made.host_most, made.used = self.host.copy(), self.host_most.copy(), self.used.copy()
        made.stamp, made._rows, made.states = self.stamp.copy(), self._rows.copy(), self.states.fork()
        return made

    def refresh(self) -> None:
        """Catch up with the ledger and the loads."""
        versions = self._versions()
        if versions == self._seen:
            return
        for store, seen, update in zip(self._stores, self._seen, self._updates, strict=True):
            if store is None or store.version == seen:
                continue
            for name in store.changed_since(seen):
                if not update(name):
                    self._load()
                    return
        self._seen = versions

    def node(self, name: str) -> NodeState | None:
        """What remains on a node as of the last refresh; None if it shows no cards."""
        position = self.position.get(name)
        return None if position is None else self._rows[position]

    def cards(self, position: int) -> tuple[CardState, ...]:
        """The cards in a row, in the order of its cells."""
        return self._rows[position].cards

    def chosen(self, nodes: Collection[str]) -> Mask:
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

    def looked_up(self, nodes: Collection[str]) -> Mask:
        """Like `chosen`, but the answer is not kept: `nodes` are few, or of one pod only."""
        return _marked(self.position, nodes)

    def with_host(self, asked: HostAmounts) -> Mask:
        """Which of the nodes have that much CPU, memory and disk left; shape (nodes,)."""
        enough: Mask = (self.host[0] >= asked.cpu_milli) & (self.host[1] >= asked.memory_mib)
        if asked.disk_mib:
            enough &= self.host[2] >= asked.disk_mib
        return enough

    def named(self, uuids: Selector) -> Mask:
        """Cells whose uuid the selector accepts."""
        if uuids == ANYTHING:
            return self.there
        mask = np.zeros(self.there.shape, dtype=bool) if uuids.include else self.there.copy()
        for words, wanted in ((uuids.include, True), (uuids.exclude, False)):
            for word in words:
                if word in self._cell_of:
                    mask.flat[self._twins.get(word, self._cell_of[word])] = wanted
        return mask

    def _follow(self, ledger: Cards, loads: Loads | None) -> None:
        self._ledger, self._loads = ledger, loads
        self._stores: tuple[Store | None, ...] = ledger, loads
        self._updates = self._update_node, self._update_used

    def _versions(self) -> tuple[int, ...]:
        return tuple([-1 if store is None else store.version for store in self._stores])

    def _update_node(self, name: str) -> bool:
        """Write the host and the cells of a node that changed; False if its cards are not those that the row is for."""
        state, position = self._ledger.node(name), self.position.get(name)
        if state is None or position is None:
            return state is None and position is None
        known = self._rows[position].cards
        if len(known) != len(state.cards):
            return False
        for slot, (before, after) in enumerate(zip(known, state.cards, strict=True)):
            # The ledger makes new states of all cards of a node whose inventory changed.
            if before is after:
                continue
            if before.card is not after.card and not _alike(before.card, after.card):
                return False
            cell = position, slot
            left = _left(state, after)
            self.layers[: len(left), position, slot] = left
            self.states.move(cell, left + self._numbers[self.kind[cell]])
        self._rows[position] = state
        self._write_host(position, state)
        self._stamp(position)
        return True

    def _write_host(self, position: int, state: NodeState) -> None:
        left, whole = state.left, state.whole
        self.host[:, position] = left.cpu_milli, left.memory_mib, left.disk_mib
        self.host_most[:, position] = whole.cpu_milli, whole.memory_mib, whole.disk_mib

    def _update_used(self, name: str) -> bool:
        position = self.position.get(name)
        if position is not None and self._loads is not None:
            used = self._loads.used(name)
            for slot, state in enumerate(self.cards(position)):
                card = used.get(state.card.uuid)
                self.used[:, position, slot] = (card.memory, card.busy) if card is not None else 0
            self._stamp(position)
        return True

    def _stamp(self, position: int) -> None:
        self.now += 1
        self.stamp[position] = self.now

    def _load(self) -> None:
        """Lay the rows out anew and write all of them."""
        self._seen = self._versions()
        self.layout += 1
        self.nodes = self._ledger.nodes()
        self._rows = [state for name in self.nodes if (state := self._ledger.node(name)) is not None]
        self.position = {name: position for position, name in enumerate(self.nodes)}
        cards = [(state, card) for state in self._rows for card in state.cards]
        kind_of = [Kind.of(card.card) for _, card in cards]
        self.kinds = {kind: number for number, kind in enumerate(sorted(set(kind_of)))}
        self._numbers = [kind.numbers(number) for kind, number in self.kinds.items()]
        sizes = np.array([len(state.cards) for state in self._rows], dtype=np.int64)
        shape = len(sizes), int(sizes.max(initial=1))
        layers = np.broadcast_to(np.array(EMPTY)[:, None, None], (len(COLUMNS), *shape)).copy()
        self.there: Mask = np.arange(shape[1]) < sizes[:, None]
        self.card_count = len(cards)
        # Where a card of each uuid is in flattened arrays; all places of a uuid that two nodes claim.
        uuids, places = [card.card.uuid for _, card in cards], np.flatnonzero(self.there).tolist()
        self._cell_of: dict[str, int] = dict(zip(uuids, places, strict=True))
        self._twins: dict[str, list[int]] = {}
        if len(self._cell_of) < len(cards):
            for uuid, place in zip(uuids, places, strict=True):
                if self._cell_of[uuid] != place:
                    self._twins.setdefault(uuid, [self._cell_of[uuid]]).append(place)
        layers[:, self.there] = _packed([
            _left(state, card) + self._numbers[self.kinds[kind]]
            for (state, card), kind in zip(cards, kind_of, strict=True)
        ])  # fmt: skip
        super().__init__(layers)
        self.states = CardStates(layers)
        self.stamp: Ints = np.zeros(len(self._rows), dtype=np.int64)
        self.host: Ints = np.zeros((3, len(self._rows)), dtype=np.int64)
        self.host_most: Ints = np.zeros((3, len(self._rows)), dtype=np.int64)
        self.used: Ints = np.zeros((2, *shape), dtype=np.int64)
        for position, state in enumerate(self._rows):
            self._write_host(position, state)
            self._stamp(position)
            if self._loads is not None and self._loads.used(state.name):
                self._update_used(state.name)


def _packed(cards: Sequence[Sequence[int]]) -> Ints:
    """Cards, each given by its numbers in the order of COLUMNS, as layers of shape (cards,)."""
    return np.array(cards, dtype=np.int64).reshape(-1, len(COLUMNS)).T.copy()


def _left(node: NodeState, state: CardState) -> tuple[int, ...]:
    """The columns of a card before "mib"."""
    return (
        state.free_mib, state.free_cores.bit_count(), state.free_slices,
        node.serving, node.serving and state.open, state.card.cordoned, state.short,
    )  # fmt: skip


def _marked(position: Mapping[str, int], nodes: Collection[str]) -> Mask:
    """Which positions are those of `nodes`."""
    # One place more, the last, for names that are none of ours.
    mask = np.zeros(len(position) + 1, dtype=bool)
    mask[np.fromiter(map(position.get, nodes, repeat(-1)), dtype=np.int64, count=len(nodes))] = True
    return mask[:-1]


def _alike(one: Card, other: Card) -> bool:
    """True if they are the same card, however it is."""
    return one.uuid == other.uuid and Kind.of(one) == Kind.of(other)


class NodeView(Columns):
    """Some rows of a table, columns having the shape (rows, most cards of a node). Valid until the table changes.

    `positions`, ascending, are those of the rows, and `where` indexes them in arrays of shape (nodes, …).
    """

    def __init__(self, table: NodeTable, positions: Ints) -> None:
        self.positions = positions
        # Neighbours are read where they stand, others are copied.
        together = len(positions) and positions[-1] - positions[0] == len(positions) - 1
        self.where: slice | Ints = slice(int(positions[0]), int(positions[-1]) + 1) if together else positions
        super().__init__(table.layers[:, self.where] if together else table.layers.take(positions, axis=1))
        self._table = table
        self.cpu: Ints = table.host[0, self.where]

    @property
    def there(self) -> Mask:
        """Which cells are cards."""
        there: Mask = self._table.there[self.where]
        return there

    @property
    def memory(self) -> Ints:
        """What nodes have left of it, in MiB; shape (rows,)."""
        memory: Ints = self._table.host[1, self.where]
        return memory

    # A view does not change, so each of these is found once.
    @cached_property
    def usable(self) -> Mask:
        """Where the card may get new slices and its node serves."""
        return super().usable

    @cached_property
    def untouched(self) -> Mask:
        """Where no slice of the card is held."""
        return super().untouched

    @cached_property
    def gives(self) -> Mask:
        """Where the card has a slice left to give."""
        gives: Mask = self.usable & (self.free_slices > 0)
        return gives

    def node_slack(self) -> Floats:
        """What is free of all cards of each node, in millionths of a card; shape (rows,)."""
        slack: Floats = np.where(self.there, self.slack(), 0).sum(axis=1).astype(np.float64)
        return slack

    @property
    def shares(self) -> Floats:
        """The shares of CPU, memory and disk that nodes have left, 0 to 1; shape (3, rows)."""
        left, most = np.maximum(self._table.host[:, self.where], 0), self._table.host_most[:, self.where]
        shares: Floats = np.where(most > 0, np.minimum(1.0, left / np.maximum(most, 1)), 0.0)
        return shares

    @property
    def amounts(self) -> Floats:
        """What nodes have left beside their cards: CPUs, GiB of memory, GiB of disk; shape (3, rows)."""
        amounts: Floats = np.maximum(self._table.host[:, self.where] / [[1000], [1024], [1024]], 0)
        return amounts

    @property
    def used(self) -> Ints:
        """Percent of each card's memory and time that are in use; shape (2, rows, cards)."""
        used: Ints = self._table.used[:, self.where]
        return used


class StaleRows:
    """The rows of a table for which a cache has no values yet, or values that are older than the row."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = -1
        # For each row the stamp that it had when the cache's values were made.
        self._made: Ints = np.zeros(0, dtype=np.int64)

    def fork(self, table: NodeTable) -> "StaleRows":
        """Those of a copy of the cache, made for a fork of the table."""
        made = copy(self)
        made._table, made._made = table, self._made.copy()
        return made

    def relaid(self) -> bool:
        """True, once, after rows were given to other nodes: all values of the cache are void."""
        if self._layout == self._table.layout:
            return False
        self._layout, self._made = self._table.layout, np.full(len(self._table.nodes), -1, dtype=np.int64)
        return True

    def all(self) -> Ints:
        """Positions of all stale rows, ascending; none while no node has a card."""
        if not self._table.kinds:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(self._table.stamp > self._made)

    def among(self, positions: Ints) -> Ints:
        """Those of `positions` that are stale."""
        stale: Ints = positions[self._table.stamp[positions] > self._made[positions]]
        return stale

    def made(self, positions: Ints) -> None:
        """Note that the cache has values for these rows as they are now."""
        self._made[positions] = self._table.stamp[positions]
