"""Prints lists that are made of a reading of the cluster or of one kind of object, and goes on as they change."""

import argparse
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.cli.access import caller
from device_plugin.cli.printing import output
from device_plugin.cli.printing.output import Listing, ListPrinter
from device_plugin.cli.reading.cluster import ClusterReading
from device_plugin.cli.reading.reader import ClusterReader, Scope
from device_plugin.kube.api import Change, Kind, Where

Row = TypeVar("Row")
Item = TypeVar("Item", bound=tuple[Any, ...])
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
        if args.output not in output.OBJECTS:
            output.note([*lacking(reading), *ignored(reading)])
        if args.watch:
            printer.remember(found)
            return _follow(reader, lambda: printer.show_changes(rows(reader.reading())))
    return 0


def _follow(reader: ClusterReader, show: Callable[[], None]) -> int:
    """Call `show` after changes of what `reader` has read, until the command is interrupted."""
    changed = threading.Event()
    with reader.following(lambda _: changed.set()):
        return _show_changes(changed, show)


def _show_changes(changed: threading.Event, show: Callable[[], None]) -> int:
    """Call `show` whenever `changed` is set, until the command is interrupted."""
    sys.stdout.flush()
    try:
        while changed.wait():
            changed.clear()
            began = time.monotonic()
            show()
            time.sleep(max(PAUSE_SECONDS, PAUSE_TIMES * (time.monotonic() - began)))
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def follow_list(
    args: argparse.Namespace,
    printer: ListPrinter[Row],
    client: KubeClient,
    kind: Kind[Item],
    where: Where,
    rows: Callable[[Sequence[Item]], tuple[Sequence[Row], Sequence[str]]],
    empty: str,
) -> int:
    """Print the rows that `rows` makes of one list, with what is to be said beside; with --watch, go on.

    Items are told apart by their first two fields, namespace and name. Raises ApiError.
    """
    listed = client.list(kind, where)
    found, notes = rows(listed.items)
    printer.show(found, {"faults": list(notes)}, empty)
    if args.output not in output.OBJECTS:
        output.note(notes)
    if not args.watch:
        return 0
    printer.remember(found)
    known = {item[:2]: item for item in listed.items}
    changed, stop, lock = threading.Event(), threading.Event(), threading.Lock()

    def sync(items: Sequence[Item]) -> None:
        with lock:
            known.clear()
            known.update({item[:2]: item for item in items})
        changed.set()

    def see(change: Change, item: Item) -> None:
        with lock:
            known.pop(item[:2], None)
            if change is not Change.DELETED:
                known[item[:2]] = item
        changed.set()

    def show() -> None:
        with lock:
            items = [*known.values()]
        printer.show_changes(rows(items)[0])

    watch = ListWatch(client, kind, where, version=listed.version)
    thread = threading.Thread(target=watch.run, args=(sync, see, stop), daemon=True)
    thread.start()
    try:
        return _show_changes(changed, show)
    finally:
        stop.set()
        watch.interrupt()
        thread.join()


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
