"""Which loops hang."""

import threading

from device_plugin.wiring.loops import Loops


def test_a_loop_that_hangs_is_named() -> None:
    now = 0.0
    health = Loops(threading.Event(), lambda: now, 120.0)
    health.turn("rounds")
    assert health.why_not_alive() == ""
    now = 120.0
    health.turn("lease")
    assert health.why_not_alive() == "rounds has not turned for 120 s"
    health.turn("rounds")
    assert health.why_not_alive() == ""
