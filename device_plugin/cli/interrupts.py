"""Ends a command in the same way, whatever signal ends it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGHUP, SIGTERM


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt as Ctrl-C does, so that the command cleans up.

    Does nothing in a thread other than the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in (SIGTERM, SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
