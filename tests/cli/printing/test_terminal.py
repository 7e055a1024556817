"""Bars and lines for a terminal, and for an output that is none."""

import io

import pytest

from device_plugin.cli.printing.terminal import ASCII, BLOCKS, BOLD, Terminal


class Tty(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("encoding", "letters"), [("utf-8", BLOCKS), ("ascii", ASCII), ("latin-1", ASCII)])
def test_bars_are_of_letters_that_the_output_can_show(encoding: str, letters: str) -> None:
    assert Terminal.of(io.TextIOWrapper(io.BytesIO(), encoding)).letters == letters


def test_an_output_that_is_no_terminal_has_no_width_and_no_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "70")
    assert Terminal.of(Tty(io.BytesIO(), "utf-8")) == Terminal(70, colour=True)
    assert Terminal.of(io.TextIOWrapper(io.BytesIO(), "utf-8")) == Terminal()
    monkeypatch.setenv("TERM", "dumb")
    assert Terminal.of(Tty(io.BytesIO(), "utf-8")) == Terminal(70)


@pytest.mark.parametrize(
    ("share", "filled"), [(0.0, 0), (0.001, 1), (0.5, 5), (0.96, 9), (0.999, 9), (1.0, 10), (1.5, 10)]
)
def test_a_bar_is_full_or_empty_only_if_that_is_true(share: float, filled: int) -> None:
    assert Terminal(letters=ASCII).bar(share, 10) == "#" * filled + "." * (10 - filled)


def test_a_style_is_for_terminals_with_colours() -> None:
    assert Terminal(80).painted("a", BOLD) == "a"
    assert Terminal(80, colour=True).painted("a", BOLD) == "\x1b[1ma\x1b[0m"
    assert Terminal(80, colour=True).painted("a", "") == "a"


def test_a_word_that_is_longer_than_a_line_stays_whole() -> None:
    assert Terminal(10).wrapped(f"see {'n' * 30} for it", 2) == [
        "  see",
        " " * 5 + "n" * 30,
        "     for",
        "     it",
    ]
