"""Reads the output of a container line by line, also while the container runs.

The time of a line is not stored. A line's timestamp is the start of the attempt plus one nanosecond for each earlier
line, so that a reader can go on after the last line that it has.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import BinaryIO, NamedTuple

from hack.embedded.runtime.containers import ContainerAttempt

LOOK_SECONDS = 0.05
_NANOSECONDS = 1_000_000_000


class LogOptions(NamedTuple):
    """The options of a reader. `since` is in nanoseconds since 1970; `tail` limits the reader to the last lines."""

    follow: bool = False
    timestamps: bool = False
    since: int = 0
    tail: int | None = None

    @classmethod
    def of(cls, query: Mapping[str, list[str]]) -> "LogOptions":
        """The options in a request's query, which has the names of PodLogOptions."""

        def last(name: str) -> str:
            return query.get(name, [""])[-1]

        since = 0
        if moment := last("sinceTime"):
            since = int(datetime.fromisoformat(moment).timestamp()) * _NANOSECONDS
        elif seconds := last("sinceSeconds"):
            since = time.time_ns() - int(seconds) * _NANOSECONDS
        tail = last("tailLines")
        return cls(
            last("follow") in ("1", "true"),
            last("timestamps") in ("1", "true"),
            since,
            int(tail) if tail else None,
        )


def lines(attempt: ContainerAttempt, options: LogOptions) -> Iterator[bytes]:
    """Yield the chosen lines as they come; the last line of an ended container may lack its newline."""
    if attempt.log is None:
        return
    with attempt.log.open("rb") as file:
        file.seek(attempt.log_start)
        numbered = enumerate(_present(file))
        chosen = numbered if options.tail is None else deque(numbered, options.tail)
        count = 0
        for count, line in chosen:
            yield from _shown(attempt, count, line, options)
        if options.follow:
            for number, line in enumerate(_coming(attempt, file), count + 1):
                yield from _shown(attempt, number, line, options)


def _present(file: BinaryIO) -> Iterator[bytes]:
    while line := file.readline():
        yield line


def _coming(attempt: ContainerAttempt, file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that the container prints from now on, until it has ended."""
    part = b""
    while True:
        over = attempt.exit_code is not None
        while line := file.readline():
            part += line
            if part.endswith(b"\n"):
                yield part
                part = b""
        if over:
            if part:
                yield part
            return
        time.sleep(LOOK_SECONDS)


def _shown(attempt: ContainerAttempt, number: int, line: bytes, options: LogOptions) -> Iterator[bytes]:
    at = attempt.made + number
    if at >= options.since:
        yield _timestamp(at) + b" " + line if options.timestamps else line


def _timestamp(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, _NANOSECONDS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z".encode()
