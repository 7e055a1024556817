"""README is short, keeps its order, and CI runs the commands that it promises."""

import re

from tests.pages import PROJECT

README = (PROJECT / "README.md").read_text(encoding="utf-8")
MOST_WORDS = 900


def test_it_is_read_in_some_minutes() -> None:
    assert len(README.split()) <= MOST_WORDS


def test_it_says_what_it_is_before_how_to_get_it() -> None:
    order = (
        "vgpu is for", "not yet on a real card", "](docs/ui.png)", "- **Limits", "](docs/measured.md#", "```yaml",
        "## Try it", "## Install", "## One pod", "## Limits of isolation", "## Licence",
    )  # fmt: skip
    places = [README.index(text) for text in order]
    assert places == sorted(places)


def test_there_are_six_features_and_three_figures() -> None:
    part = README.partition("## Try it")[0]
    assert len(re.findall(r"^- \*\*", part, re.MULTILINE)) == 6
    assert len(re.findall(r"\]\(docs/measured\.md#", part)) == 3


def test_ci_runs_the_commands_for_trying() -> None:
    """As a newcomer does, with nothing set up before."""
    shown = set(re.findall(r"^    (make \w+) +#", README, re.MULTILINE))
    run = (PROJECT / ".ci/run").read_text(encoding="utf-8")
    assert set(re.findall(r"as_newcomer (make \w+)$", run, re.MULTILINE)) == shown


def test_no_licence_is_assumed() -> None:
    assert "has not chosen a licence" in README
    assert not list(PROJECT.glob("LICEN[CS]E*"))
