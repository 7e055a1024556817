"""Prints lists of the cluster or of one kind of object; with --watch also the rows that change later."""

import argparse
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Generic, TypeVar

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.watch import ListWatch
from device_plugin.cli.access import caller
from device_plugin.cli.access.caller import list_unless_forbidden
from device_plugin.cli.printing import formats, output
from device_plugin.cli.printing.output import Listing, ListPrinter
from device_plugin.cli.reading.cluster import ClusterReading, MissingRight
from device_plugin.cli.reading.reader import ClusterReader, rule_to_list
from device_plugin.core.errors import VgpuError
from device_plugin.core.exit_status import INTERRUPTED
from device_plugin.kube.api import Change, Kind, Listed, Where

Row = TypeVar("Row")
Item = TypeVar("Item", bound=tuple[Any, ...])
AnyItem = TypeVar("AnyItem")
Notes = Callable[[], Sequence[str]]
# The pause after each change, in seconds, and as a multiple of the time of the last reading: changes come in groups.
PAUSE_SECONDS, PAUSE_TIMES = 0.2, 3.0


class ListForbiddenError(VgpuError):
    """The caller may list none of the objects that a command shows; the text has the rule that would allow it."""


def show_reading(
    args: argparse.Namespace,
    listing: Listing[Row],
    reader: ClusterReader,
    rows: Callable[[ClusterReading], Sequence[Row]],
    empty: str,
    *,
    notes: Notes | None = None,
    every: float | None = None,
) -> int:
    """Print the rows that `rows` makes of a reading; with --watch, also the rows that change later.

    `notes` is called after `rows` and returns remarks on them. With `every`, rows are made again after `every` seconds
    without a change too. Returns the exit status. Raises ListForbiddenError, ApiError, SortError.
    """
    printer = ListPrinter(args, listing)
    reading = reader.read()
    if reader.forbidden:
        raise forbidden(reading.missing)
    found = rows(reading)
    said = [*notes()] if notes is not None else []
    # Objects that the caller may not read would perhaps be rows.
    empty = f"no {listing.plural} are known" if reading.missing else empty
    printer.show(found, {**beside(reading), **({} if notes is None else {"notes": said})}, empty)
    if args.output not in formats.OBJECTS:
        output.note([*lacking(reading), *said, *ignored(reading)])
    if not args.watch:
        return 0
    printer.remember(found)
    changed = threading.Event()

    def show() -> None:
        nonlocal said
        printer.show_changes(rows(reader.reading()))
        said = _note_changed(args, said, notes)

    with reader.following(lambda _: changed.set()):
        return show_changes(changed, show, every)


def forbidden(missing: Sequence[MissingRight]) -> ListForbiddenError:
    """Returns the error for a caller who needs one of these rights and has none."""
    right = ", nor ".join(each.what for each in missing)
    rule = ", or the rule ".join(each.rule for each in missing)
    return ListForbiddenError(f"you may not {right}: have an administrator add the rule {rule}")


def _note_changed(args: argparse.Namespace, said: Sequence[str], notes: Notes | None) -> list[str]:
    """Returns the present notes. In a format for people, prints the notes that are not in `said`, the earlier notes."""
    now = [*notes()] if notes is not None else []
    if args.output not in formats.OBJECTS:
        output.note([line for line in now if line not in said])
    return now


def show_changes(changed: threading.Event, show: Callable[[], None], every: float | None = None) -> int:
    """Call `show` each time that `changed` is set, until Ctrl-C; returns the exit status INTERRUPTED.

    With `every`, `show` is also called after `every` seconds without a change.
    """
    sys.stdout.flush()
    try:
        while True:
            changed.wait(every)
            changed.clear()
            began = time.monotonic()
            show()
            time.sleep(max(PAUSE_SECONDS, PAUSE_TIMES * (time.monotonic() - began)))
    except KeyboardInterrupt:
        return INTERRUPTED


def follow_list(
    args: argparse.Namespace,
    printer: ListPrinter[Row],
    client: KubeClient,
    kind: Kind[Item],
    where: Where,
    rows: Callable[[Sequence[Item]], tuple[Sequence[Row], Sequence[str]]],
    empty: str,
    *,
    notes: Notes | None = None,
    every: float | None = None,
) -> int:
    """List objects, and print the rows that `rows` makes of them; with --watch, also the rows that change later.

    `rows` returns the rows, which begin with namespace and name, and texts about objects that cannot be read. If the
    caller may not list all namespaces, only the caller's own namespace is listed. `notes` is called after `rows` and
    returns remarks on the rows. With `every`, rows are made again after `every` seconds without a change too.

    Returns the exit status. Raises ListForbiddenError, ApiError, EndpointError.
    """
    listed, where, missing = list_allowed(args, client, kind, where)
    found, faults = rows(listed.items)
    said = [*notes()] if notes is not None else []
    keys = {"missing": [*map(MissingRight.as_object, missing)], "faults": [*faults]}
    printer.show(found, {**keys, **({} if notes is None else {"notes": said})}, empty)
    if args.output not in formats.OBJECTS:
        output.note([*map(str, missing), *said, *faults])
    if not args.watch:
        return 0
    printer.remember(found)
    known = _KnownItems(listed.items)

    def show() -> None:
        nonlocal said
        printer.show_changes(rows(known.items())[0])
        said = _note_changed(args, said, notes)

    with known.following(ListWatch(client, kind, where, version=listed.version)):
        return show_changes(known.changed, show, every)


class _KnownItems(Generic[Item]):
    """The items of one list by namespace and name, kept up to date by a watch; `changed` is set after each change."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.changed = threading.Event()
        self._lock = threading.Lock()
        self._items = {item[:2]: item for item in items}

    def items(self) -> Sequence[Item]:
        """Returns the items as they are now."""
        with self._lock:
            return [*self._items.values()]

    @contextmanager
    def following(self, watch: ListWatch[Item]) -> Iterator[None]:
        """Run the watch in a thread, and keep the items up to date, until the context ends."""
        stop = threading.Event()
        thread = threading.Thread(target=watch.run, args=(self._sync, self._see, stop), daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            watch.interrupt()
            thread.join()

    def _sync(self, items: Sequence[Item]) -> None:
        with self._lock:
            self._items = {item[:2]: item for item in items}
        self.changed.set()

    def _see(self, change: Change, item: Item) -> None:
        with self._lock:
            self._items.pop(item[:2], None)
            if change is not Change.DELETED:
                self._items[item[:2]] = item
        self.changed.set()


def list_allowed(
    args: argparse.Namespace, client: KubeClient, kind: Kind[AnyItem], where: Where
) -> tuple[Listed[AnyItem], Where, Sequence[MissingRight]]:
    """Returns a list, the selection that was listed, and the rights that the caller lacks.

    If the caller may not list all namespaces, only the caller's own namespace is listed. Raises ListForbiddenError if
    that is forbidden too, ApiError, EndpointError.
    """
    missing = list[MissingRight]()
    if not where.namespace:
        if (listed := list_unless_forbidden(client, kind, where)) is not None:
            return listed, where, ()
        where = replace(where, namespace=caller.namespace(args))
        known = f"only those of namespace {where.namespace} are known"
        rule = rule_to_list(kind.plural, group=kind.group)
        missing.append(MissingRight(f"list {kind.plural} of all namespaces", known, rule))
    if (listed := list_unless_forbidden(client, kind, where)) is None:
        rule = rule_to_list(kind.plural, where.namespace, kind.group)
        missing.append(MissingRight(f"list {kind.plural} of namespace {where.namespace}", "", rule))
        raise forbidden(missing)
    return listed, where, missing


def beside(reading: ClusterReading) -> Mapping[str, Any]:
    """Returns keys that -o json has next to the rows: a reading's namespace, missing rights and ignored annotations."""
    missing = [each.as_object() for each in reading.missing]
    faults = [{"subject": each.subject, "text": each.text} for each in reading.faults]
    return {"namespace": reading.namespace or None, "missing": missing, "faults": faults}


def lacking(reading: ClusterReading) -> Iterable[str]:
    """Returns a sentence for each right that the caller lacks."""
    return map(str, reading.missing)


def ignored(reading: ClusterReading) -> Iterable[str]:
    """Yields a line for each annotation that is ignored because it cannot be read."""
    return (f"ignored, of {each.subject}: {each.text}" for each in reading.faults)
