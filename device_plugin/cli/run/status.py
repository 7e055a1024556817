"""The state of a Job for `vgpu run`: a line for each change, and on a terminal a last line with a bar and the time.

    train: waits in its queue
    ░░░░████░░░░░░░░░░░░ 12m4s  train waits in its queue: room for 4 pods, number 1 of its queue

Without a terminal there are only lines, each with the reason of the state.
"""

import time
from collections.abc import Callable
from typing import TextIO

from device_plugin.cli.printing.output import age
from device_plugin.cli.printing.terminal import Terminal
from device_plugin.cli.run.console import Console
from device_plugin.core.jobs.progress import Progress
from device_plugin.core.printable import printable

BAR = 20
# The first word of the state of a Job that has replicas.
RUNS = "runs"
# A terminal with fewer columns has no bar.
NARROW = 50


class JobStatus:
    """Shows the state of one Job on a console. `err` is the console's stream for lines about the Job."""

    def __init__(
        self, console: Console, err: TextIO, job: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._err = err
        self._job = job
        self._clock = clock
        self._said = ""
        self._state = self._why = ""
        self._since = clock()
        self._progress: Progress | None = None
        self._left: float | None = None

    def state(self, state: str, why: str = "") -> None:
        """Show a state, such as `starts`, and its reason. On a terminal only a change of the state has its own line."""
        if _kind(state) != _kind(self._state):
            self._since = self._clock()
        self._state, self._why = state, why
        text = f"{state}: {why}" if why and not self._console.terminal else state
        if text != self._said:
            self._said = text
            self._console.say(f"{self._job}: {text}")
        self.redraw()

    def progress(self, told: Progress | None, left: float | None = None) -> None:
        """Show the progress of the program (None: not known), and the seconds that the rest takes."""
        self._progress, self._left = told, left
        if told is not None and not self._console.terminal:
            self._console.say(f"{self._job}: {_text(told, left)}")
        self.redraw()

    def redraw(self) -> None:
        """Draw the Job's line at the end of the terminal again, with the time that has passed."""
        if not self._console.terminal:
            return
        terminal, passed = Terminal.of(self._err), self._clock() - self._since
        told = self._progress if _kind(self._state) == RUNS else None
        bar = (
            terminal.moving_bar(int(passed), BAR)
            if told is None
            else terminal.bar(told.done / told.total, BAR)
        )
        why = self._why if told is None else _text(told, self._left)
        share = f"{100 * told.done // told.total:3}%  " if told is not None else ""
        text = f"{share}{age(passed)}  {self._job} {self._state}{': ' if why else ''}{why}"
        # The last column stays free: some terminals begin a new line when it is filled.
        wide = terminal.width >= NARROW
        room = terminal.width - 1 - (BAR + 1 if wide else 0)
        shown = printable(text)
        if len(shown) > room:
            shown = f"{shown[: max(room - 1, 0)]}\N{HORIZONTAL ELLIPSIS}"
        self._console.last_line(f"{bar} {shown}" if wide else shown)

    def close(self) -> None:
        """Remove the line about the Job that is the last one on the terminal."""
        self._console.last_line("")


def _kind(state: str) -> str:
    """Returns the first word of a state: states with different numbers of replicas are of one kind."""
    return state.partition(" ")[0]


def _text(told: Progress, left: float | None) -> str:
    """Returns the progress as text, with the remaining time: `120000 of 1281167, about 2h10m left`."""
    return f"{told.done} of {told.total}" + (f", about {age(left)} left" if left else "")
