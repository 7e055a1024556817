"""Holds the page's entries with versions: each browser gets the entries that changed since it last asked.

No queue is kept for a browser. A slow browser gets only the newest value of each entry, so that any number of changes
takes no more memory than the entries.
"""

import json
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from device_plugin.cli.ui.spaces import PUBLIC, Space, Spaces, spaces_of

# Removed entries that are remembered, so that browsers learn of the removal; a slower browser loads all entries again.
MOST_REMOVED = 1000
Name = tuple[str, str]
"""The kind of an entry, such as `node`, and its key among the entries of this kind."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Texts of the page's changed entries (objects), as of `version`. If `anew` is true, the texts replace all entries.

    `spaces` has, for each text, the spaces (pods or Jobs of a namespace) that a person must be allowed to list to see
    the entry.
    """

    version: int
    anew: bool
    texts: Iterable[str]
    spaces: Sequence[Spaces] = field(default=(), compare=False)


class _Entry(NamedTuple):
    """One entry of the page, as text, last changed in `version`."""

    version: int
    text: str
    spaces: Spaces


class PageEntries:
    """Holds the page's entries (objects that it shows), each as JSON `[kind, key, value]`. Any thread may use it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # Newest change last. The value of a removed entry is null.
        self._entries: dict[Name, _Entry] = {}
        self._removed: dict[Name, None] = {}
        # How many entries are about each space; `_spaces` is None if it must be made again.
        self._uses = Counter[Space]()
        self._spaces: Spaces | None = None
        self._version = 0
        self._forgotten = 0

    def put(self, kind: str, values: Mapping[str, object]) -> None:
        """Set the page's entries of a kind; the value None removes one. A value equal to the old one is no change."""
        made = {
            key: None if value is None else (_text(kind, key, value), spaces_of(kind, key, value))
            for key, value in values.items()
        }
        with self._changed:
            before = self._version
            for key, entry in made.items():
                self._set((kind, key), entry)
            if self._version != before:
                self._changed.notify_all()

    def replace(self, kind: str, values: Mapping[str, object]) -> None:
        """Set the page's entries of a kind to these, and remove the kind's other entries."""
        with self._changed:
            gone = [name[1] for name in self._entries if name[0] == kind and name[1] not in values]
        self.put(kind, {**dict.fromkeys(gone), **values})

    def keys(self, kind: str) -> set[str]:
        """Returns the keys of the page's entries of a kind."""
        with self._changed:
            return {key for of, key in self._entries.keys() - self._removed.keys() if of == kind}

    def spaces(self) -> Spaces:
        """Returns the spaces (pods or Jobs of a namespace) that the entries are about.

        The result is the same Python object until the spaces change.
        """
        with self._changed:
            if self._spaces is None:
                self._spaces = frozenset(self._uses)
            return self._spaces

    def since(self, version: int, seconds: float) -> Changes:
        """Returns the entries that changed after `version` (0: all); waits at most `seconds` for the first change."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, seconds)
            anew = version < self._forgotten or not version
            found = list(self._after(0 if anew else version))
            found.reverse()
            texts, spaces = [entry.text for entry in found], [entry.spaces for entry in found]
            return Changes(self._version, anew, texts, spaces)

    def _after(self, version: int) -> Iterable[_Entry]:
        for entry in reversed(self._entries.values()):
            if entry.version <= version:
                return
            yield entry

    def _set(self, name: Name, wanted: tuple[str, Spaces] | None) -> None:
        known = self._entries.get(name)
        if wanted is None:
            if known is None or name in self._removed:
                return
            self._removed[name] = None
            wanted = _text(*name, None), known.spaces
        elif known is not None and known.text == wanted[0]:
            return
        else:
            self._removed.pop(name, None)
        self._version += 1
        self._entries.pop(name, None)
        self._entries[name] = _Entry(self._version, *wanted)
        self._count(wanted[1], known.spaces if known else PUBLIC)
        if len(self._removed) > MOST_REMOVED:
            oldest = next(iter(self._removed))
            del self._removed[oldest]
            forgotten = self._entries.pop(oldest)
            self._count(PUBLIC, forgotten.spaces)
            self._forgotten = forgotten.version

    def _count(self, added: Spaces, dropped: Spaces) -> None:
        if added == dropped:
            return
        for space in added:
            self._uses[space] += 1
        for space in dropped:
            self._uses[space] -= 1
            if not self._uses[space]:
                del self._uses[space]
        self._spaces = None


def _text(kind: str, key: str, value: object) -> str:
    return json.dumps([kind, key, value], separators=(",", ":"))
