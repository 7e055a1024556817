"""What is on a terminal while a program prints: its output, and one line below it."""

import io

from device_plugin.cli.run.console import Console

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
    console.last_line("half")
    console.output(b"a line\n")
    console.say("train: done")
    console.last_line("")
    assert out.getvalue() == b"a line\n"
    assert err.getvalue() == f"half{CLEAR}half{CLEAR}train: done\nhalf{CLEAR}"


def test_a_line_that_is_not_over_is_not_parted_by_the_bar() -> None:
    err = Terminal()
    console = Console(io.BytesIO(), err)
    console.last_line("half")
    console.output(b"some of ")
    console.last_line("more")
    assert err.getvalue() == f"half{CLEAR}", "nothing clears the line that is not over"
    console.output(b"a line\n")
    assert err.getvalue() == f"half{CLEAR}more"


def test_without_a_terminal_there_is_no_bar() -> None:
    err = io.StringIO()
    console = Console(io.BytesIO(), err)
    console.last_line("half")
    console.output(b"a line\n")
    assert (console.terminal, err.getvalue()) == (False, "")


def test_output_that_nobody_reads_is_known() -> None:
    console = Console(Closed(), io.StringIO())
    console.output(b"a line\n")
    assert console.closed


def test_a_line_about_the_job_cannot_move_the_cursor() -> None:
    err = Terminal()
    Console(io.BytesIO(), err).say("train: starts: \x1b[2J\nx")
    assert err.getvalue() == "train: starts: \ufffd[2J\ufffdx\n"
