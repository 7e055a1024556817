"""Signals that end a command let it clean up behind itself."""

import signal
from signal import SIGHUP, SIGTERM

import pytest

from device_plugin.cli.interrupts import interruptible


@pytest.mark.parametrize("number", [SIGTERM, SIGHUP])
def test_a_signal_ends_a_command_as_ctrl_c_does(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(number)
    assert signal.getsignal(number) == before
