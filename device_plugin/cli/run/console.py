"""Prints for `vgpu run`: the program's output, and lines about its Job, with a progress bar at a terminal's end."""

import shutil
import threading
from typing import BinaryIO, TextIO

from device_plugin.cli.printing.output import age
from device_plugin.core.jobs.progress import Progress

BAR = 30
_CLEAR = "\r\x1b[K"


class Console:
    """Prints the program's output to `out`, and lines about the Job to `err`. Any thread may use it."""

    def __init__(self, out: BinaryIO, err: TextIO) -> None:
        self.closed = False
        self.terminal = err.isatty()
        self._out = out
        self._err = err
        self._bar = ""
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
            if text.endswith(b"\n"):  # otherwise the line goes on
                self._draw()

    def say(self, text: str) -> None:
        """Print a line about the Job."""
        with self._lock:
            self._clear()
            print(text, file=self._err, flush=True)
            self._draw()

    def bar(self, text: str) -> None:
        """Show this text as the last line of the terminal until the next call; an empty text removes the line."""
        with self._lock:
            self._clear()
            self._bar = text[: shutil.get_terminal_size().columns - 1]
            self._draw()

    def _clear(self) -> None:
        if self.terminal and self._bar:
            print(_CLEAR, end="", file=self._err, flush=True)

    def _draw(self) -> None:
        if self.terminal and self._bar:
            print(self._bar, end="", file=self._err, flush=True)


def progress_bar(told: Progress) -> str:
    """Returns a bar such as `[######......]  50 %`."""
    filled = BAR * told.done // told.total
    return f"[{'#' * filled}{'.' * (BAR - filled)}] {100 * told.done // told.total:3} %"


def progress_text(told: Progress, left: float | None) -> str:
    """Returns the progress as text, with the remaining time: `120000 of 1281167, about 2h10m left`."""
    return f"{told.done} of {told.total}" + (f", about {age(left)} left" if left else "")
