"""Answers as people see them: a line for each part, broken at the width of a terminal."""

import io
import re

import pytest

from device_plugin.cli.printing import answers
from device_plugin.cli.printing.answers import lines
from device_plugin.cli.printing.terminal import Terminal
from device_plugin.core.answers import Answer
from device_plugin.core.contract.resize import api_time

ANSWER = Answer(
    "default/a asks for hygon.com/dcu-mem: 8 and fits no node now",
    ("1 node with Z100 (n1): 2 cards: 2 lack memory (largest free 4 GiB)",),
    ("It would fit on n1 once default/b has ended", "Wait for slices to end, or ask for less memory"),
    "From the API server's lists and the allocator's 0 reservations",
)
STYLES = re.compile(r"\x1b\[[0-9]+m")


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_each_part_has_lines_of_its_own() -> None:
    assert [*lines(ANSWER, Terminal(), 0.0)] == [
        ANSWER.line,
        f"  {ANSWER.reasons[0]}",
        "What would help:",
        f"  {ANSWER.helps[0]}",
        f"  {ANSWER.helps[1]}",
        ANSWER.source,
    ]
    assert [*lines(Answer("default/a runs"), Terminal(), 0.0)] == ["default/a runs"]


@pytest.mark.parametrize("width", [80, 40, 24])
def test_lines_are_broken_between_words_at_the_width_of_the_terminal(width: int) -> None:
    shown = [*lines(ANSWER, Terminal(width), 0.0)]
    words = " ".join(shown).split()
    assert (
        words
        == f"{ANSWER.line} {ANSWER.reasons[0]} {answers.HELP} {' '.join(ANSWER.helps)} {ANSWER.source}".split()
    )
    assert all(len(line) <= width for line in shown if len(line.split()) > 1)


def test_on_a_terminal_with_colours_the_words_are_the_same() -> None:
    plain, painted = ("\n".join(lines(ANSWER, Terminal(40, colour), 0.0)) for colour in (False, True))
    assert "\x1b" not in plain
    assert STYLES.sub("", painted) == plain != painted


def test_times_are_relative_to_now() -> None:
    told = Answer("a waits", (f"Next, it starts by {api_time(1_800_000_060.0)}",))
    assert [*lines(told, Terminal(), 1_800_000_000.0)][1] == "  Next, it starts within 1 min"


def test_a_text_of_a_tenant_cannot_move_the_cursor_or_fill_the_screen() -> None:
    hostile = Answer("a\x1b[2J\nb", ("\u202ec",), ("d" * 300_000,), "\r")
    shown = [*lines(hostile, Terminal(80), 0.0)]
    assert all(line.isprintable() for line in shown)
    assert len(shown) == 5
    assert max(map(len, shown)) < answers.MOST_TEXT + 10


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "60")

    def printed(out: io.StringIO) -> str:
        answers.show([ANSWER], out)
        return out.getvalue()

    assert "\x1b[1m" in printed(Tty())
    assert "\x1b" not in printed(io.StringIO())
    monkeypatch.setenv("NO_COLOR", "1")
    text = printed(Tty())
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 60
