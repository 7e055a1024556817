"""Refuses docstrings that a reader with English as a second language must read twice; part of `make lint`.

    python -m hack.docstrings

It refuses a sentence that begins with a word of FIRST or contains one of NEVER, but never a question or code. It prints
FILE:LINE and the text of each refused sentence, and exits with 1 if there is any.
"""

import ast
import re
import sys
from collections.abc import Iterator
from inspect import cleandoc
from pathlib import Path

PROJECT = Path(__file__).parents[1]
PACKAGES = ("device_plugin", "vgpu_runtime", "hack")
# FIRST holds for the pages of docs/ too (tests/hack/test_words.py).
FIRST = ("What", "Who", "Of", "Those", "That", r"One\s+that")
NEVER = (
    r"so\s+(?:many|much|often|long)", r"at\s+last", "told", r"as\s+above", r"for\s+nothing", r"ones?\s+that", "anew",
    "beside", r"(?:is|are)\s+of\s+use", r"let\s+be", r"put\s+together", r"what\s+is\s+left",
)  # fmt: skip
_CODE = re.compile(r"`[^`]*`|^    .*$", re.MULTILINE)
_SENTENCE = re.compile(
    r"\S(?:(?!\n\s*\n|\n[-*] ).)*?(?:[.:!?](?=[)\"']?\s)|(?=\s*\Z|\n\s*\n|\n[-*] ))", re.DOTALL
)
_BAD = re.compile(rf"[-*(\"' ]*(?:{'|'.join(FIRST)})\b|.*\b(?i:{'|'.join(NEVER)})\b", re.DOTALL)


def bad(text: str) -> Iterator[tuple[int, str]]:
    """The refused sentences of a docstring, each with its line, counted from 0."""
    prose = _CODE.sub(lambda code: re.sub(r"\S", "x", code[0]), text)
    for match in _SENTENCE.finditer(prose):
        if _BAD.match(match[0]) and not match[0].endswith("?"):
            yield text.count("\n", 0, match.start()), " ".join(text[match.start() : match.end()].split())


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, also of its attributes, each with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield node.lineno, cleandoc(text)


def check(project: Path) -> Iterator[str]:
    """A line for each refused sentence of the packages; generated files are left out."""
    for file in sorted(file for package in PACKAGES for file in (project / package).rglob("*.py")):
        if "_pb2" not in file.name:
            for begin, text in docstrings(file.read_text(encoding="utf-8")):
                for line, sentence in bad(text):
                    yield f"{file.relative_to(project)}:{begin + line}: {sentence}"


if __name__ == "__main__":
    found = list(check(PROJECT))
    print(*found, sep="\n", end="\n" if found else "")
    sys.exit(1 if found else 0)
