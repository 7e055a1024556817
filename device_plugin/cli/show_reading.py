"""Prints lists that are made of a reading of the cluster, and goes on as it changes."""

import argparse
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from device_plugin.cli import caller, output
from device_plugin.cli.cluster_reading import ClusterReading
from device_plugin.cli.output import Listing, ListPrinter
from device_plugin.cli.read_cluster import ClusterReader, Scope

Row = TypeVar("Row")
# A pause after each change, in seconds and in times of what the last reading took: changes come together.
PAUSE_SECONDS, PAUSE_TIMES = 0.2, 3.0
INTERRUPTED = 130


def run_list(
    args: argparse.Namespace,
    listing: Listing[Row],
    scope: Scope,
    rows: Callable[[ClusterReading], Sequence[Row]],
    empty: str,
) -> int:
    """Print the rows of a reading, and with --watch those that change. Raises ApiError, EndpointError, SortError."""
    printer = ListPrinter(args, listing)
    if not args.watch:
        # Nothing of it is garbage before the end: with 68,000 slices looking for some costs 0.5 s.
        gc.disable()
    with caller.connected(args) as client:
        reader = ClusterReader(client, scope)
        reading = reader.read()
        found = rows(reading)
        printer.show(found, beside(reading), empty)
        if args.output not in ("json", "yaml"):
            output.note([*lacking(reading), *ignored(reading)])
        if args.watch:
            printer.remember(found)
            return _follow(reader, lambda: printer.show_changes(rows(reader.reading())))
    return 0


def _follow(reader: ClusterReader, show: Callable[[], None]) -> int:
    """Call `show` after changes, until the command is interrupted."""
    sys.stdout.flush()
    changed = threading.Event()
    with reader.following(lambda _: changed.set()):
        try:
            while changed.wait():
                changed.clear()
                began = time.monotonic()
                show()
                time.sleep(max(PAUSE_SECONDS, PAUSE_TIMES * (time.monotonic() - began)))
        except KeyboardInterrupt:
            return INTERRUPTED
    return 0


def beside(reading: ClusterReading) -> Mapping[str, Any]:
    """For programs: what was not read, and what was ignored."""
    missing = [{"what": each.what, "unknown": each.unknown, "rule": each.rule} for each in reading.missing]
    faults = [{"subject": each.subject, "text": each.text} for each in reading.faults]
    return {"namespace": reading.namespace or None, "missing": missing, "faults": faults}


def lacking(reading: ClusterReading) -> Iterable[str]:
    """For people: what may not be read."""
    return map(str, reading.missing)


def ignored(reading: ClusterReading) -> Iterable[str]:
    """For people: annotations that cannot be read."""
    return (f"ignored, of {each.subject}: {each.text}" for each in reading.faults)
