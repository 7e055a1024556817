"""The loop of a live screen: draws it each second and after each key, until `q`, Ctrl-C, or the end of the terminal."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from device_plugin.cli.interrupts import interruptible
from device_plugin.cli.live.feed import LiveFeed
from device_plugin.cli.live.screen import Screen
from device_plugin.cli.live.view import LiveView
from device_plugin.cli.printing.terminal import Terminal
from device_plugin.core.exit_status import INTERRUPTED

Row = TypeVar("Row")
DRAW_SECONDS = 1.0


def show(screen: Screen, view: LiveView[Row], feed: LiveFeed[Row]) -> int:
    """Show the list (view) on the screen until a person ends it; returns the exit status."""
    terminal = Terminal.of(screen.out)
    try:
        with interruptible(), _silent(), screen:
            while True:
                size = screen.size()
                screen.draw(view.lines(feed.frame(), replace(terminal, width=size.columns), size.lines))
                keys = screen.keys(DRAW_SECONDS)
                if keys is None or not all(view.press(key) for key in keys):
                    return 0
    except KeyboardInterrupt:
        return INTERRUPTED


@contextmanager
def _silent() -> Iterator[None]:
    """Log nothing until the context ends: a line on stderr would appear in the middle of the screen."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
