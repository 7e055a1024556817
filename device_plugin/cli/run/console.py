"""Prints for `vgpu run`: the program's output, and lines about its Job, with a last line on a terminal that changes."""

import threading
from typing import BinaryIO, TextIO

from device_plugin.core.printable import printable

_CLEAR = "\r\x1b[K"


class Console:
    """Prints the program's output to `out`, and lines about the Job to `err`. Any thread may use it."""

    def __init__(self, out: BinaryIO, err: TextIO) -> None:
        self.closed = False
        self.terminal = err.isatty()
        self._out = out
        self._err = err
        self._last = ""
        self._drawn = False
        # False while a line of the program's output has not ended: until then nothing is drawn or cleared.
        self._at_start = True
        self._lock = threading.Lock()

    def output(self, text: bytes) -> None:
        """Print a part of the program's output. Sets `closed` if nobody reads `out` any more."""
        with self._lock:
            self._clear()
            try:
                self._out.write(text)
                self._out.flush()
            except BrokenPipeError:
                self.closed = True
            self._at_start = text.endswith(b"\n")
            self._draw()

    def say(self, text: str) -> None:
        """Print a line about the Job on stderr, above the last line of the terminal."""
        with self._lock:
            self._clear()
            print(printable(text), file=self._err, flush=True)
            self._at_start = True
            self._draw()

    def last_line(self, text: str) -> None:
        """Show this text as the last line of the terminal until the next call; an empty text removes the line."""
        with self._lock:
            self._clear()
            self._last = text
            self._draw()

    def _clear(self) -> None:
        if self._drawn:
            self._drawn = False
            print(_CLEAR, end="", file=self._err, flush=True)

    def _draw(self) -> None:
        if self.terminal and self._last and self._at_start:
            self._drawn = True
            print(self._last, end="", file=self._err, flush=True)
