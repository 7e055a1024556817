"""Programs in a slice: how the checks start them, and what they answer. program.py is what runs in them."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hack.gpu_check.cards import Card, cards

TIMEOUT_SECONDS = 120
OUT_OF_MEMORY, NO_DEVICE = 2, 100  # errors of HIP, unchanged since 5.0


class ImpossibleError(Exception):
    """A check cannot be made on this machine; the message is the reason."""


class FailedError(Exception):
    """A check was made and has failed; the message says what is wrong."""


@dataclass(frozen=True)
class Running:
    """A program in a slice that does one step after another. `words` are its command line."""

    words: str
    process: subprocess.Popen[str]

    def go(self) -> None:
        """Start the program's next step. A step that would go on for ever ends by this."""
        assert self.process.stdin is not None  # noqa: S101 - PIPE
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write("\n")
            self.process.stdin.flush()

    def answer(self) -> Mapping[str, float]:
        """Return the answer of a step. Raises ImpossibleError and FailedError."""
        assert self.process.stdout is not None  # noqa: S101 - PIPE
        line = self.process.stdout.readline()
        if not line:
            raise FailedError(f"`{self.words}` ended without an answer")
        return _answer(line)

    def end(self) -> None:
        """End the program, if it still runs, and wait for its end."""
        assert self.process.stdin is not None  # noqa: S101 - PIPE
        if not self.process.stdin.closed:
            self.process.communicate()


def command_of(words: str, card: Card, device: str = "") -> list[str]:
    """The command line that runs program.py on a card with a command of its COMMANDS, as in "alloc MIB".

    HIP's device is the card's index, or the `device` with a PCI address.
    """
    device = device or str([other.gpu_id for other in cards()].index(card.gpu_id))
    return [sys.executable, "-m", "hack.gpu_check.program", *words.split(), device]


def ask(words: str, card: Card, environment: Mapping[str, str] | None = None) -> Mapping[str, float]:
    """Run a command of one step, in a slice's environment or without one; returns its answer.

    Raises ImpossibleError and FailedError.
    """
    return answer_of(words, command_of(words, card), environment)


def answer_of(
    words: str, command: Sequence[str], environment: Mapping[str, str] | None
) -> Mapping[str, float]:
    """Run a command line that ends with a command of one step; returns its answer as `ask` does."""
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    lines = done.stdout.splitlines()
    if not lines:
        raise FailedError(f"`{words}` ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
    return _answer(lines[-1])


@contextlib.contextmanager
def started(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[Running]:
    """Start a program that lives until the context ends, and at most TIMEOUT_SECONDS."""
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        timer = threading.Timer(TIMEOUT_SECONDS, process.kill)
        timer.start()
        program = Running(" ".join(command), process)
        try:
            yield program
        finally:
            program.end()
            timer.cancel()


def good(answer: Mapping[str, float], doing: str) -> Mapping[str, float]:
    """Return the answer. Raises FailedError if it has an error of HIP."""
    if answer["error"]:
        raise FailedError(f"{doing}: HIP error {answer['error']:.0f}")
    return answer


def _answer(line: str) -> Mapping[str, float]:
    answer = json.loads(line)
    if "impossible" in answer:
        raise ImpossibleError(answer["impossible"])
    return dict(answer)
