"""Watches: a stream of changes, one JSON line per change."""

import time
from collections.abc import Callable, Iterator

import msgspec

from hack.embedded.apiserver import errors
from hack.embedded.apiserver.resources import ApiResource
from hack.embedded.apiserver.store import ObjectStore, Stored, StoreEvent

Selects = Callable[[Stored], bool]
Shown = Callable[[Stored], bytes]


def stream(
    store: ObjectStore,
    resource: ApiResource,
    selects: Selects,
    *,
    version: str,
    seconds: float,
    bookmark_seconds: float | None,
    epoch: int,
    shown: Shown = lambda stored: stored.document,
) -> Iterator[bytes]:
    """Yield lines of JSON, several in a piece, with the changes after `version`.

    The stream ends after `seconds`, or with the store's `epoch`. Without a version (or with 0) it begins with the
    existing objects. A version in the future is waited for. If changes were dropped, a line of type ERROR ends the
    stream. With `bookmark_seconds`, a bookmark is sent after each such time without changes, and at the end. `shown`
    makes the JSON of an object.
    """
    deadline = time.monotonic() + seconds
    if version in ("", "0"):
        seen, present = store.select(resource, selects)
        yield b"".join(_line("ADDED", shown(stored)) for stored in present)
    else:
        seen = int(version)
    begin = seen
    try:
        position = store.position(resource, seen)
        while store.epoch == epoch:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                break
            patience = remaining if bookmark_seconds is None else min(remaining, bookmark_seconds)
            changes, seen = store.wait(resource, position, patience, epoch)
            position += len(changes)
            lines = b"".join(_lines([c for c in changes if c.new.version > begin], selects, shown))
            if lines:
                yield lines
            elif (
                bookmark_seconds is not None and not changes and seen >= begin and time.monotonic() < deadline
            ):
                yield _bookmark(resource, seen)
        if bookmark_seconds is not None and seen >= begin:
            yield _bookmark(resource, seen)
    except errors.StatusError as error:
        yield _line("ERROR", msgspec.json.encode(error.status()))


def _lines(changes: list[StoreEvent], selects: Selects, shown: Shown) -> Iterator[bytes]:
    for change in changes:
        left = change.old if change.old is not None and selects(change.old) else None
        if selects(change.new) and not change.gone:
            yield _line("ADDED" if left is None else "MODIFIED", shown(change.new))
        elif left is not None:
            # An object that leaves the selection is shown in its last selected state, with the version of the change.
            yield _line("DELETED", shown(left.at(change.new.version)))


def _line(kind: str, document: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), document)


def _bookmark(resource: ApiResource, version: int) -> bytes:
    return _line("BOOKMARK", resource.head() + b'"metadata":{"resourceVersion":"%d"}}' % version)
