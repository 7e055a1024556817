"""Each Chinese page is of its English page's text as it is now; headings, code, links and names are the same."""

import posixpath
import re
from pathlib import Path

import pytest

from hack.generate.translations import ENDING, english, problem, renew
from tests.pages import PROJECT, TRANSLATIONS, code, prose

each = pytest.mark.parametrize(
    "page", [pytest.param(page, id=str(page.relative_to(PROJECT))) for page in TRANSLATIONS]
)


def headings(page: Path) -> list[tuple[int, str]]:
    """The level and the anchor of each heading; anchors as GitHub and the site make them."""
    found = re.findall(r"^(#+) (.+)$", prose(page), re.MULTILINE)
    return [(len(level), re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")) for level, title in found]


def links(page: Path) -> list[str]:
    """The targets of the page's links, sorted; a Chinese page and its headings count as the English ones."""
    return sorted(_target(page, target) for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)))


def _target(page: Path, target: str) -> str:
    if "://" in target:
        return target
    path, _, anchor = target.partition("#")
    to = Path(posixpath.normpath(page.parent / path)) if path else page
    if to.name.endswith(ENDING):
        if anchor:
            anchors = [own for _, own in headings(to)]
            assert anchor in anchors, f"{page}: {to.name} has no heading #{anchor}"
            anchor = headings(english(to))[anchors.index(anchor)][1]
        to = english(to)
    return f"{to.relative_to(PROJECT)}#{anchor}"


def names(page: Path) -> set[str]:
    """The commands, fields and values that the sentences of a page name."""
    return {" ".join(name.split()) for name in re.findall(r"`([^`]+)`", prose(page))}


@each
def test_it_is_of_the_english_text_of_now(page: Path) -> None:
    sentence = problem(page)
    assert not sentence, sentence


@each
def test_it_and_the_english_page_link_to_each_other_below_their_titles(page: Path) -> None:
    of = english(page)
    assert f"[English]({of.name})" in page.read_text(encoding="utf-8").splitlines()[:3]
    assert f"[中文]({page.name})" in of.read_text(encoding="utf-8").splitlines()[:3]


@each
def test_it_has_the_same_headings(page: Path) -> None:
    assert [level for level, _ in headings(page)] == [level for level, _ in headings(english(page))]


@each
def test_it_has_the_same_blocks_of_code(page: Path) -> None:
    assert list(code(page)) == list(code(english(page)))


@each
def test_it_has_the_same_links(page: Path) -> None:
    assert links(page) == links(english(page))


@each
def test_it_names_the_same_commands_fields_and_values(page: Path) -> None:
    assert names(page) == names(english(page))


def test_a_change_of_the_english_page_is_found_until_the_record_is_renewed(tmp_path: Path) -> None:
    page, of = tmp_path / "start.zh.md", tmp_path / "start.md"
    page.write_text("# 开始\n", encoding="utf-8")
    of.write_text("# Start\n", encoding="utf-8")
    assert problem(page, tmp_path).startswith("start.zh.md has no record")
    renew(page, tmp_path)
    assert problem(page, tmp_path) == ""
    of.write_text("# Start here\n", encoding="utf-8")
    # The hash is Git's: of `printf '# Start\n' | git hash-object --stdin`.
    assert problem(page, tmp_path) == (
        "start.md has changed since start.zh.md was translated (`git diff 24b25e7687b1 start.md` shows how): translate"
        " the change, then run `python -m hack.generate.translations start.zh.md`"
    )
    renew(page, tmp_path)
    assert problem(page, tmp_path) == ""
    assert page.read_text(encoding="utf-8").count("<!--") == 1
