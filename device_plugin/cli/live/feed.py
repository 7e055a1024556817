"""Reads rows for a live screen in a thread of its own, so that keys never wait for an API server."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from device_plugin.cli.live.view import Frame
from device_plugin.cli.printing.output import age
from device_plugin.core.errors import VgpuError

Row = TypeVar("Row")
# Seconds between two readings.
READ_SECONDS = 1.0
# Seconds to wait at the end for a reading that is under way.
END_SECONDS = 2.0


class LiveFeed(Generic[Row]):
    """Calls `read` every READ_SECONDS; `frame` returns the latest answer.

    `read` returns the rows of a list, and a note. A VgpuError of `read` is shown until a reading succeeds; `frame`
    raises any other error.
    """

    def __init__(
        self, read: Callable[[], tuple[Sequence[Row], str]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._rows: Sequence[Row] = ()
        self._note = ""
        # By source, the time since which it does not answer, and why.
        self._lost: dict[str, tuple[float, str]] = {}
        self._broken: BaseException | None = None

    def frame(self) -> Frame[Row]:
        """Returns the last rows, and the present problem.

        Raises the error that ended the reading thread, if there was one.
        """
        with self._lock:
            if self._broken is not None:
                raise self._broken
            lost = ""
            if self._lost:
                since, why = min(self._lost.values())
                lost = f"connection lost, figures of {age(self._clock() - since)} ago: {why}"
            return Frame(self._rows, self._note, lost)

    def heard(self, source: str, error: VgpuError | None) -> None:
        """Record the error because of which a source does not answer; None: the source answers again."""
        with self._lock:
            if error is None:
                self._lost.pop(source, None)
            else:
                since, _ = self._lost.get(source, (self._clock(), ""))
                self._lost[source] = since, str(error)

    def step(self) -> None:
        """Call `read` once, and keep its rows and note; a VgpuError that it raises is kept too, and shown."""
        try:
            rows, note = self._read()
        except VgpuError as error:
            self.heard("rows", error)
            return
        self.heard("rows", None)
        with self._lock:
            self._rows, self._note = rows, note

    @contextmanager
    def running(self) -> Iterator[None]:
        """Call `read` again and again in a thread until the context ends."""
        stop = threading.Event()

        def run() -> None:
            try:
                while not stop.is_set():
                    self.step()
                    stop.wait(READ_SECONDS)
            except BaseException as error:  # noqa: BLE001 - it is raised where it is seen
                self._broken = error

        thread = threading.Thread(target=run, name="live", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(END_SECONDS)
