"""Reads the value of -o: a name such as `wide`, or `custom-columns=` or `jsonpath=` with an expression."""

import re
from argparse import ArgumentTypeError
from typing import NamedTuple

from device_plugin.cli.printing.jsonpath import MOST_CHARACTERS, JsonPathError, Path, Template, path_of
from device_plugin.core.errors import VgpuError

OBJECTS = ("json", "yaml")
COLUMNS, JSONPATH = "custom-columns", "jsonpath"
# The formats without an expression.
NAMES = ("wide", *OBJECTS, "name")
METAVAR = f"{'|'.join(NAMES)}|{COLUMNS}=...|{JSONPATH}=..."
# A column, up to a comma that is not in brackets.
_COLUMN = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")


class FormatError(VgpuError):
    """The value of -o is no format; the text says what to write."""


class PathColumn(NamedTuple):
    """A column of `-o custom-columns`: its title, and the path of its values in an object."""

    title: str
    path: Path


class Format(NamedTuple):
    """A format of a list. `name` is empty for the table with the usual columns."""

    name: str = ""
    columns: tuple[PathColumn, ...] = ()
    template: Template | None = None


def format_of(text: str, items: str) -> Format:
    """Returns the format that -o names; `items` is the list's key in -o json. Raises FormatError, JsonPathError."""
    name, _, expression = text.partition("=")
    if text in ("", *NAMES):
        return Format(text)
    if name not in (COLUMNS, JSONPATH):
        raise FormatError(
            f"{text[:80]!r} is no format: write {', '.join(NAMES)}, {COLUMNS}=... or {JSONPATH}=..."
        )
    if not expression:
        example = "NAME:.name" if name == COLUMNS else f"'{{.{items}[*].name}}'"
        raise FormatError(f"{name} needs an expression, such as {name}={example}")
    if name == JSONPATH:
        return Format(name, template=Template.of(expression, items))
    if len(expression) > MOST_CHARACTERS:
        raise FormatError(f"{name}: write at most {MOST_CHARACTERS:,} characters")
    return Format(name, tuple(map(_column, _COLUMN.findall(expression))))


def _column(text: str) -> PathColumn:
    title, _, path = text.partition(":")
    if not title.strip() or not path.strip():
        raise FormatError(f"{COLUMNS}: {text[:80]!r} is no column: write TITLE:.path, such as NAME:.name")
    return PathColumn(title.strip(), path_of(path.strip()))


def checked(text: str, items: str) -> str:
    """Returns the text of -o if it is a format; else raises ArgumentTypeError. `items` is the list's key in -o json."""
    try:
        format_of(text, items)
    except (FormatError, JsonPathError) as error:
        raise ArgumentTypeError(str(error)) from error
    return text
