"""Prints the lists of commands in the format of -o, in the order of --sort-by, and again after changes.

A table fits 80 columns: bars shrink first, then extra columns are left out, then long texts are cut. Nothing is cut
with `-o wide`, in columns that the user chose, or if the output is not a terminal. Only terminals get colours. Control
characters, which a tenant may have written, are replaced.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from itertools import pairwise
from textwrap import wrap
from typing import Any, Generic, TextIO, TypeVar

import yaml

from device_plugin.cli.printing import formats
from device_plugin.cli.printing.formats import COLUMNS, OBJECTS, PathColumn
from device_plugin.cli.printing.jsonpath import cell
from device_plugin.cli.printing.terminal import BOLD, DIM, YELLOW, Terminal, load_style
from device_plugin.core.errors import VgpuError
from device_plugin.core.printable import printable

Row = TypeVar("Row")

# Characters of a bar, and between two columns of a table.
LONGEST_BAR, SHORTEST_BAR, GAP = 10, 4, 2
SHORTEST_TEXT = 12
# Spaces before the continuation of a line below a row.
BELOW = 8
# Notes of one kind that are printed.
MOST_NOTES = 3
NONE = "<none>"
_UNITS = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))
_GONE, _CHANGED, _NEW = "DELETED", "MODIFIED", "ADDED"


class SortError(VgpuError):
    """--sort-by names no column."""


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a table. `text` returns a row's text, and `key` the value by which rows are sorted (default: text).

    `share` returns a share from 0 to 1, which is drawn as a bar before the text; for None, the bar's place is empty.
    `used` returns the part of the bar that is drawn full, while the rest is lighter; for None, all of the bar is full.
    `wide` columns are shown with `-o wide` only, and `extra` columns only if no text is cut for them. A text is
    coloured if `warning` returns true.
    """

    title: str
    text: Callable[[Row], str]
    key: Callable[[Row], Any] | None = None
    share: Callable[[Row], float | None] | None = None
    used: Callable[[Row], float | None] | None = None
    wide: bool = False
    extra: bool = False
    warning: Callable[[Row], bool] | None = None

    @property
    def word(self) -> str:
        """Returns the name of the column for --sort-by."""
        return self.title.lower().replace(" ", "-")

    def sorted(self, rows: Iterable[Row]) -> list[Row]:
        """Returns the rows in the order of this column."""
        return sorted(rows, key=self.key or self.text)


@dataclass(frozen=True, slots=True)
class Listing(Generic[Row]):
    """A kind of list: its columns, and the object of a row for -o json. `below` returns the lines under a table's row.

    With --watch a row is printed again when `watched(object(row))` changes; by default any change counts.
    """

    plural: str
    columns: Sequence[Column[Row]]
    name: Callable[[Row], str]
    object: Callable[[Row], Mapping[str, Any]]
    below: Callable[[Row], Iterable[str]] = lambda _: ()
    watched: Callable[[Mapping[str, Any]], Any] = lambda found: found

    def named(self, title: str) -> Column[Row]:
        """Returns the column that --sort-by names. Raises SortError."""
        for column in self.columns:
            if column.word == title:
                return column
        raise SortError(f"--sort-by: there is no column {title!r}: write one of {', '.join(self.words())}")

    def without(self, *columns: Column[Row]) -> "Listing[Row]":
        """Returns this kind of list without these columns."""
        return replace(self, columns=[each for each in self.columns if each not in columns])

    def words(self) -> list[str]:
        """Returns the names of the columns for --sort-by."""
        return [column.word for column in self.columns]


def add_arguments(parser: argparse.ArgumentParser, listing: Listing[Any]) -> None:
    """Add the options of every list: -o, --no-headers, --sort-by and -w."""
    parser.add_argument(
        "-o", "--output", type=partial(formats.checked, items=listing.plural), metavar=formats.METAVAR,
        help="more columns, your own, or for programs",
    )  # fmt: skip
    parser.add_argument("--no-headers", action="store_true", help="a table without its titles")
    parser.add_argument(
        "--sort-by",
        metavar="COLUMN",
        help=f"{', '.join(listing.words())}; with - before it the other way round",
    )
    parser.add_argument("-w", "--watch", action="store_true", help="then print each row that changes")


def add_selector(parser: argparse.ArgumentParser, of: str) -> None:
    """Add the option --selector; `of` is the plural of the objects that it selects, such as `pods`, for the help."""
    parser.add_argument(
        "-l", "--selector", default="", metavar="LABELS", help=f"only {of} with these labels, a=b,c!=d"
    )


def _all_printable(texts: list[str]) -> list[str]:
    return texts if "".join(texts).isprintable() else [printable(text) for text in texts]


class ListPrinter(Generic[Row]):
    """Prints the rows of a list in the format of the options, and later the rows that changed."""

    def __init__(
        self, args: argparse.Namespace, listing: Listing[Row], out: TextIO | None = None,
        terminal: Terminal | None = None,
    ) -> None:  # fmt: skip
        """`terminal` has the properties of `out`; if None, they are read from `out`.

        Raises SortError if --sort-by names no column.
        """
        self._out = out or sys.stdout
        chosen = formats.format_of(args.output or "", listing.plural)
        self._format, self._template = chosen.name, chosen.template
        self._listing = listing
        self._columns: Sequence[Column[Any]] = (
            [*map(_column, chosen.columns)]
            if chosen.columns
            else [each for each in listing.columns if not each.wide or self._format == "wide"]
        )
        self._headers = not args.no_headers
        order = args.sort_by or ""
        self._backwards = order.startswith("-")
        self._order = listing.named(order.lstrip("-")) if order else None
        self._terminal = terminal or Terminal.of(self._out)
        # 0 where nothing is cut.
        self._width = 0 if self._format in ("wide", COLUMNS) else self._terminal.width
        self._bars: dict[tuple[int, float, float | None], str] = {}
        self._widths: list[int] = []
        self._bar = LONGEST_BAR
        self._shown: dict[str, Mapping[str, Any]] = {}

    def show(self, rows: Iterable[Row], beside: Mapping[str, Any] | None = None, empty: str = "") -> None:
        """Print all rows. `beside` has further keys for -o json, and `empty` is the text in place of an empty table."""
        listed = self.ordered(rows)
        if self._format in OBJECTS:
            self._write([as_text(self._whole(listed, beside or {}), self._format)])
        elif self._template is not None:
            self._out.write(self._template.text(self._whole(listed, beside or {})))
        elif self._format == "name":
            self._write(_all_printable([self._listing.name(row) for row in listed]))
        elif not listed:
            print(empty or f"no {self._listing.plural}", file=sys.stderr)
        else:
            self._write_table(listed, header=True)

    def remember(self, rows: Iterable[Row]) -> None:
        """Remember these rows as the rows that were shown last."""
        self._shown = {self._listing.name(row): self._listing.object(row) for row in rows}

    def show_changes(self, rows: Iterable[Row]) -> None:
        """Print the rows that are new or differ from the rows shown before, and the names of rows that are gone."""
        before, listed = self._shown, self.ordered(rows)
        self.remember(listed)
        gone = [name for name in before if name not in self._shown]
        changed = [row for row in listed if self._differs(row, before.get(self._listing.name(row)))]
        if self._format in OBJECTS:
            for row in changed:
                type_ = _CHANGED if self._listing.name(row) in before else _NEW
                self._write_event(type_, self._listing.object(row))
            for name in gone:
                self._write_event(_GONE, before[name])
        elif self._template is not None:
            self._out.write(self._template.text(self._whole(changed, {})) if changed else "")
        elif self._format == "name":
            self._write(_all_printable([self._listing.name(row) for row in changed]))
        else:
            self._write_table(changed, header=not self._widths)
            self._write(f"{printable(name)} is gone" for name in gone)
        self._out.flush()

    def _differs(self, row: Row, before: Mapping[str, Any] | None) -> bool:
        """True if the row is new, or its watched part differs from `before`."""
        watched = self._listing.watched
        return before is None or bool(watched(self._listing.object(row)) != watched(before))

    def ordered(self, rows: Iterable[Row]) -> list[Row]:
        """Returns the rows in the order of --sort-by; without the option, in the given order."""
        listed = self._order.sorted(rows) if self._order is not None else [*rows]
        return listed[::-1] if self._backwards else listed

    def _write(self, lines: Iterable[str]) -> None:
        self._out.writelines([f"{line}\n" for line in lines])

    def _whole(self, rows: Iterable[Row], beside: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the object of -o json: a list of these rows, and the further keys `beside`."""
        return {self._listing.plural: [self._listing.object(row) for row in rows], **beside}

    def _write_event(self, type_: str, value: Mapping[str, Any]) -> None:
        event = {"type": type_, "object": value}
        self._write([json.dumps(event)] if self._format == "json" else ["---", as_text(event, self._format)])

    def _write_table(self, rows: Sequence[Row], *, header: bool) -> None:
        if not rows:
            return
        own = self._format == COLUMNS
        shown: Sequence[Any] = [self._listing.object(row) for row in rows] if own else rows
        # By column, because a table may have 40,000 rows.
        texts = [_all_printable([column.text(row) for row in shown]) for column in self._columns]
        if header:
            texts = self._fitting(texts)
            self._fit([max(map(len, column)) for column in texts])
            titles = [column.title.ljust(w) for column, w in zip(self._columns, self._widths, strict=True)]
            self._write([self._painted("".join(titles).rstrip(), BOLD)] if self._headers else [])
        columns = zip(self._columns, texts, self._widths, strict=True)
        cells = [self._cells(column, shown, its, width) for column, its, width in columns]
        lines = list[str]()
        for row, line in zip(rows, zip(*cells, strict=True), strict=True):
            lines.append("".join(line).rstrip())
            for below in () if own else self._listing.below(row):
                lines += [self._painted(part, DIM) for part in self._wrapped(printable(below))]
        self._write(lines)

    def _wrapped(self, line: str) -> list[str]:
        """Returns the line under a row, broken into several lines if the terminal is too narrow."""
        if not self._width or len(line) <= self._width:
            return [line]
        indent = " " * min(BELOW, self._width // 2)
        return wrap(line, self._width, subsequent_indent=indent, break_on_hyphens=False)

    def _widths_with(self, bar: int, longest: Sequence[int]) -> list[int]:
        """Returns the width of each column with bars of the length `bar`.

        `longest` has the length of the longest text of each column.
        """
        return [
            max(len(column.title) * self._headers, size + (bar + 1 if column.share else 0)) + GAP
            for column, size in zip(self._columns, longest, strict=True)
        ]

    def _fitting(self, texts: list[list[str]]) -> list[list[str]]:
        """Returns the texts by column; leaves out extra columns if a row does not fit the terminal with short bars."""
        longest = [max(map(len, column)) for column in texts]
        if self._width and sum(self._widths_with(SHORTEST_BAR, longest)) - GAP > self._width:
            kept = [number for number, column in enumerate(self._columns) if not column.extra]
            self._columns = [self._columns[number] for number in kept]
            return [texts[number] for number in kept]
        return texts

    def _fit(self, longest: Sequence[int]) -> None:
        """Choose the width of each column, with the gap after it, so that a row fits the terminal.

        `longest` has the length of the longest text of each column.
        """
        bars = sum(column.share is not None for column in self._columns)

        self._bar, self._widths = LONGEST_BAR, self._widths_with(LONGEST_BAR, longest)
        if not self._width:
            return
        while bars and self._bar > SHORTEST_BAR and sum(self._widths) - GAP > self._width:
            self._bar -= 1
            self._widths = self._widths_with(self._bar, longest)
        texts = [i for i, column in enumerate(self._columns) if not column.share]
        while sum(self._widths) - GAP > self._width:
            widest = max(texts, key=lambda i: self._widths[i], default=-1)
            if widest < 0 or self._widths[widest] <= SHORTEST_TEXT + GAP:
                return
            self._widths[widest] -= 1

    def _cells(self, column: Column[Any], rows: Sequence[Any], texts: Sequence[str], width: int) -> list[str]:
        """Returns the cells of a column, each cut or filled to `width` characters."""
        if (share := column.share) is not None:
            rest = width - self._bar - 1
            used = column.used or (lambda _: None)
            shown = zip(rows, texts, strict=True)
            return [f"{self._drawn(share(row), used(row))} {text.ljust(rest)}" for row, text in shown]
        if self._width:
            texts = [
                t if len(t) <= width - GAP else t[: width - GAP - 1] + "\N{HORIZONTAL ELLIPSIS}"
                for t in texts
            ]
        cells = [text.ljust(width) for text in texts]
        if (warning := column.warning) is not None and self._terminal.colour:
            shown = zip(rows, cells, strict=True)
            return [self._painted(cell, YELLOW) if warning(row) else cell for row, cell in shown]
        return cells

    def _drawn(self, share: float | None, used: float | None = None) -> str:
        if share is None:
            # The text beside it says what is not known.
            return " " * self._bar
        # Of 40,000 rows most have one of a few shares.
        key = self._bar, share, used
        if (drawn := self._bars.get(key)) is None:
            drawn = self._bars[key] = self._terminal.bar(share, self._bar, load_style(share), used)
        return drawn

    def _painted(self, text: str, colour: str) -> str:
        return self._terminal.painted(text, colour)


def _column(chosen: PathColumn) -> Column[Mapping[str, Any]]:
    """Returns a column of an object's values at a path, with NONE if there are none."""
    return Column(chosen.title, lambda found: cell(chosen.path, found) or NONE)


def as_text(value: Mapping[str, Any], form: str) -> str:
    """Returns the value as text in the format `form`, one of OBJECTS."""
    if form == "json":
        return json.dumps(value, indent=2)
    text: str = yaml.dump(value, Dumper=_DUMPER, sort_keys=False)
    return text.rstrip()


def note(lines: Sequence[str]) -> None:
    """Print remarks on a list on stderr, at most MOST_NOTES lines."""
    for line in lines[:MOST_NOTES]:
        print(printable(line), file=sys.stderr)
    if len(lines) > MOST_NOTES:
        print(f"and {len(lines) - MOST_NOTES} more: see -o json", file=sys.stderr)


@lru_cache(4096)
def in_gib(mib: float) -> str:
    """Returns MiB as text in GiB, with at most one digit after the point: 4092 MiB is `4`."""
    return f"{mib / 1024:.1f}".removesuffix(".0")


def in_percent(share: float | None) -> str:
    """Returns a share as text in whole percent, `25%`; a question mark if it is not known."""
    return "?" if share is None else f"{share * 100:.0f}%"


def age(seconds: float) -> str:
    """Returns a time as kubectl shows ages, with at most two units: 90 seconds are `1m30s`."""
    left = max(0, int(seconds))
    for (unit, size), (smaller, part) in pairwise(_UNITS):
        if left >= size:
            few = left % size // part
            return f"{left // size}{unit}" + (f"{few}{smaller}" if few else "")
    return f"{left}s"


def age_since(created: str, now: float) -> str:
    """Returns the time from `created` (in RFC 3339) to `now` in the form of `age`, such as `1m30s`.

    Returns `<none>` if `created` is empty or malformed.
    """
    if not created:
        return NONE
    try:
        return age(now - datetime.fromisoformat(created.replace("Z", "+00:00")).timestamp())
    except (ValueError, OverflowError):  # somebody wrote it by hand
        return NONE


_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
