"""A full screen on a terminal, which reads keys one by one and shows lines until its context ends.

The screen is the terminal's alternate one (xterm's control sequences), so that the earlier content comes back.
"""

import os
import select
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, TextIO

from device_plugin.core.errors import VgpuError

# The alternate screen without a cursor. Without line wrap, a line that is too long is cut by the terminal.
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[?7l", "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME, _END_OF_LINE, _END_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
# Bytes of keys that are read at once.
_MOST_BYTES = 1024
# The first bytes of special keys, and seconds to wait for the others.
_BEGUN, _PARTED_SECONDS = (b"\x1b", b"\x1b[", b"\x1bO"), 0.05
UP, DOWN, PAGE_UP, PAGE_DOWN, TOP, BOTTOM = "up", "down", "page up", "page down", "top", "bottom"
ENTER, ESCAPE, ERASE = "enter", "escape", "erase"
# The last characters of the sequences of special keys, after ESC [ or ESC O.
_SPECIAL = {
    "A": UP, "B": DOWN, "H": TOP, "F": BOTTOM, "1~": TOP, "4~": BOTTOM, "5~": PAGE_UP, "6~": PAGE_DOWN
}  # fmt: skip
_CONTROL = {"\r": ENTER, "\n": ENTER, "\x7f": ERASE, "\b": ERASE}


class LiveError(VgpuError):
    """A live screen cannot be shown; the text says what to write instead."""


class Screen:
    """The screen of a terminal, with input `keys` and output `out`.

    Its context takes over the terminal, and restores it. Ctrl-C raises KeyboardInterrupt as usual. Ctrl-Z and
    Ctrl-backslash do nothing, because they would leave the terminal as it is.
    """

    def __init__(self, keys: TextIO | None = None, out: TextIO | None = None) -> None:
        """`keys` and `out` are by default stdin and stdout. Raises LiveError if one of them is no terminal."""
        given, shown = keys or sys.stdin, out or sys.stdout
        if not (given.isatty() and shown.isatty()):
            raise LiveError("--live needs a terminal: write -w to print rows as they change")
        self.out = shown
        self._keys = given.fileno()
        self._before: list[Any] = []

    def __enter__(self) -> "Screen":
        self._before = termios.tcgetattr(self._keys)
        now = termios.tcgetattr(self._keys)
        now[3] &= ~(termios.ICANON | termios.ECHO)
        nothing = os.fpathconf(self._keys, "PC_VDISABLE").to_bytes()
        now[6][termios.VSUSP] = now[6][termios.VQUIT] = nothing
        now[6][termios.VMIN], now[6][termios.VTIME] = 1, 0
        termios.tcsetattr(self._keys, termios.TCSAFLUSH, now)
        self._write(_ENTER)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A terminal that is gone needs no restoring.
        with suppress(OSError):
            self._write(_LEAVE)
        with suppress(termios.error):
            termios.tcsetattr(self._keys, termios.TCSAFLUSH, self._before)

    def size(self) -> os.terminal_size:
        """Returns the columns and lines of the terminal now."""
        return os.get_terminal_size(self.out.fileno())

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines from the top, in place of all others."""
        self._write(_HOME + "\n".join(f"{line}{_END_OF_LINE}" for line in lines) + _END_OF_SCREEN)

    def keys(self, seconds: float) -> Sequence[str] | None:
        """Returns the keys that were pressed, as soon as there are some, or after `seconds`; None without a terminal.

        A key is its character, or one of the names in this module.
        """
        if not self._pressed(seconds):
            return ()
        try:
            found = os.read(self._keys, _MOST_BYTES)
            # A slow connection may part the sequence of a special key.
            if found.endswith(_BEGUN) and self._pressed(_PARTED_SECONDS):
                found += os.read(self._keys, _MOST_BYTES)
        except OSError:
            return None
        return [*parsed(found.decode(errors="replace"))] if found else None

    def _pressed(self, seconds: float) -> bool:
        return bool(select.select([self._keys], [], [], seconds)[0])

    def _write(self, text: str) -> None:
        self.out.write(text)
        self.out.flush()


def parsed(text: str) -> Iterator[str]:
    """Yields the keys in the text that a terminal sent; sequences of unknown keys are left out."""
    at = 0
    while at < len(text):
        if text[at] != "\x1b":
            key = _CONTROL.get(text[at], text[at])
            at += 1
            if len(key) > 1 or key.isprintable():
                yield key
        elif text[at + 1 : at + 2] in ("[", "O"):
            end = at + 2
            while end < len(text) and text[end] in "0123456789;":
                end += 1
            if (key := _SPECIAL.get(text[at + 2 : end + 1], "")) != "":
                yield key
            at = end + 1
        else:
            yield ESCAPE
            at += 1
