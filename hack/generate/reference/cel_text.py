"""Finds the text of a message in its CEL expression; `…` stands for values of the refused object."""

import re
from collections.abc import Iterator

_LITERAL = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")
# `list.map(x, TEXT)[0]`: the text for the first item of a list.
_MAPPED = re.compile(r"[\w.\[\]]+\.map\(\w+, (.*)\)\[0\]")
UNKNOWN = "…"
_OPEN, _CLOSE = "([{", ")]}"


def text_of(expression: str) -> str:
    """The text of an expression, a sum of literals and other terms; alternatives are separated by slashes."""
    text = " ".join(expression.split())
    if mapped := _MAPPED.fullmatch(text):
        text = mapped[1]
    return re.sub(f"{UNKNOWN}+", UNKNOWN, "".join(_term(term.strip()) for term in _split(text, "+")))


def _term(term: str) -> str:
    """The text of one term: of a literal, of a condition with alternatives, or `…`."""
    if literal := _LITERAL.fullmatch(term):
        return literal.group()[1:-1]
    if term.startswith("(") and _split(term[1:-1], "?")[1:]:
        return "/".join(dict.fromkeys(text for text in _branches(term[1:-1]) if text))
    return UNKNOWN


def _branches(condition: str) -> Iterator[str]:
    """The alternative texts of a condition such as `a ? x : b ? y : z`."""
    question = _split(condition, "?")
    if len(question) == 1:
        yield "".join(_term(term.strip()) for term in _split(condition, "+"))
        return
    rest = "?".join(question[1:])
    first, *others = _split(rest, ":")
    yield from _branches(first.strip())
    yield from _branches(":".join(others).strip())


def _split(text: str, mark: str) -> list[str]:
    """The parts of a text between marks; marks inside brackets and literals do not count."""
    parts, start, depth, at = list[str](), 0, 0, 0
    while at < len(text):
        if literal := _LITERAL.match(text, at):
            at = literal.end()
            continue
        depth += (text[at] in _OPEN) - (text[at] in _CLOSE)
        if text[at] == mark and not depth:
            parts.append(text[start:at])
            start = at + 1
        at += 1
    return [*parts, text[start:]]
