"""Threads of a service. If one of them fails, the service ends: otherwise it would serve with a part missing."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)


class Threads:
    """Starts threads; when one of them raises, `failed` and `stop` are set."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._threads: list[threading.Thread] = []
        self.failed = False

    def spawn(self, name: str, run: Callable[[], None]) -> None:
        """Start a thread of this name that calls `run`; an exception of `run` is logged, and ends the service."""

        def guarded() -> None:
            try:
                run()
            except Exception:  # of any kind
                log.exception("%s failed; the service ends", name)
                self.failed = True
                self._stop.set()

        thread = threading.Thread(target=guarded, name=name, daemon=True)
        thread.start()
        # Threads that have ended are not kept: watches of kinds that come and go have a thread each.
        self._threads = [*(each for each in self._threads if each.is_alive()), thread]

    def join(self) -> None:
        """Wait until all threads have ended."""
        for thread in self._threads:
            thread.join()
