"""Sentences of the pages that people write begin with no pronoun that a reader must resolve."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.docstrings import FIRST
from hack.generate.reference.__main__ import FOLDER
from tests.pages import PAGES, PROJECT

WRITTEN = [path for path in PAGES if FOLDER not in path.parents and path.name != "fence.md"]
_CODE = re.compile(r"^(`{3,})\w*\n.*?^\1$|(?<=\n\n)(?:    [^\n]*\n|\n(?=    ))+", re.DOTALL | re.MULTILINE)
_START = re.compile(r"(?:^|[.:!?] |\| |^[-*] |\*\*)(?:" + "|".join(FIRST) + r")\b[^.?|]*.?", re.MULTILINE)


def bad(text: str) -> Iterator[str]:
    """The beginnings of sentences with one of FIRST; a question may have one, and so may a quoted word."""
    prose = re.sub(r"`[^`\n]*`", "X", _CODE.sub("", text))
    for paragraph in re.split(r"\n(?=\n|[-|#*] ?)", prose):
        for match in _START.finditer(" ".join(paragraph.split())):
            if not match[0].endswith("?"):
                yield match[0]


def test_the_rule_itself() -> None:
    assert list(bad("What is free\nmay be taken. A card is full.\n")) == ["What is free may be taken."]
    assert list(bad("| What is a percent? | of memory |\n\nSee. Of two\nqueues one gives.\n")) == [
        ". Of two queues one gives."
    ]
    assert list(bad("```\nWhat is this\n```\n\n    Of what\n\nAll that is free.\n")) == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda path: str(path.relative_to(PROJECT)))
def test_no_sentence_begins_with_a_pronoun(page: Path) -> None:
    # The rule names the words that it forbids.
    text = page.read_text(encoding="utf-8").replace(
        "Begin no sentence with What, Who, Of, Those or That.", ""
    )
    assert list(bad(text)) == []
