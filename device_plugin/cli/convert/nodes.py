"""Nodes: the values of a YAML text, each with its place in the text. An alias is a node of its own.

Scalars are read as far as a conversion needs it. A date, a fraction or a number that is not in decimal digits stays a
text, as `Plain`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml
from yaml.resolver import Resolver

from device_plugin.adapters.yaml_text import NotYamlError, events

_TAG = "tag:yaml.org,2002:"
_STR = _TAG + "str"
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
# In the header of a block scalar: all line breaks at its end belong to it.
_KEEP = re.compile(r"[|>][1-9]?\+")
_TRUE = ("yes", "true", "on")


@dataclass(frozen=True, slots=True)
class Plain:
    """A value that this module does not interpret, such as 1.5 or 2024-01-01: its tag, and its text as written."""

    tag: str
    text: str

    def __str__(self) -> str:
        return self.text


MERGE = Plain(_TAG + "merge", "<<")


@dataclass(slots=True)
class Node:
    """A value of a text, at `start:end`, with its anchor, without comments and blank lines after it."""

    start: int
    end: int
    anchored: bool = field(default=False, kw_only=True)


@dataclass(slots=True)
class Scalar(Node):
    """A text, number or null. `block` is true for the styles `|` and `>`."""

    value: Any
    block: bool = False


@dataclass(slots=True)
class Alias(Node):
    """An alias, `*name`, with the node that has this name."""

    target: Node


@dataclass(slots=True)
class MappingNode(Node):
    """A mapping in YAML; `flow` is true if it is written between braces."""

    flow: bool = field(kw_only=True)
    pairs: list[tuple[Scalar, Node]]


@dataclass(slots=True)
class ListNode(Node):
    """A list in YAML; `flow` is true if it is written between brackets."""

    flow: bool = field(kw_only=True)
    items: list[Node]


@dataclass(frozen=True, slots=True)
class Root:
    """The node of one document, None if the document is empty; its directives and text begin at `start`."""

    start: int
    node: Node | None
    aliases: bool = False


def roots(text: str) -> Iterator[Root]:
    """Yields a Root for each document of a text. Raises NotYamlError, and the errors of PyYAML's parser."""
    return _Composer(text).roots()


def value(node: Node | None) -> Any:
    """Returns the Python value of a node. An alias becomes a copy of the value that it names.

    Keys that a merge key (`<<`) brings into a mapping come last.
    """
    match node:
        case Scalar():
            return node.value
        case Alias():
            return value(node.target)
        case ListNode():
            return [value(item) for item in node.items]
        case MappingNode():
            own = {key.value: value(part) for key, part in node.pairs if key.value != MERGE}
            inherited: dict[Any, Any] = {}
            for key, part in node.pairs:
                if key.value == MERGE:
                    for merged in merged_parts(part):
                        inherited |= value(merged)
            return own | {key: part for key, part in inherited.items() if key not in own}
    return None


def merged_parts(part: Node) -> list[Node]:
    """The mappings that a merge key (`<<`) names, the last one first; a later item of the result has precedence."""
    named = part.target if isinstance(part, Alias) else part
    return named.items[::-1] if isinstance(named, ListNode) else [part]


class _Composer:
    """Makes nodes from the events of PyYAML's parser. Nesting and aliases are bounded by `yaml_text.events`."""

    def __init__(self, text: str) -> None:
        self._text = text
        # PyYAML's types have no places for events of the parser in C, which have them.
        self._events: Iterator[Any] = events(text)
        self._anchors: dict[str, Node] = {}
        self._aliases = False

    def roots(self) -> Iterator[Root]:
        for event in self._events:
            start = event.start_mark.index
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchors, self._aliases = {}, False
                first = next(self._events)
                node = None if isinstance(first, yaml.DocumentEndEvent) else self._node(first)
                yield Root(start, node, self._aliases)

    def _node(self, event: Any) -> Node:
        start, end, line = event.start_mark.index, event.end_mark.index, event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise NotYamlError(f"line {line}: undefined alias *{event.anchor}")
            self._aliases = True
            return Alias(start, end, self._anchors[event.anchor])
        node: Node
        anchored = event.anchor is not None
        if isinstance(event, yaml.ScalarEvent):
            block = event.style in ("|", ">")
            if block:
                end = self._block_end(start, end)
            node = Scalar(start, end, _scalar(event), block, anchored=anchored)
        elif isinstance(event, yaml.MappingStartEvent):
            flow = bool(event.flow_style)
            pairs, end = self._pairs(flow)
            node = MappingNode(start, end, pairs, flow=flow, anchored=anchored)
        else:
            flow = bool(event.flow_style)
            items, end = self._items(flow)
            node = ListNode(start, end, items, flow=flow, anchored=anchored)
        if anchored:
            self._anchors[event.anchor] = node
        return node

    def _block_end(self, start: int, end: int) -> int:
        """The end of a block scalar, without the line break after it."""
        if _KEEP.search(self._text, start, self._text.find("\n", start) + 1):
            return (
                end
                - len("\n") * self._text.endswith("\n", start, end)
                - self._text.endswith("\r\n", start, end)
            )
        return start + len(self._text[start:end].rstrip())

    def _pairs(self, flow: bool) -> tuple[list[tuple[Scalar, Node]], int]:
        pairs: list[tuple[Scalar, Node]] = []
        known = set()
        for event in self._events:
            end, line = event.end_mark.index, event.start_mark.line + 1
            if isinstance(event, yaml.MappingEndEvent):
                return pairs, end if flow else pairs[-1][1].end
            key, part = self._node(event), self._node(next(self._events))
            if isinstance(key, Alias) and isinstance(key.target, Scalar):
                key = Scalar(key.start, key.end, key.target.value)
            if not isinstance(key, Scalar):
                raise NotYamlError(
                    f"line {line}: a list or mapping is no key (render Helm's templates first)"
                )
            if key.value in known:
                raise NotYamlError(f"line {line}: the key {key.value} is there twice")
            known.add(key.value)
            if key.value == MERGE and not all(map(_is_mapping, merged_parts(part))):
                raise NotYamlError(f"line {line}: << needs a mapping, or a list of mappings")
            pairs.append((key, part))
        raise AssertionError("a mapping has an end")

    def _items(self, flow: bool) -> tuple[list[Node], int]:
        items: list[Node] = []
        for event in self._events:
            end = event.end_mark.index
            if isinstance(event, yaml.SequenceEndEvent):
                return items, end if flow else items[-1].end
            items.append(self._node(event))
        raise AssertionError("a list has an end")


def _is_mapping(node: Node) -> bool:
    return isinstance(node.target if isinstance(node, Alias) else node, MappingNode)


def _scalar(event: Any) -> Any:
    """The Python value of a scalar, by the scalar's tag."""
    if event.tag in (None, "!"):
        if not event.implicit[0]:
            return event.value
        return _read(plain_tag(event.value), event.value)
    return _read(event.tag, event.value)


_RESOLVER = Resolver()


@lru_cache(4096)
def plain_tag(text: str) -> str:
    """The YAML tag that a text without quotes gets, such as `tag:yaml.org,2002:int`."""
    found: str = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    return found


def _read(tag: str, text: str) -> Any:
    if tag == _STR:
        return text
    if tag == _TAG + "null":
        return None
    if tag == _TAG + "bool":
        return text.lower() in _TRUE
    if tag == _TAG + "int" and _DECIMAL.fullmatch(text):
        return int(text)
    return Plain(tag, text)
