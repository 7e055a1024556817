"""Reads the string literals of the page's scripts, and the texts of its HTML."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser

# Comments, strings, regular expressions after an operator, and templates, in the order in which a reader meets them.
_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/"
    r"|(?P<string>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')"
    r"|(?<=[(,=:&|!?{\[])\s*/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/"
    r"|(?P<template>`)",
    re.DOTALL,
)


def literals(script: str) -> Iterator[str]:
    """Yields the texts of all string literals, and of the parts of templates between their expressions."""
    at = 0
    while found := _TOKEN.search(script, at):
        at = found.end()
        if found["string"]:
            yield found["string"][1:-1]
        elif found["template"]:
            parts, at = _template(script, at)
            yield from parts


def _template(script: str, at: int) -> tuple[list[str], int]:
    """Returns the texts of a template that begins at `at`, those in its expressions included, and where it ends."""
    found, text = list[str](), ""
    while script[at] != "`":
        if script.startswith("${", at):
            end = _end_of_expression(script, at + 2)
            found += [text, *literals(script[at + 2 : end])]
            text, at = "", end + 1
        elif script[at] == "\\":
            text, at = text + script[at : at + 2], at + 2
        else:
            text, at = text + script[at], at + 1
    return [*found, text], at + 1


def _end_of_expression(script: str, at: int) -> int:
    depth = 0
    while True:
        match script[at]:
            case "{":
                depth += 1
            case "}" if not depth:
                return at
            case "}":
                depth -= 1
            case "`":
                at = _template(script, at + 1)[1]
                continue
            case '"' | "'" as quote:
                at = script.index(quote, at + 1)
        at += 1


class _Visible(HTMLParser):
    """Collects texts between tags, and those of attributes that people read or hear."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self.found += [
            value or "" for name, value in attrs if name in ("aria-label", "placeholder", "title", "alt")
        ]

    def handle_data(self, data: str) -> None:
        self.found.append(data.strip())


def visible(html: str) -> list[str]:
    """Returns the texts of a page that people read or hear."""
    reader = _Visible()
    reader.feed(html)
    return [text for text in reader.found if text]
