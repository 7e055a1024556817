"""Cards grouped by state: of thousands of cards most are alike, and what holds of one holds of all of its state.

To find out that nothing fits takes some ten looks at every card. A look at every state takes a hundredth of that.
"""

from collections.abc import Sequence

import numpy as np

from device_plugin.core.placement.columns import COUNTS, Columns, Numbers, packed

State = tuple[int, ...]
"""The numbers of a card in the order of COUNTS."""
# What is in the table where no card has the state: nothing is usable, and nothing is divided by zero.
_NO_CARD = tuple(0 if name in ("kind", "serving", "usable", "cordoned", "short") else 1 for name in COUNTS)


class CardStates:
    """`code`, of shape (cards,), is the number of each card's state; `count`, of shape (states,), how many have it.

    A number that no card has any more is given to the next new state, so there are never more than cards.
    """

    def __init__(self, cards: Sequence[State]) -> None:
        self._codes: dict[State, int] = {}
        self._unused: list[int] = []
        self.code: Numbers = np.array(
            [self._codes.setdefault(card, len(self._codes)) for card in cards], dtype=np.int64
        )
        self._states = [*self._codes]
        self._table: Numbers = packed(self._states)
        self.count: Numbers = np.bincount(self.code, minlength=len(self._codes))
        self._copied: tuple[Columns, Numbers] | None = None

    def columns(self) -> Columns:
        """The states as columns of shape (states,). Valid until a card changes."""
        return Columns(self._table)

    def copied(self) -> tuple[Columns, Numbers]:
        """Columns of the states and the code of each card, as they are now and stay."""
        if self._copied is None:
            self._copied = Columns(self._table.copy()), self.code.copy()
        return self._copied

    def move(self, row: int, state: State) -> None:
        """The card of this row has another state now."""
        self._copied = None
        before = int(self.code[row])
        self.count[before] -= 1
        if not self.count[before]:
            del self._codes[self._states[before]]
            self._table[:, before] = _NO_CARD
            self._unused.append(before)
        code = self._codes.get(state)
        if code is None:
            code = self._codes[state] = self._new()
            self._states[code], self._table[:, code] = state, state
        self.code[row] = code
        self.count[code] += 1

    def _new(self) -> int:
        if not self._unused:
            known = len(self.count)
            more = max(16, known)
            self._states += [_NO_CARD] * more
            self._table = np.concatenate((self._table, np.array([_NO_CARD] * more).T), axis=1)
            self.count = np.concatenate((self.count, np.zeros(more, dtype=np.int64)))
            self._unused = list(range(known, known + more))
        return self._unused.pop()
