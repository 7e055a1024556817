"""A table on a full screen; keys change the order of its rows, the filter, and the first row that is shown."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Generic, TypeVar

from device_plugin.cli.live import screen
from device_plugin.cli.printing.output import Column, Listing, ListPrinter
from device_plugin.cli.printing.terminal import BOLD, DIM, YELLOW, Terminal
from device_plugin.core.printable import printable

Row = TypeVar("Row")
# Most characters of a namespace.
MOST_TYPED = 63
# Lines for the title, the header of the table, the notes and the keys.
AROUND = 4
# Columns of the table, and lines of a screen, for which a view is drawn at least.
NARROWEST, LOWEST = 20, AROUND + 1


@dataclass(frozen=True, slots=True)
class Frame(Generic[Row]):
    """The rows of a list as of now. `note` says which data is not known, and `lost` that a connection is lost."""

    rows: Sequence[Row] = ()
    note: str = ""
    lost: str = ""


class LiveView(Generic[Row]):
    """A person's view of a list: the order of its rows, the filter, and the first row that is shown.

    `namespace` returns the namespace of a row; it is None if all rows are of one namespace.
    """

    def __init__(
        self, title: str, listing: Listing[Row], order: Column[Row], empty: str,
        namespace: Callable[[Row], str] | None = None,
    ) -> None:  # fmt: skip
        self._title = title
        self._listing = listing
        self._columns = [column for column in listing.columns if not column.wide]
        self._order = order
        self._empty = empty
        self._namespace = namespace
        self._filter = ""
        self._typed: str | None = None
        self._first = 0
        # Rows on the screen, and rows in all, when it was drawn last.
        self._page = self._count = 1

    def press(self, key: str) -> bool:
        """Apply a key; returns false for the key that ends the view."""
        if self._typed is not None:
            self._type(key, self._typed)
        elif key == "q":
            return False
        elif key == "s":
            at = self._columns.index(self._order) if self._order in self._columns else -1
            self._order = self._columns[(at + 1) % len(self._columns)]
        elif key == "n" and self._namespace is not None:
            self._typed = self._filter
        else:
            self._scroll(key)
        return True

    def _type(self, key: str, typed: str) -> None:
        if key == screen.ENTER:
            self._filter, self._typed, self._first = typed, None, 0
        elif key == screen.ESCAPE:
            self._typed = None
        elif key == screen.ERASE:
            self._typed = typed[:-1]
        elif len(key) == 1 and len(typed) < MOST_TYPED:
            self._typed = typed + key

    def _scroll(self, key: str) -> None:
        last = max(self._count - self._page, 0)
        steps = {
            "j": 1, screen.DOWN: 1, "k": -1, screen.UP: -1, " ": self._page,
            screen.PAGE_DOWN: self._page, screen.PAGE_UP: -self._page,
            "g": -last, screen.TOP: -last, "G": last, screen.BOTTOM: last,
        }  # fmt: skip
        self._first = min(max(self._first + steps.get(key, 0), 0), last)

    def lines(self, frame: Frame[Row], terminal: Terminal, height: int) -> list[str]:
        """Returns the lines of the screen: `height` at most, each of the terminal's width unless it is very narrow."""
        shown = self._shown(frame.rows)
        self._page, self._count = max(height, LOWEST) - AROUND, len(shown)
        self._first = min(self._first, max(len(shown) - self._page, 0))
        page = shown[self._first : self._first + self._page]
        found = [terminal.painted(self._cut(self._headline(len(page)), terminal), BOLD)]
        found += self._table(page, terminal) if page else [self._cut(self._empty, terminal)]
        found += [""] * (height - len(found) - 2)
        note, style = (frame.lost, YELLOW) if frame.lost else (frame.note, DIM)
        found += [terminal.painted(self._cut(note, terminal), style)]
        found += [self._cut(self._last_line(), terminal)]
        return found[:height]

    def _shown(self, rows: Sequence[Row]) -> list[Row]:
        if self._namespace is not None and self._filter:
            rows = [row for row in rows if self._filter in self._namespace(row)]
        found = self._order.sorted(rows)
        # Numbers are sorted with the largest first, texts by the alphabet.
        return found[::-1] if self._order.key is not None else found

    def _table(self, page: Sequence[Row], terminal: Terminal) -> list[str]:
        out = StringIO()
        options = argparse.Namespace(output=None, sort_by=None, no_headers=False)
        ListPrinter(options, self._listing, out, terminal).show(page)
        return out.getvalue().splitlines()

    def _headline(self, count: int) -> str:
        rows = f"{self._first + 1}-{self._first + count} of {self._count}" if count else "0"
        within = f"  namespace {self._filter}" if self._filter else ""
        return f"{self._title}  {rows}{within}  by {self._order.title.lower()}"

    def _last_line(self) -> str:
        if self._typed is not None:
            return f"namespace contains: {self._typed}_   (Enter: show, Esc: back, empty: all)"
        names = "  n namespace" if self._namespace is not None else ""
        return f"q quit  ↑↓ j k scroll  s sort{names}"

    @staticmethod
    def _cut(text: str, terminal: Terminal) -> str:
        return printable(text[: max(terminal.width, NARROWEST)])
