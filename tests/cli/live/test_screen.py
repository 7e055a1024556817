"""The terminal is taken and given back, on a pseudo terminal; keys are read one by one."""

import os
import termios
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import pytest

from device_plugin.cli.live.screen import (
    BOTTOM,
    DOWN,
    ENTER,
    ERASE,
    ESCAPE,
    PAGE_DOWN,
    TOP,
    UP,
    LiveError,
    Screen,
    parsed,
)

LEAVE = b"\x1b[?1049l"


class Pty(NamedTuple):
    """A pseudo terminal: what a person holds, and what a program has."""

    person: int
    keys: TextIO
    out: TextIO

    def state(self) -> list[Any]:
        return termios.tcgetattr(self.keys.fileno())

    def shown(self, end: bytes = b"") -> bytes:
        """The text that the program has written since the last call, up to `end`, which may come in pieces."""
        found = os.read(self.person, 1 << 16)
        while not found.endswith(end):
            found += os.read(self.person, 1 << 16)
        return found


@pytest.fixture
def pty() -> Iterator[Pty]:
    person, program = os.openpty()
    with os.fdopen(program, "r", closefd=False) as keys, os.fdopen(program, "w", closefd=False) as out:
        yield Pty(person, keys, out)
    os.close(program)
    os.close(person)


def test_the_terminal_is_given_back_after_an_error(pty: Pty) -> None:
    before = pty.state()

    def fail() -> None:
        with Screen(pty.keys, pty.out) as screen:
            assert pty.state() != before
            screen.draw(["a", "b"])
            shown = pty.shown(b"\x1b[J")
            assert shown == b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[Ha\x1b[K\r\nb\x1b[K\x1b[J"
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert pty.state() == before
    assert pty.shown(LEAVE).endswith(b"\x1b[?25h" + LEAVE)


def test_keys_come_without_enter_and_are_not_echoed(pty: Pty) -> None:
    with Screen(pty.keys, pty.out) as screen:
        pty.shown()
        assert screen.keys(0.0) == ()
        os.write(pty.person, b"j\x1b[A")
        assert screen.keys(5.0) == ["j", UP]
        os.write(pty.person, b"\x1a\x1c")
        assert not screen.keys(0.0), "Ctrl-Z and Ctrl-backslash do nothing"
        screen.draw([""])
        assert pty.shown() == b"\x1b[H\x1b[K\x1b[J"


@pytest.mark.parametrize(
    ("sent", "keys"),
    [
        ("qs", ["q", "s"]),
        ("\x1b[B\x1bOB\x1b[6~\x1b[H\x1b[4~", [DOWN, DOWN, PAGE_DOWN, TOP, BOTTOM]),
        ("\r\n\x7f", [ENTER, ENTER, ERASE]),
        ("\x1b", [ESCAPE]),
        ("\x1b\x1b[A", [ESCAPE, UP]),
        ("\x1b[1;5A\x1b[99~\x1b[", []),
        ("\x00\x01\u202e\ufffdé", ["\ufffd", "é"]),
    ],
)
def test_a_key_is_its_character_or_has_a_name(sent: str, keys: list[str]) -> None:
    assert [*parsed(sent)] == keys


def test_without_a_terminal_it_says_what_to_write(pty: Pty) -> None:
    with Path(os.devnull).open() as null, pytest.raises(LiveError, match="write -w"):
        Screen(null, pty.out)
    with Path(os.devnull).open("w") as null, pytest.raises(LiveError, match="write -w"):
        Screen(pty.keys, null)


def test_a_terminal_that_is_gone_ends_the_keys() -> None:
    person, program = os.openpty()
    keys, out = os.fdopen(program, "r"), os.fdopen(os.dup(program), "w")
    with Screen(keys, out) as screen:
        os.close(person)
        assert screen.keys(5.0) is None
    keys.close()
    with suppress(OSError):
        out.close()
