"""The loops of a service, each in a thread of its own; /healthz fails if one of the watched loops hangs."""

import threading
from collections.abc import Callable

from device_plugin.wiring.threads import Threads


class Loops:
    """Runs functions again and again until `stop` is set.

    The methods `turns` and `paced` run watched loops. A watched loop counts as hanging once its latest call began
    `stuck_seconds` ago.
    """

    def __init__(self, stop: threading.Event, clock: Callable[[], float], stuck_seconds: float) -> None:
        self._stop = stop
        self._clock = clock
        self._stuck_seconds = stuck_seconds
        self._turned: dict[str, float] = {}
        self.threads = Threads(stop)

    def turns(self, name: str, seconds: float, step: Callable[[], None]) -> None:
        """Call `step` until `stop` is set, with pauses of `seconds`; `why_not_alive` reports a call that hangs."""

        def turn() -> float:
            step()
            return seconds

        self.paced(name, turn)

    def paced(self, name: str, step: Callable[[], float]) -> None:
        """Call `step` until `stop` is set, with pauses of the seconds that it returns.

        `why_not_alive` reports a call that hangs.
        """
        while not self._stop.is_set():
            self.turn(name)
            self._stop.wait(step())

    def every(self, seconds: float, step: Callable[[], None]) -> None:
        """Pause for `seconds`, then call `step`, until `stop` is set; a call that hangs is not reported."""
        while not self._stop.wait(seconds):
            step()

    def again(self, step: Callable[[], float]) -> None:
        """Call `step` until `stop` is set, with pauses of the seconds that it returns.

        A call that hangs is not reported.
        """
        pause = 0.0
        while not self._stop.wait(pause):
            pause = step()

    def turn(self, name: str) -> None:
        """Record that a loop begins to call its function now."""
        self._turned[name] = self._clock()

    def why_not_alive(self) -> str:
        """Returns the loops that hang, as text; empty if none hangs."""
        now = self._clock()
        ages = sorted((loop, now - at) for loop, at in list(self._turned.items()))
        return "; ".join(
            f"{loop} has not turned for {age:.0f} s" for loop, age in ages if age >= self._stuck_seconds
        )
