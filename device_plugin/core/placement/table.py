"""The node table: all cards and nodes as arrays that follow the ledger, and how caches learn which rows changed.

A row is a node, and the cells of a row are its cards; both stand in the fixed order, by node name and card uuid. A
decision reads whole columns at once instead of walking thousands of objects. After a change only that node's row is
written again and stamped, and StaleRows tells each cache which of its values are older than their row's stamp.
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
"""The columns, in the order of a table's layers. From "mib" on they are equal for all cards of one kind."""
NO_KIND = -1
# The columns of a cell without a card: never usable, and never a division by zero.
EMPTY = tuple(
    {"kind": NO_KIND, "serving": 0, "usable": 0, "cordoned": 0, "short": 0}.get(c, 1) for c in COLUMNS
)


class Kind(NamedTuple):
    """The properties that cards of one kind share; to placement they differ only in uuid, health and free part."""

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
        """The columns from "mib" on for cards of this kind; `number` is the value of the column "kind"."""
        return self.mem_mib, self.units, self.groups, self.slices, number


def kinds_where(kinds: Collection[Kind], accepts: Callable[[Kind], bool]) -> Mask:
    """True for the kinds that `accepts` accepts; False in the last position, which is NO_KIND; shape (kinds + 1,)."""
    return np.array([*map(accepts, kinds), False], dtype=bool)


class Columns:
    """Cards as arrays of equal shape, one layer of `layers` for each of COLUMNS; `free_cores` counts core groups."""

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
        """True for cards whose node serves."""
        mask: Mask = self.layers[3] == 1
        return mask

    @property
    def usable(self) -> Mask:
        """True for cards that may get new slices and whose node serves."""
        mask: Mask = self.layers[4] == 1
        return mask

    @property
    def cordoned(self) -> Mask:
        """True for cordoned cards."""
        mask: Mask = self.layers[5] == 1
        return mask

    @property
    def short(self) -> Mask:
        """True for cards that have less now than their holders were granted."""
        mask: Mask = self.layers[6] == 1
        return mask

    @property
    def untouched(self) -> Mask:
        """True for cards of which no slice is held."""
        mask: Mask = self.free_slices == self.most
        return mask

    def idle(self) -> Floats:
        """The idle share of each card: the lesser of its free shares of memory and core groups."""
        idle: Floats = np.minimum(self.free_mib / self.mib, self.free_cores / self.groups)
        return idle

    def slack(self) -> Ints:
        """The free part of each card, in millionths of a card; memory and core groups are added."""
        slack: Ints = self.free_mib * 10**6 // self.mib + self.free_cores * 10**6 // self.groups
        return slack


class CardStates:
    """Groups cards by equal columns, called states: of thousands of cards most are in one of a few states.

    Finding that nothing fits takes about ten passes over all cards, and a hundredth of that time over all states.
    `code` has the number of each cell's state; state 0 is EMPTY. The number of a state without cards is reused, so
    there are never more states than cards.
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
        """A copy that later changes of this one do not touch."""
        made = copy(self)
        made._codes, made._states = self._codes.copy(), self._states.copy()
        made.code, made._layers = self.code.copy(), self._layers.copy()
        made._count, made._unused = self._count.copy(), self._unused.copy()
        return made

    def columns(self) -> Columns:
        """The states as columns of shape (states,). Valid until a card changes."""
        return Columns(self._layers)

    def frozen(self) -> tuple[Columns, Ints]:
        """A copy of the states' columns and of the code of each cell, which later changes do not touch."""
        if self._frozen is None:
            self._frozen = Columns(self._layers.copy()), self.code.copy()
        return self._frozen

    def move(self, cell: tuple[int, int], state: tuple[int, ...]) -> None:
        """Record that the card of `cell` now has `state`."""
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
    """A versioned record of each node, which the table follows: the ledger, or the measured loads."""

    @property
    def version(self) -> int:
        """Grows with every change."""

    def changed_since(self, version: int) -> Iterator[str]:
        """Nodes that changed after `version`, newest first."""


class Cards(Store, Protocol):
    """The ledger, or a copy of it."""

    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes with an inventory, in order."""

    def node(self, name: str) -> NodeState | None:
        """The state of a node: the free part of its cards and host; None if it has no inventory."""


class NodeTable(Columns):
    """Columns of shape (nodes, most cards of a node), and the free CPU, memory and disk of each node.

    `there` marks the cells that hold a card. `host` is the free CPU (milli), memory and disk (MiB) of each node, and
    `host_most` the amounts that the node has in all; shape (3, nodes). `used`, of shape (2, nodes, cards), is the
    measured use of each card's memory and time, in percent. `kinds` numbers the kinds of cards, `states` groups equal
    cards. `stamp`, of shape (nodes,), grows with every change of a row; `layout` grows when rows are assigned anew.
    `position` is the row of each node by name; it is replaced with each layout and never changed.
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
        """A copy of the table that follows copies of its stores; these must hold what this table has caught up with.

        It copies the arrays and shares immutable values: 2 ms for 5,000 nodes of 8 cards, a hundredth of the time that
        a new table takes.
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
        """The state of a node as of the last refresh; None if it has no inventory."""
        position = self.position.get(name)
        return None if position is None else self._rows[position]

    def cards(self, position: int) -> tuple[CardState, ...]:
        """The cards in a row, in the order of its cells."""
        return self._rows[position].cards

    def chosen(self, nodes: Collection[str]) -> Mask:
        """True for rows of the nodes named in `nodes`; shape (nodes,). Callers must not write to it.

        It needs no lock, and keeps the answer for the latest `nodes`: looking up thousands of names takes long, so it
        is called once before the lock is taken, and again with the lock held.
        """
        # Nearly every decision is offered the nodes of the one before, and comparing the names is several times faster
        # than looking them up. `position` is replaced, never changed, so an answer stays valid for its `position`.
        position = self.position
        found_by, names, known = self._chosen
        if found_by is position and names == nodes:
            return known
        chosen = _marked(position, nodes)
        self._chosen = position, copy(nodes), chosen
        return chosen

    def looked_up(self, nodes: Collection[str]) -> Mask:
        """Like `chosen`, but the answer is not kept: for a few `nodes`, or those of one pod."""
        return _marked(self.position, nodes)

    def with_host(self, asked: HostAmounts) -> Mask:
        """True for nodes with at least `asked` of CPU, memory and disk free; shape (nodes,)."""
        enough: Mask = (self.host[0] >= asked.cpu_milli) & (self.host[1] >= asked.memory_mib)
        if asked.disk_mib:
            enough &= self.host[2] >= asked.disk_mib
        return enough

    def named(self, uuids: Selector) -> Mask:
        """True for cells whose card's uuid the selector accepts; shape (nodes, cards)."""
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
        """Write the row of a node that changed; False if it now has other cards, so that a new layout is needed."""
        state, position = self._ledger.node(name), self.position.get(name)
        if state is None or position is None:
            return state is None and position is None
        known = self._rows[position].cards
        if len(known) != len(state.cards):
            return False
        for slot, (before, after) in enumerate(zip(known, state.cards, strict=True)):
            # After a change of a node's inventory all of its cards have new states, most of them equal to the old.
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
        """Assign rows to all nodes anew and write all of them."""
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
        # The index of each uuid in flattened arrays, and all indexes of a uuid that two nodes claim.
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
    """The layers, of shape (cards,), of cards given as tuples in the order of COLUMNS."""
    return np.array(cards, dtype=np.int64).reshape(-1, len(COLUMNS)).T.copy()


def _left(node: NodeState, state: CardState) -> tuple[int, ...]:
    """The columns of a card before "mib": its free part and its health."""
    return (
        state.free_mib, state.free_cores.bit_count(), state.free_slices,
        node.serving, node.serving and state.open, state.card.cordoned, state.short,
    )  # fmt: skip


def _marked(position: Mapping[str, int], nodes: Collection[str]) -> Mask:
    """True at the positions of `nodes`; shape (nodes,)."""
    # One more element at the end, for names that have no row.
    mask = np.zeros(len(position) + 1, dtype=bool)
    mask[np.fromiter(map(position.get, nodes, repeat(-1)), dtype=np.int64, count=len(nodes))] = True
    return mask[:-1]


def _alike(one: Card, other: Card) -> bool:
    """True if both have one uuid and are of one kind; their health may differ."""
    return one.uuid == other.uuid and Kind.of(one) == Kind.of(other)


class NodeView(Columns):
    """Some rows of a table, columns having the shape (rows, most cards of a node). Valid until the table changes.

    `positions`, ascending, are those of the rows, and `where` indexes them in arrays of shape (nodes, …).
    """

    def __init__(self, table: NodeTable, positions: Ints) -> None:
        self.positions = positions
        # Neighbouring rows are a view of the table's arrays; other rows are copied.
        together = len(positions) and positions[-1] - positions[0] == len(positions) - 1
        self.where: slice | Ints = slice(int(positions[0]), int(positions[-1]) + 1) if together else positions
        super().__init__(table.layers[:, self.where] if together else table.layers.take(positions, axis=1))
        self._table = table
        self.cpu: Ints = table.host[0, self.where]

    @property
    def there(self) -> Mask:
        """True for cells that hold a card."""
        there: Mask = self._table.there[self.where]
        return there

    @property
    def memory(self) -> Ints:
        """The free memory of the nodes' hosts, in MiB; shape (rows,)."""
        memory: Ints = self._table.host[1, self.where]
        return memory

    # A view does not change, so each of these is computed once.
    @cached_property
    def usable(self) -> Mask:
        """True for cards that may get new slices and whose node serves."""
        return super().usable

    @cached_property
    def untouched(self) -> Mask:
        """True for cards of which no slice is held."""
        return super().untouched

    @cached_property
    def gives(self) -> Mask:
        """True for usable cards that can give one more slice."""
        gives: Mask = self.usable & (self.free_slices > 0)
        return gives

    def node_slack(self) -> Floats:
        """The free part of all cards of each node, in millionths of a card; shape (rows,)."""
        slack: Floats = np.where(self.there, self.slack(), 0).sum(axis=1).astype(np.float64)
        return slack

    @property
    def shares(self) -> Floats:
        """The free shares of each node's CPU, memory and disk, 0 to 1; shape (3, rows)."""
        left, most = np.maximum(self._table.host[:, self.where], 0), self._table.host_most[:, self.where]
        shares: Floats = np.where(most > 0, np.minimum(1.0, left / np.maximum(most, 1)), 0.0)
        return shares

    @property
    def amounts(self) -> Floats:
        """The free amounts of each node: CPUs, GiB of memory, GiB of disk; shape (3, rows)."""
        amounts: Floats = np.maximum(self._table.host[:, self.where] / [[1000], [1024], [1024]], 0)
        return amounts

    @property
    def used(self) -> Ints:
        """The measured use of each card's memory and time, in percent; shape (2, rows, cards)."""
        used: Ints = self._table.used[:, self.where]
        return used


class StaleRows:
    """Tells a cache for which rows of the table it has no values yet, or values older than the row."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._layout = -1
        # For each row its stamp when the cache's values were computed.
        self._made: Ints = np.zeros(0, dtype=np.int64)

    def fork(self, table: NodeTable) -> "StaleRows":
        """The stale rows of a copy of the cache, made for a fork of the table."""
        made = copy(self)
        made._table, made._made = table, self._made.copy()
        return made

    def relaid(self) -> bool:
        """True, once, after rows were assigned to other nodes: then all values of the cache are void."""
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
        """The stale rows among `positions`."""
        stale: Ints = positions[self._table.stamp[positions] > self._made[positions]]
        return stale

    def made(self, positions: Ints) -> None:
        """Record that the cache's values for these rows are up to date."""
        self._made[positions] = self._table.stamp[positions]
