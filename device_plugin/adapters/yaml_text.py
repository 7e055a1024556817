"""Reads YAML that people write. A malformed or too costly text raises an error with one sentence.

A file of 300 bytes whose aliases name one another can stand for gigabytes ("billion laughs"), or have no end. So the
parser's events are counted before a value is made; a text has no more events than characters.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import yaml

from device_plugin.core.errors import VgpuError
from device_plugin.core.printable import one_line

# Most characters, documents and levels of a text, and most values and characters of it with its aliases written out:
# people write less.
MOST_CHARACTERS = 4 << 20
MOST_DOCUMENTS = 1000
MOST_DEPTH = 100
MOST_EXPANDED = 16 << 20
# A reader in C, 20 times as fast as the one in Python. It overflows the stack of a text that is nested deeply, and
# refuses some escapes that JSON has.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The errors of PyYAML's readers. Most are about a value that does not fit its tag: `!!int x`, `2001-99-99`.
_UNREADABLE = (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
# The name that PyYAML gives to the text in its errors.
_PLACE = re.compile(r' in "<[a-z ]+ string>", ')


class NotYamlError(VgpuError):
    """The text is not YAML, or is beyond a bound; the message says where and why.

    Cure: correct the line.
    """


class YamlFileError(VgpuError):
    """A file cannot be read, or is not YAML.

    Cure: try the file with `kubectl apply --dry-run=client -f FILE`, which says where it is wrong.
    """


def parse(text: str) -> Any:
    """The one document of the text, as a mapping, a list or a value. Raises NotYamlError."""
    try:
        _check_cost(text, _LOADER)
        return yaml.load(text, Loader=_LOADER)  # noqa: S506 - a safe loader
    except _UNREADABLE as error:
        raise NotYamlError(_problem(error)) from None


def events(text: str) -> Iterator[yaml.Event]:
    """PyYAML's events for the text, each with its place in it. Raises NotYamlError, and the errors of its parser."""
    return _counted(text, _LOADER)


def _values(text: str) -> Iterator[Any]:
    _check_cost(text, yaml.SafeLoader)
    yield from yaml.safe_load_all(text)


def read(file: str, load: Callable[[str], Iterable[Any]] = _values) -> list[Any]:
    """The documents of a file, `-` for standard input. Raises YamlFileError.

    `load` reads the documents from the text; by default they become mappings, lists and values.
    """
    try:
        return list(load(_text(file)))
    except OSError as error:
        raise YamlFileError(f"{file} cannot be read: {error.strerror}") from error
    except NotYamlError as error:
        raise YamlFileError(f"{file}: {error}") from error
    except _UNREADABLE as error:
        raise YamlFileError(f"{file} is not YAML: {_problem(error)}") from error


def _text(file: str) -> str:
    """The text of a file, with its line ends: UTF-8, as in Kubernetes, whatever the encoding of the terminal is."""
    if file == "-":
        opened = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="")
        try:
            text = opened.read(MOST_CHARACTERS + 1)
        finally:
            opened.detach()  # else it would close stdin
    else:
        with Path(file).open(encoding="utf-8", newline="") as lines:
            text = lines.read(MOST_CHARACTERS + 1)
    _check_length(text)
    return text


def _problem(error: Exception) -> str:
    """The place and the reason of an error, as a sentence. `error` is one of the exceptions in _UNREADABLE."""
    if isinstance(error, UnicodeDecodeError):
        return "it is not text"
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    line = f"line {mark.line + 1}: " if mark is not None else ""
    return line + one_line(_PLACE.sub(" at ", str(problem or error)))


@dataclass(slots=True)
class _Part:
    """A list or mapping: its anchor, its size with aliases written out, and the number of levels below it."""

    anchor: str | None = None
    size: int = 1
    levels: int = 0


class _Cost:
    """The size and depth of a text, counted from its events, with its aliases written out."""

    def __init__(self) -> None:
        self._documents = 0
        self._parts = [_Part()]  # those that are open, the whole text first
        self._known: dict[str | None, tuple[int, int]] = {}  # size and levels, by anchor

    def add(self, event: yaml.Event) -> None:
        """Count the documents, levels and characters that the next event adds."""
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
            case yaml.CollectionStartEvent(anchor=anchor):
                self._parts.append(_Part(anchor))
                self._known[anchor] = MOST_EXPANDED, 0  # a part that holds itself has no end
            case yaml.CollectionEndEvent():
                part = self._parts.pop()
                self._hold(part.anchor, part.size, part.levels + 1)
            case yaml.ScalarEvent(anchor=anchor, value=value):
                self._hold(anchor, len(value) + 1, 0)
            case yaml.AliasEvent(anchor=anchor):
                self._hold(anchor, *self._known.get(anchor, (0, 0)))

    def _hold(self, anchor: str | None, size: int, levels: int) -> None:
        self._known[anchor] = size, levels
        part = self._parts[-1]
        part.size += size
        part.levels = max(part.levels, levels)

    def check(self) -> None:
        """Raise NotYamlError if the text is beyond a bound."""
        part = self._parts[-1]
        if self._documents > MOST_DOCUMENTS:
            raise NotYamlError(f"it has more than {MOST_DOCUMENTS} documents: split it")
        if len(self._parts) + part.levels > MOST_DEPTH + 1:
            raise NotYamlError(f"it is nested deeper than {MOST_DEPTH} levels")
        if part.size > MOST_EXPANDED:
            raise NotYamlError(f"its aliases stand for more than {MOST_EXPANDED} characters: write them out")


def _check_cost(text: str, loader: Any) -> None:
    """Raise NotYamlError for a text beyond a bound. For a text that is not YAML, `loader` raises its own error."""
    for _ in _counted(text, loader):
        pass


def _counted(text: str, loader: Any) -> Iterator[yaml.Event]:
    """The events of the text, each checked against the bounds before it is returned. Raises NotYamlError."""
    _check_length(text)
    cost = _Cost()
    for event in yaml.parse(text, Loader=loader):
        cost.add(event)
        cost.check()
        yield event


def _check_length(text: str) -> None:
    if len(text) > MOST_CHARACTERS:
        raise NotYamlError(f"it is longer than {MOST_CHARACTERS} characters: split it")
