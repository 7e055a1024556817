"""Ends a command that fails: with one line on stderr that says what to do, and an exit status."""

import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path

from device_plugin.core.errors import VgpuError
from device_plugin.core.exit_status import ERROR, INTERRUPTED, UNREAD
from device_plugin.core.printable import one_line, printable

log = logging.getLogger(__name__)

# An answer of the API server, or a word of the command line, may be longer than anybody reads.
MOST_CHARACTERS = 2000


class ArgumentError(VgpuError):
    """A word of the command line is not text in the terminal's encoding."""


class OutputError(VgpuError):
    """The output cannot be written: the disk is full, for example."""


def exit_status(run: Callable[[], int], *, of_people: bool) -> int:
    """Returns the exit status of `run`, and prints a failure in one line. argparse's SystemExit is not caught.

    `of_people`: the command is for people, so an unexpected error is printed in one line too. A service raises such an
    error, for its log.
    """
    try:
        return _status(run, of_people=of_people)
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED


def _status(run: Callable[[], int], *, of_people: bool) -> int:
    """Returns the exit status of `run`, and prints a failure in one line. KeyboardInterrupt is not caught."""
    try:
        try:
            return run()
        finally:
            # Flushed here: a failure while the interpreter ends could not be distinguished from others.
            _flush_output()
    except BrokenPipeError:
        return UNREAD
    except Exception as error:
        if not of_people and not isinstance(error, VgpuError):
            raise
        _say(_line(error))
        if not isinstance(error, VgpuError):
            log.debug("how it came to that", exc_info=True)
        return ERROR


def _flush_output() -> None:
    """Flush the output. Raises BrokenPipeError if nobody reads it, OutputError if it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes stdout once more when it ends, which would fail again and change the exit status.
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise OutputError(error.strerror or str(error)) from None


def check_words(words: Sequence[str]) -> None:
    """Raise ArgumentError for a word whose bytes are not text in the terminal's encoding: no request can hold it."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise ArgumentError(f"{word!a} is not text in UTF-8: correct this argument") from None


def open_streams() -> None:
    """Open closed standard streams on /dev/null, and let stdout escape characters that its encoding lacks."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - until the program ends
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _say(text: str) -> None:
    shown = text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]} ..."
    with suppress(OSError):  # nobody reads it
        print(f"vgpu: {shown}", file=sys.stderr, flush=True)  # noqa: T201 - the one place where a command fails


def _line(error: Exception) -> str:
    """Returns the failure in one line. For an unexpected error, which is a defect, the line names file and line."""
    if isinstance(error, VgpuError):
        return " ".join(map(printable, str(error).splitlines()))
    if isinstance(error, ModuleNotFoundError):
        return f"the package {error.name} is missing: run pip install '.[cli]' in a checkout of vgpu"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}:{last.lineno}"
    return (
        f"a defect of vgpu ({type(error).__name__}: {one_line(str(error))[:200]}, {where}): please report it"
    )
