"""Reads JSON for `vgpu convert`: the values of a text with their places, and a value as nodes."""

import json
from collections.abc import Iterator
from typing import Any

from device_plugin.adapters.yaml_text import MOST_DEPTH, NotYamlError
from device_plugin.cli.convert.nodes import ListNode, MappingNode, Node, Scalar

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder()


def values(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yields (start, end, value) for each JSON value of a text, one after another.

    `start` and `end` are offsets in characters. Raises ValueError if the text is not JSON, and NotYamlError if a value
    is nested too deep.
    """
    start = _space(text, 0)
    while start < len(text):
        try:
            found, end = _DECODER.raw_decode(text, start)
        except RecursionError:
            raise _too_deep() from None
        _check_depth(found)
        yield start, end, found
        start = _space(text, end)


def _check_depth(value: Any) -> None:
    """Raise NotYamlError for a value of more levels than a text may have."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            part
            for each in level
            if isinstance(each, dict | list)
            for part in (each.values() if isinstance(each, dict) else each)
        ]
    if level:
        raise _too_deep()


def _too_deep() -> NotYamlError:
    return NotYamlError(f"it is nested deeper than {MOST_DEPTH} levels")


def node(text: str, start: int) -> Node:
    """Returns the node of the JSON value that begins at `start`. The text must be JSON that `values` has read."""
    match text[start]:
        case "{":
            return _mapping(text, start)
        case "[":
            return _list(text, start)
    return _scalar(text, start)


def _mapping(text: str, start: int) -> MappingNode:
    pairs: list[tuple[Scalar, Node]] = []
    at = _space(text, start + 1)
    while text[at] != "}":
        key = _scalar(text, _space(text, at + (text[at] == ",")))
        colon = _space(text, key.end)
        part = node(text, _space(text, colon + 1))
        pairs.append((key, part))
        at = _space(text, part.end)
    return MappingNode(start, at + 1, pairs, flow=True)


def _list(text: str, start: int) -> ListNode:
    items: list[Node] = []
    at = _space(text, start + 1)
    while text[at] != "]":
        items.append(node(text, _space(text, at + (text[at] == ","))))
        at = _space(text, items[-1].end)
    return ListNode(start, at + 1, items, flow=True)


def _scalar(text: str, start: int) -> Scalar:
    found, end = _DECODER.raw_decode(text, start)
    return Scalar(start, end, found)


def _space(text: str, at: int) -> int:
    """The place after the white space at `at`."""
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
