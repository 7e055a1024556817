"""Cards as columns: arrays with one element for each card, and the states and kinds that many cards share.

Placement compares whole columns with one operation, which is faster than walking over objects.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.contract.cards import Card

Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Places = NDArray[np.unsignedinteger[Any]]
"""Indexes of cards in their rows."""

COLUMNS = (
    "free_mib", "free_cores", "free_slices", "serving", "usable", "cordoned", "short",
    "mib", "units", "groups", "most", "kind",
)  # fmt: skip
"""The columns, in the order of a table's layers. The columns from "mib" on are equal for all cards of one kind."""
NO_KIND = -1
# The columns of a cell without a card: it is never usable, and no division by its values fails.
EMPTY = tuple(
    {"kind": NO_KIND, "serving": 0, "usable": 0, "cordoned": 0, "short": 0}.get(c, 1) for c in COLUMNS
)


class CardKind(NamedTuple):
    """The properties that cards of one kind share; to placement they differ only in uuid, health and free part."""

    family: str
    model: str
    mem_mib: int
    units: int
    groups: int
    slices: int

    @classmethod
    def of(cls, card: Card) -> "CardKind":
        """The kind of this card: its properties other than uuid, health and free part."""
        return cls(card.family, card.model, card.mem_mib, card.units, card.core_groups, card.max_slices)

    def numbers(self, number: int) -> tuple[int, ...]:
        """The values of each card of this kind in the columns from "mib" on; `number` is the number of the kind."""
        return self.mem_mib, self.units, self.groups, self.slices, number


def kinds_where(kinds: Collection[CardKind], accepts: Callable[[CardKind], bool]) -> Mask:
    """An array with True for the kinds that `accepts` accepts; shape (kinds + 1,).

    The last element stands for NO_KIND, a cell without a card, and is False.
    """
    return np.array([*map(accepts, kinds), False], dtype=bool)


class Columns:
    """Cards as arrays of equal shape: `layers` has one array for each of COLUMNS, such as the free memory.

    `free_cores` is the number of free core groups.
    """

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
    def free(cls, kinds: Sequence[CardKind]) -> "Columns":
        """Columns with one free, usable card of each kind; shape (kinds,)."""
        return cls(packed([
            (k.mem_mib, k.groups, k.slices, 1, 1, 0, 0, *k.numbers(number)) for number, k in enumerate(kinds)
        ]))  # fmt: skip

    @property
    def serving(self) -> Mask:
        """True for cards of nodes whose agent serves Allocate."""
        return self.layers[3] == 1

    @property
    def usable(self) -> Mask:
        """True for cards that may get new slices, of nodes whose agent serves Allocate."""
        return self.layers[4] == 1

    @property
    def cordoned(self) -> Mask:
        """True for cordoned cards."""
        return self.layers[5] == 1

    @property
    def short(self) -> Mask:
        """True for cards that report less memory, core groups or slices than is held of them."""
        return self.layers[6] == 1

    @property
    def untouched(self) -> Mask:
        """True for cards of which no slice is held."""
        return self.free_slices == self.most

    def idle(self) -> Floats:
        """The idle share of each card: the lesser of its free shares of memory and core groups."""
        return np.minimum(self.free_mib / self.mib, self.free_cores / self.groups)

    def slack(self) -> Ints:
        """The free part of each card, in millionths of a card; memory and core groups are added."""
        return self.free_mib * 10**6 // self.mib + self.free_cores * 10**6 // self.groups


class CardStates:
    """Groups cards with equal columns into states: thousands of cards have few different states.

    Finding that nothing fits takes about ten passes over all cards; over all states it takes a hundredth of the time.
    `code` holds the number of the state of each cell (place of a card); state 0 is EMPTY, no card. The number of a
    state without cards is reused, so there are never more states than cards.
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self._codes: dict[tuple[int, ...], int] = {EMPTY: 0}
        self.code: Ints = np.zeros(shape, dtype=np.int64)
        self._states = [EMPTY]
        self._layers: Ints = packed(self._states)
        self._count = [self.code.size]
        self._unused: list[int] = []
        self._frozen: tuple[Columns, Ints, Ints] | None = None

    def columns(self) -> Columns:
        """The columns of all states (sets of cards with equal columns); shape (states,).

        They are valid until a card changes.
        """
        return Columns(self._layers)

    def frozen(self) -> tuple[Columns, Ints, Ints]:
        """Copies: the columns of the states (sets of equal cards), each cell's state, and the sizes of the states.

        A cell is the place of a card; the size of a state is the number of cells in it.
        """
        if self._frozen is None:
            count = np.array(self._count, dtype=np.int64)
            self._frozen = Columns(self._layers.copy()), self.code.copy(), count
        return self._frozen

    def assign_rows(self, origin: Ints) -> None:
        """Give each row (node) the cells of the earlier row that `origin` names for it; -1 stands for empty cells.

        The cells of an earlier row that is not named must be empty.
        """
        self._frozen = None
        self.code = np.where(origin[:, None] < 0, 0, self.code.take(origin, axis=0))
        self._count[0] += self.code.size - sum(self._count)

    def move(self, cell: tuple[int, int], state: tuple[int, ...]) -> None:
        """Record that the card in this `cell` (place of a card) is in `state` now; a state without cards is dropped."""
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


def packed(cards: Sequence[Sequence[int]]) -> Ints:
    """The cards as an array of shape (columns, cards), a layer for each of COLUMNS.

    Each of `cards` is given as a tuple of values in the order of COLUMNS.
    """
    return np.array(cards, dtype=np.int64).reshape(-1, len(COLUMNS)).T.copy()
