"""The pages that people read, and the blocks of code in them.

Tests read the English pages; the Chinese ones have the same code (tests/hack/generate/test_translations.py).
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hack.generate.translations import ENDING
from vgpu_runtime.paths import SOURCES

PROJECT = SOURCES.parent
_ALL = [
    *sorted(PROJECT.glob("*.md")),
    *(PROJECT / folder / "README.md" for folder in ("examples", "manifests")),
    *sorted((PROJECT / "docs").rglob("*.md")),
]
TRANSLATIONS = [page for page in _ALL if page.name.endswith(ENDING)]
PAGES = [page for page in _ALL if page not in TRANSLATIONS]
# A fenced block with its language, or lines that are indented after an empty one.
_BLOCK = re.compile(
    r"^```(\w*)\n(.*?)^```$|(?<=\n\n)((?:    [^\n]*\n|\n(?=    ))+)", re.DOTALL | re.MULTILINE
)


def code(page: Path) -> Iterator[tuple[str, str]]:
    """The language, "" where none is named, and the text of each block of code on a page."""
    for language, fenced, indented in _BLOCK.findall(page.read_text(encoding="utf-8")):
        yield language, fenced or re.sub("^    ", "", indented, flags=re.MULTILINE)


def prose(page: Path) -> str:
    """The text of a page without its blocks of code."""
    return _BLOCK.sub("", page.read_text(encoding="utf-8"))


def blocks(*languages: str) -> Iterator[tuple[Path, str]]:
    """Every block in one of these languages, "" for one without, and its page."""
    for page in PAGES:
        for language, text in code(page):
            if language in languages:
                yield page, text


def documents() -> Iterator[tuple[Path, Any]]:
    """Every YAML document that a page shows, and its page."""
    for page, text in blocks("yaml"):
        for document in yaml.safe_load_all(text):
            yield page, document


def shown(kind: str, page: str, name: str = "") -> Any:
    """The only object of this kind, and of this name where one is given, that docs/`page` shows."""
    (found,) = [
        document for path, document in documents()
        if path.name == page and document.get("kind") == kind and name in ("", document["metadata"]["name"])
    ]  # fmt: skip
    return found
