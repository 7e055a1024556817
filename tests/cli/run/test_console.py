"""What is on a terminal while a program prints: its output, and one line below it."""

import io

import pytest

from device_plugin.cli.run.console import Console, progress_bar, progress_text
from device_plugin.core.jobs.progress import Progress

CLEAR = "\r\x1b[K"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(io.BytesIO):
    def write(self, _: object) -> int:
        raise BrokenPipeError


def test_the_bar_is_the_last_line_whatever_is_printed() -> None:
    out, err = io.BytesIO(), Terminal()
    console = Console(out, err)
    console.bar("half")
    console.output(b"a line\n")
    console.say("train: done")
    console.bar("")
    assert out.getvalue() == b"a line\n"
    assert err.getvalue() == f"half{CLEAR}half{CLEAR}train: done\nhalf{CLEAR}"


def test_a_line_that_is_not_over_is_not_parted_by_the_bar() -> None:
    err = Terminal()
    console = Console(io.BytesIO(), err)
    console.bar("half")
    console.output(b"some of ")
    assert err.getvalue() == f"half{CLEAR}"
    console.output(b"a line\n")
    assert err.getvalue().endswith("half")


def test_without_a_terminal_there_is_no_bar() -> None:
    err = io.StringIO()
    console = Console(io.BytesIO(), err)
    console.bar("half")
    console.output(b"a line\n")
    assert (console.terminal, err.getvalue()) == (False, "")


def test_output_that_nobody_reads_is_known() -> None:
    console = Console(Closed(), io.StringIO())
    console.output(b"a line\n")
    assert console.closed


@pytest.mark.parametrize(("done", "text"), [(0, "  0 %"), (5, " 50 %"), (10, "100 %")])
def test_a_bar_shows_what_is_done(done: int, text: str) -> None:
    bar = progress_bar(Progress(done, 10))
    assert bar.endswith(text)
    assert bar.count("#") == 3 * done
    assert len(bar) == 32 + 6


def test_the_time_left_is_said_once_it_is_known() -> None:
    assert progress_text(Progress(1, 3), None) == "1 of 3"
    assert progress_text(Progress(1, 3), 7800.0) == "1 of 3, about 2h10m left"
