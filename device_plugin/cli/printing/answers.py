"""Prints answers: the answer in one line, then a line for each reason, then what would help, and where it is from.

    default/notebook asks for hygon.com/dcu-mem: 8 and fits no node now
      1 node with Z100 (gpu-1): 2 cards: 2 lack memory (largest free 4 GiB)
    What would help:
      Wait for slices to end, or ask for less memory
    From the API server's lists and the allocator's 0 reservations

On a terminal, lines are broken at its width. Times are relative to now.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TextIO

from device_plugin.cli.printing.terminal import BOLD, DIM, GREEN, Terminal
from device_plugin.core.answers import Answer
from device_plugin.core.moments import relative
from device_plugin.core.printable import printable

HELP = "What would help:"
INDENT = 2
# Most characters of a sentence, which may quote a text of the API server or of a tenant; -o json has all of it.
MOST_TEXT = 4096


def show(answers: Iterable[Answer], out: TextIO | None = None) -> None:
    """Print answers, one below the other."""
    stream = out or sys.stdout
    terminal, now = Terminal.of(stream), time.time()
    for answer in answers:
        stream.writelines(f"{line}\n" for line in lines(answer, terminal, now))


def lines(answer: Answer, terminal: Terminal, now: float) -> Iterator[str]:
    """Yields the lines of an answer for this terminal at the time `now`, in seconds since 1970."""

    def block(text: str, style: str, indent: int = 0) -> Iterator[str]:
        shown = printable(relative(text[:MOST_TEXT], now))
        cut = "\N{HORIZONTAL ELLIPSIS}" if len(text) > MOST_TEXT else ""
        return (terminal.painted(line, style) for line in terminal.wrapped(shown + cut, indent))

    yield from block(answer.line, BOLD)
    for reason in answer.reasons:
        yield from block(reason, "", INDENT)
    if answer.helps:
        yield terminal.painted(HELP, BOLD)
    for cure in answer.helps:
        yield from block(cure, GREEN, INDENT)
    if answer.source:
        yield from block(answer.source, DIM)
