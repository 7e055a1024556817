"""A process of ours at the other end of a pipe, which ends when we do."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from types import TracebackType
from typing import Any

from hack.bench.extender.cluster_model import ExtenderBenchError

LOOK_SECONDS = 0.1


class Child:
    """Runs `target(connection, *arguments)` in a new process while it is entered; leaving kills it."""

    def __init__(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        context = get_context("spawn")
        self._name = name
        self._ours, self._theirs = context.Pipe()
        self._process = context.Process(target=target, args=(self._theirs, *arguments), daemon=True)

    def __enter__(self) -> "Child":
        try:
            # The process inherits this: Ctrl-C reaches all processes of a terminal, but we end them in our own order.
            with _deaf_to_interrupts():
                self._process.start()
        finally:
            self._theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        self._process.kill()
        self._process.join()
        self._process.close()

    def ask(self, word: str, seconds: float) -> Any:
        """Send the process a word, and return its answer. Raises ExtenderBenchError."""
        self._ours.send(word)
        return self.hear(seconds)

    def hear(self, seconds: float, check: Callable[[], None] = lambda: None) -> Any:
        """The next message; `check` is called ten times a second. Raises ExtenderBenchError after `seconds`."""
        for _ in range(max(1, round(seconds / LOOK_SECONDS))):
            check()
            try:
                if self._ours.poll(LOOK_SECONDS):
                    return self._ours.recv()
            except (EOFError, OSError):
                raise ExtenderBenchError(f"the {self._name} ended") from None
        raise ExtenderBenchError(f"the {self._name} said nothing for {seconds:.0f} s")


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
