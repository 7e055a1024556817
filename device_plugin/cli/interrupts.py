"""Handles the signals that end a program, so that a command or a service ends in an orderly way."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from signal import SIGHUP, SIGINT, SIGTERM


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


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """Yields an event that SIGTERM and SIGINT set. Only for the main thread.

    A handler in Python must not set the event: it runs in the main thread, between two instructions. If a signal came
    just before that thread waits for the event, the wait would go on until the next signal. So Python's handler in C
    writes the signal's number to a pipe; another thread reads the pipe and sets the event.
    """
    stop = threading.Event()
    read, write = os.pipe()
    os.set_blocking(write, False)

    def wait() -> None:
        while os.read(read, 1)[0] not in (SIGTERM, SIGINT):
            pass
        stop.set()

    thread = threading.Thread(target=wait, name="signals", daemon=True)
    thread.start()
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    before = {number: signal.signal(number, lambda *_: None) for number in (SIGTERM, SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        os.write(write, bytes([SIGTERM]))
        thread.join()
        os.close(read)
        os.close(write)
