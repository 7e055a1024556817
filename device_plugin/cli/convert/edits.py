"""Edits: the least changes of a text by which a document gets another value.

A new key takes the place of a removed one, with the comments there. All text that is in no edit stays as it is. The
comments of removed keys stay too.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from device_plugin.cli.convert.layout import Layout
from device_plugin.cli.convert.nodes import (
    MERGE,
    Alias,
    ListNode,
    MappingNode,
    Node,
    Scalar,
    merged_parts,
    value,
)
from device_plugin.core.contract.grants import runs

_COMMENT = re.compile(r"(?<![^\s])#[^\r\n]*")
Pair = tuple[Scalar, Node]


@dataclass(frozen=True, slots=True)
class Edit:
    """The new `text` for the characters `start:end` of a text."""

    start: int
    end: int
    text: str


def edited(text: str, start: int, end: int, edits: Iterable[Edit]) -> str:
    """The text at `start:end` with these edits. Edits at one place follow one another in their order."""
    parts = []
    for edit in sorted(edits, key=lambda each: (each.start, each.end)):
        parts += [text[start : edit.start], edit.text]
        start = max(start, edit.end)
    return "".join([*parts, text[start:end]])


class Editor:
    """Collects the edits of one document. `written_out` is true once an alias (`*name`) became a copy."""

    def __init__(self, text: str, root: Node, layout: Layout, *, aliases: bool) -> None:
        self.edits: list[Edit] = []
        self.written_out = False
        self._text = text
        self._root = root
        self._layout = layout
        self._aliases = aliases
        # The new values of nodes with an anchor that are still there, by identity.
        self._anchors: dict[int, Any] = {}

    def change(self, before: Any, after: Any) -> None:
        """Collect the edits by which the document's value `before` becomes `after`."""
        self._change(self._root, before, after)

    def _change(self, node: Node, before: Any, after: Any) -> None:
        # An alias may stand for a part that changed elsewhere, so all of a document with aliases is looked at.
        if not self._aliases and before == after:
            return
        if isinstance(node, Alias):
            self._alias(node, after)
            return
        if isinstance(node, MappingNode) and isinstance(after, dict) and bool(node.pairs) == bool(after):
            self._mapping(node, before, after)
        elif isinstance(node, ListNode) and isinstance(after, list) and bool(node.items) == bool(after):
            if not self._list(node, before, after):
                return
        elif before != after:
            self._replace(node, after)
            return
        if node.anchored:
            self._anchors[id(node)] = after

    def _alias(self, node: Alias, after: Any) -> None:
        """Replace an alias by a copy if it would stand for another value, or if its anchor is gone."""
        kept = id(node.target) in self._anchors and self._anchors[id(node.target)] == after
        if not kept:
            self.written_out = True
            self._replace(node, after)

    def _replace(self, node: Node, after: Any) -> None:
        space = " " if node.start == node.end else ""
        self.edits.append(Edit(node.start, node.end, space + self._layout.flow(after)))

    # Mappings

    def _mapping(self, node: MappingNode, before: dict[Any, Any], after: dict[Any, Any]) -> None:
        own = {key.value for key, _ in node.pairs if key.value != MERGE}
        inherited = self._inherited(node, after)
        gone: list[int] = []
        for number, (key, part) in enumerate(node.pairs):
            if key.value == MERGE:
                gone += [number] * (inherited is None)
            elif key.value not in after:
                gone.append(number)
            else:
                self._value(node, (key, part), before[key.value], after[key.value])
        new = [key for key in after if key not in own and key not in (inherited or ())]
        for number, name in zip(gone, new, strict=False):
            self._rename(node, node.pairs[number], name, after[name])
        placed, gone = gone[: len(new)], gone[len(new) :]
        if new[len(placed) :]:
            last = placed[-1] if placed else len(node.pairs) - 1
            self._insert(node, node.pairs[last], {name: after[name] for name in new[len(placed) :]})
        if gone:
            self._remove([(key.start, part.end) for key, part in node.pairs], gone, flow=node.flow)

    def _inherited(self, node: MappingNode, after: dict[Any, Any]) -> set[Any] | None:
        """The keys that the mapping still gets from its merge keys (`<<`); None if the merge keys must be removed."""
        found: dict[Any, Any] = {}
        for key, part in node.pairs:
            for merged in merged_parts(part) if key.value == MERGE else ():
                current = self._anchors.get(id(merged.target)) if isinstance(merged, Alias) else value(merged)
                found |= current or {}
                if current is None or not current.keys() <= after.keys():
                    self.written_out = True
                    return None
        return {key for key in found if found[key] == after[key]}

    def _value(self, node: MappingNode, pair: Pair, before: Any, after: Any) -> None:
        """Collect the edits that give a key another value; the key itself stays."""
        part = pair[1]
        if before == after or isinstance(part, Alias) or (after and _is_filled(part)):
            self._change(part, before, after)
        else:
            self._replace_value(node, pair, after)

    def _rename(self, node: MappingNode, pair: Pair, name: str, after: Any) -> None:
        """Put the new key `name`, with the value `after`, in the place of the key of `pair`."""
        key = pair[0]
        text = self._layout.key(name, self._text[key.start : key.end])
        self.edits.append(Edit(key.start, key.end, text))
        self._replace_value(node, pair, after)

    def _replace_value(self, node: MappingNode, pair: Pair, after: Any) -> None:
        key, part = pair
        simple = isinstance(part, Alias) or (isinstance(part, Scalar) and not part.block)
        nested = isinstance(after, dict) and bool(after)
        if node.flow or (simple and not nested):
            space = " " if part.start == part.end else ""
            text = space + self._layout.flow(after, self._gap(key))
            self.edits.append(Edit(part.start, part.end, text))
            return
        indent = self._indent(key.start)
        colon = self._text.index(":", key.end) + 1
        text = self._layout.behind_colon(after, indent)
        comments = self._comments(colon, part.end)
        text += "".join(self._layout.newline + indent + comment for comment in comments)
        self.edits.append(Edit(colon, part.end, text))

    def _insert(self, node: MappingNode, pair: Pair, new: dict[str, Any]) -> None:
        """Add the keys and values in `new` after a pair of the mapping."""
        key, part = pair
        layout = self._layout
        for name, added in new.items():
            if not node.flow:
                indent = self._indent(key.start)
                place = self._line_end(part.end)
                text = layout.newline + indent + layout.pair(name, added, indent)
            else:
                place, gap = part.end, self._gap(key)
                colon = ":" if self._text[part.start - 1] == ":" and part.start < part.end else ": "
                if "\n" not in gap:
                    gap = colon[1:]
                written = layout.key(name, self._text[key.start : key.end])
                text = f",{gap}{written}{colon}{layout.flow(added, gap)}"
            self.edits.append(Edit(place, place, text))

    # Lists

    def _list(self, node: ListNode, before: list[Any], after: list[Any]) -> bool:
        """Change the items of a list, or remove some; returns False if the list was replaced."""
        kept = list(range(len(before))) if len(before) == len(after) else _places(before, after)
        if len(kept) != len(after):
            self._replace(node, after)
            return False
        for number, made in zip(kept, after, strict=True):
            self._change(node.items[number], before[number], made)
        gone = sorted(set(range(len(before))) - set(kept))
        if gone:
            self._remove([self._item(node, item) for item in node.items], gone, flow=node.flow)
        return True

    def _item(self, node: ListNode, item: Node) -> tuple[int, int]:
        """The place of an item, with its dash if it has one."""
        return item.start if node.flow else self._text.rindex("-", 0, item.start), item.end

    # Text

    def _remove(self, spans: Sequence[tuple[int, int]], gone: list[int], *, flow: bool) -> None:
        """Remove some parts of a list or mapping; at least one other part stays.

        `spans` are the places of all parts, and `gone` the numbers of the parts to remove. `flow` is true if brackets
        or braces enclose the parts.
        """
        for first, last in runs(gone):
            start, end = spans[first][0], spans[last][1]
            if flow and last + 1 == len(spans):
                self._cut(spans[first - 1][1], end, start, " ")
            elif last + 1 < len(spans) and (flow or not self._begins_line(start)):
                self._cut(start, spans[last + 1][0], start)
            else:
                self._cut_lines(start, end)

    def _cut(self, start: int, end: int, column: int, before: str = "") -> None:
        """Remove the text at `start:end`, but keep its comments, each with the text `before` in front of it.

        Text that follows a comment begins in a new line, in the same column as the place `column`.
        """
        comments = self._comments(start, end)
        behind = self._layout.newline + self._indent(column) if comments else ""
        self.edits.append(Edit(start, end, "".join(f"{before}{comment}{behind}" for comment in comments)))

    def _cut_lines(self, start: int, end: int) -> None:
        """Remove the whole lines from `start` to `end`, except for their comments."""
        newline, indent = self._layout.newline, self._indent(start)
        line, end = self._line_start(start), self._line_end(end)
        comments = self._comments(line, end)
        if not line:
            text = "".join(f"{indent}{comment}{newline}" for comment in comments)
            self.edits.append(Edit(0, self._text.find("\n", end) + 1, text))
            return
        # The line break before the lines goes, not the one after them: a new key may follow there.
        line -= len("\r\n" if self._text.endswith("\r\n", 0, line) else "\n")
        self.edits.append(Edit(line, end, "".join(f"{newline}{indent}{comment}" for comment in comments)))

    def _comments(self, start: int, end: int) -> list[str]:
        """The comments at `start:end`; a `#` inside a scalar begins no comment."""
        if self._layout.json:
            return []
        found = []
        first = bisect_left(self._leaves, (start, start))
        for leaf in (*self._between(first, end), (end, end)):
            found += [match[0].rstrip() for match in _COMMENT.finditer(self._text, start, leaf[0])]
            start = leaf[1]
        return found

    def _between(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        while first < len(self._leaves) and self._leaves[first][0] < end:
            yield self._leaves[first]
            first += 1

    @cached_property
    def _leaves(self) -> list[tuple[int, int]]:
        """The places of the document's scalars and aliases; the place of a block scalar begins after its header."""
        return list(self._texts(self._root))

    def _texts(self, node: Node) -> Iterator[tuple[int, int]]:
        match node:
            case MappingNode():
                for key, part in node.pairs:
                    yield key.start, key.end
                    yield from self._texts(part)
            case ListNode():
                for item in node.items:
                    yield from self._texts(item)
            case Scalar(block=True):
                yield self._line_end(node.start), node.end
            case _:
                yield node.start, node.end

    def _gap(self, key: Node) -> str:
        """The white space before a key."""
        start = key.start
        while start and self._text[start - 1].isspace():
            start -= 1
        return self._text[start : key.start]

    def _indent(self, start: int) -> str:
        """White space up to the column of `start`."""
        return re.sub(r"[^\t]", " ", self._text[self._line_start(start) : start])

    def _begins_line(self, at: int) -> bool:
        """True if only white space is before `at` in its line."""
        return not self._text[self._line_start(at) : at].strip()

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _line_end(self, at: int) -> int:
        """The end of the line of `at`, before its line break."""
        end = self._text.find("\n", at)
        if end < 0:
            return len(self._text)
        return end - self._text.endswith("\r", at, end)


def _is_filled(node: Node) -> bool:
    """True for a list or mapping that is not empty."""
    return bool(node.pairs if isinstance(node, MappingNode) else isinstance(node, ListNode) and node.items)


def _places(before: list[Any], after: list[Any]) -> list[int]:
    """The positions in `before` of the items of `after`; fewer if `before` lacks one of them, or has another order."""
    found: list[int] = []
    for number, item in enumerate(before):
        if len(found) < len(after) and item == after[len(found)]:
            found.append(number)
    return found
