"""Holds the page's entries with versions: each browser gets the entries that changed since it last asked.

No queue is kept for a browser. A slow browser gets only the newest value of each entry, so that any number of changes
takes no more memory than the entries.
"""

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

# Removed entries that are remembered, so that browsers learn of the removal; a slower browser loads all entries again.
MOST_REMOVED = 1000
Name = tuple[str, str]
"""The kind of an entry, such as `node`, and its key among the entries of this kind."""


@dataclass(frozen=True, slots=True)
class Changes:
    """Texts of changed entries, as of `version`. If `anew` is true, they are all entries, and replace the browser's."""

    version: int
    anew: bool
    texts: Sequence[str]


class PageEntries:
    """The entries by name, each as the JSON text `[kind, key, value]`. Any thread may use them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        # Newest change last. The value of a removed entry is null.
        self._entries: dict[Name, tuple[int, str]] = {}
        self._removed: dict[Name, None] = {}
        self._version = 0
        self._forgotten = 0

    def put(self, kind: str, values: Mapping[str, object]) -> None:
        """Set entries of a kind; the value None removes an entry. A value that is equal to the old one is no change."""
        texts = {key: None if value is None else _text(kind, key, value) for key, value in values.items()}
        with self._changed:
            before = self._version
            for key, text in texts.items():
                self._set((kind, key), text)
            if self._version != before:
                self._changed.notify_all()

    def replace(self, kind: str, values: Mapping[str, object]) -> None:
        """Set the entries of a kind to these, and remove its other entries."""
        with self._changed:
            gone = [name[1] for name in self._entries if name[0] == kind and name[1] not in values]
        self.put(kind, {**dict.fromkeys(gone), **values})

    def keys(self, kind: str) -> set[str]:
        """Returns the keys of the entries of a kind."""
        with self._changed:
            return {key for of, key in self._entries.keys() - self._removed.keys() if of == kind}

    def since(self, version: int, seconds: float) -> Changes:
        """Returns the changes after `version` (0: all entries); waits at most `seconds` for the first change."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > version, seconds)
            anew = version < self._forgotten or not version
            found = list(self._after(0 if anew else version))
            return Changes(self._version, anew, found[::-1])

    def _after(self, version: int) -> Iterable[str]:
        for changed, text in reversed(self._entries.values()):
            if changed <= version:
                return
            yield text

    def _set(self, name: Name, text: str | None) -> None:
        known = self._entries.get(name)
        if text is None:
            if known is None or name in self._removed:
                return
            self._removed[name] = None
        elif known is not None and known[1] == text:
            return
        else:
            self._removed.pop(name, None)
        self._version += 1
        self._entries.pop(name, None)
        self._entries[name] = (self._version, _text(*name, None) if text is None else text)
        if len(self._removed) > MOST_REMOVED:
            oldest = next(iter(self._removed))
            del self._removed[oldest]
            self._forgotten, _ = self._entries.pop(oldest)


def _text(kind: str, key: str, value: object) -> str:
    return json.dumps([kind, key, value], separators=(",", ":"))
