"""Signals that end a command let it clean up behind itself; those that end a service are never missed."""

import os
import signal
import threading
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM, SIGUSR1

import pytest

from device_plugin.cli.interrupts import interruptible, stopped_by_signals

SECONDS = 60.0
DESCRIPTORS = Path("/proc/self/fd")


@pytest.mark.parametrize("number", [SIGTERM, SIGHUP])
def test_a_signal_ends_a_command_as_ctrl_c_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


@pytest.mark.parametrize("number", [SIGTERM, SIGINT])
def test_a_signal_sets_the_event_while_the_main_threads_own_handler_cannot_end(
    number: signal.Signals,
) -> None:
    """As where that thread waits in C: the event must not depend on what it does."""
    found = list[bool]()
    with stopped_by_signals() as stop:
        signal.signal(number, lambda *_: found.append(stop.wait(SECONDS)))
        os.kill(os.getpid(), number)
        assert stop.wait(SECONDS)
    assert found == [True]


def test_another_signal_sets_nothing_and_all_is_as_before_afterwards() -> None:
    handlers = {number: signal.getsignal(number) for number in (SIGTERM, SIGINT)}
    threads, descriptors = threading.active_count(), len([*DESCRIPTORS.iterdir()])
    seen = threading.Event()
    last = signal.signal(SIGUSR1, lambda *_: seen.set())
    try:
        with stopped_by_signals() as stop:
            os.kill(os.getpid(), SIGUSR1)
            assert seen.wait(SECONDS)
            assert not stop.is_set()
    finally:
        signal.signal(SIGUSR1, last)
    assert {number: signal.getsignal(number) for number in handlers} == handlers
    assert (threading.active_count(), len([*DESCRIPTORS.iterdir()])) == (threads, descriptors)
