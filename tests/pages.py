"""The pages that people read, and the blocks of code in them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from vgpu_runtime.paths import SOURCES

PROJECT = SOURCES.parent
PAGES = [
    *sorted(PROJECT.glob("*.md")),
    *(PROJECT / folder / "README.md" for folder in ("examples", "manifests")),
    *sorted((PROJECT / "docs").rglob("*.md")),
]
# A fenced block with its language, or lines that are indented after an empty one.
_BLOCK = re.compile(
    r"^```(\w*)\n(.*?)^```$|(?<=\n\n)((?:    [^\n]*\n|\n(?=    ))+)", re.DOTALL | re.MULTILINE
)


def blocks(*languages: str) -> Iterator[tuple[Path, str]]:
    """Every block in one of these languages, "" for one without, and its page."""
    for page in PAGES:
        for language, fenced, indented in _BLOCK.findall(page.read_text(encoding="utf-8")):
            if language in languages:
                yield page, fenced or re.sub("^    ", "", indented, flags=re.MULTILINE)


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
