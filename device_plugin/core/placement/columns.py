"""Columns: what is known of many cards at once, as arrays of one shape."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from device_plugin.core.cards import Card

Rows = NDArray[np.bool_]
Numbers = NDArray[np.int64]
Values = NDArray[np.float64]

COUNTS = (
    "free_mib",
    "free_cores",
    "free_slices",
    "mib",
    "units",
    "groups",
    "most",
    "kind",
    "serving",
    "usable",
    "cordoned",
    "short",
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


def packed(cards: Sequence[Sequence[int]]) -> Numbers:
    """A table of cards, each given by its numbers in the order of COUNTS; shape (COUNTS, cards)."""
    return np.array(cards, dtype=np.int64).reshape(-1, len(COUNTS)).T


class Columns:
    """Cards as arrays, all of the shape of `table[0]`; `table` has a layer for each of COUNTS.

    `free_cores` is a number; `kind` indexes the kinds of the index.
    """

    def __init__(self, table: Numbers) -> None:
        self.table = table
        self.free_mib: Numbers = table[0]
        self.free_cores: Numbers = table[1]
        self.free_slices: Numbers = table[2]
        self.mib: Numbers = table[3]
        self.units: Numbers = table[4]
        self.groups: Numbers = table[5]
        self.most: Numbers = table[6]
        self.kind: Numbers = table[7]

    @property
    def serving(self) -> Rows:
        """Where the card's node serves."""
        rows: Rows = self.table[8] == 1
        return rows

    @property
    def usable(self) -> Rows:
        """Where the card may get new slices and its node serves."""
        rows: Rows = self.table[9] == 1
        return rows

    @property
    def cordoned(self) -> Rows:
        """Where somebody has cordoned the card."""
        rows: Rows = self.table[10] == 1
        return rows

    @property
    def short(self) -> Rows:
        """Where the card has less than its holders were granted."""
        rows: Rows = self.table[11] == 1
        return rows

    @property
    def untouched(self) -> Rows:
        """Where nobody holds any of the card."""
        rows: Rows = self.free_slices == self.most
        return rows

    def idle(self) -> Values:
        """The share of each card that is of use to somebody: the lesser of its free memory and core groups."""
        idle: Values = np.minimum(self.free_mib / self.mib, self.free_cores / self.groups)
        return idle

    def slack(self) -> Numbers:
        """What is free of each card, in millionths, memory and core groups added."""
        slack: Numbers = self.free_mib * 10**6 // self.mib + self.free_cores * 10**6 // self.groups
        return slack
