"""Stores objects, their versions, and a bounded history of changes, as etcd and the watch cache do for Kubernetes.

An object is never changed in place. Its JSON is made once per version, and all readers share these bytes.
"""

import bisect
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from hack.embedded.apiserver import errors
from hack.embedded.apiserver.resources import ApiResource

Object = dict[str, Any]
DEFAULT_HISTORY = 8192
# The beginning of the JSON of an object that has only its metadata, or of a list of such objects.
METADATA_HEAD = b'{"kind":"PartialObjectMetadata%b","apiVersion":"meta.k8s.io/v1",'
# Most lists of one kind that are kept, so that clients can read their next pages.
KEPT_LISTS = 8


@dataclass(frozen=True, slots=True)
class Stored:
    """One version of one object. `value` is read-only by convention; `item` is its JSON without kind and apiVersion."""

    resource: ApiResource
    namespace: str
    name: str
    version: int
    value: Object
    item: bytes

    @property
    def document(self) -> bytes:
        """The JSON of the whole object."""
        return self.resource.head() + self.item[1:]

    @property
    def metadata_document(self) -> bytes:
        """The JSON of the object's metadata, as a PartialObjectMetadata."""
        return METADATA_HEAD % b"" + b'"metadata":%b}' % msgspec.json.encode(self.value["metadata"])

    def copy(self) -> Object:
        """A copy of the value, which the caller may change."""
        return msgspec.json.decode(self.item, type=dict[str, Any])

    def at(self, version: int) -> "Stored":
        """A copy with another resource version."""
        value = self.copy()
        value["metadata"]["resourceVersion"] = str(version)
        return Stored(self.resource, self.namespace, self.name, version, value, msgspec.json.encode(value))


@dataclass(frozen=True, slots=True)
class StoreEvent:
    """A change of an object: `old` is None for a creation; with `gone`, `new` is the last state of a removed object."""

    new: Stored
    old: Stored | None
    gone: bool = False


@dataclass(slots=True)
class _Table:
    """The objects and changes of one kind; `dropped` is the number of dropped changes, `floor` their last version."""

    changed: threading.Condition
    objects: dict[tuple[str, str], Stored] = field(default_factory=dict)
    changes: list[StoreEvent] = field(default_factory=list)
    dropped: int = 0
    floor: int = 0
    listed: OrderedDict[int, list[Stored]] = field(default_factory=OrderedDict)


class Token(NamedTuple):
    """The position where a list continues: the list's version, and namespace and name of the last returned object."""

    version: int
    after: tuple[str, str]


def _place(stored: Stored) -> tuple[str, str]:
    return stored.namespace, stored.name


class ObjectStore:
    """Stores all objects, for any thread; `history` is the number of changes of a kind that are kept for watchers."""

    def __init__(self, history: int = DEFAULT_HISTORY) -> None:
        self._lock = threading.RLock()
        self._version = 1
        self.epoch = 0
        self._history = history
        self._tables: dict[ApiResource, _Table] = defaultdict(lambda: _Table(threading.Condition(self._lock)))

    @property
    def version(self) -> int:
        """The version of the last write."""
        return self._version

    def get(self, resource: ApiResource, namespace: str, name: str) -> Stored:
        """The stored object. Raises StatusError 404."""
        stored = self._tables[resource].objects.get((namespace, name))
        if stored is None:
            raise errors.not_found(resource.qualified, name)
        return stored

    def select(self, resource: ApiResource, selects: Callable[[Stored], bool]) -> tuple[int, list[Stored]]:
        """The present version, and the selected objects in the order of namespace and name."""
        with self._lock:
            version, objects = self._version, list(self._tables[resource].objects.values())
        return version, sorted(filter(selects, objects), key=_place)

    def page(
        self, resource: ApiResource, selects: Callable[[Stored], bool], limit: int, token: Token | None
    ) -> tuple[int, list[Stored], Token | None]:
        """One page of a list: its version, at most `limit` objects, and a token for the next page, None at the end.

        All pages show the objects of one version. Raises StatusError 410 if the list of `token` is no longer kept.
        """
        with self._lock:
            table = self._tables[resource]
            version = token.version if token else self._version
            if token and version not in table.listed:
                raise errors.expired(
                    "The provided continue parameter is too old to display a consistent list."
                )
            objects = table.listed.get(version) or sorted(table.objects.values(), key=_place)
        start = bisect.bisect_right(objects, token.after, key=_place) if token else 0
        found = list(islice(filter(selects, islice(objects, start, None)), limit + 1))
        if len(found) <= limit:
            return version, found, None
        with self._lock:
            table.listed[version] = objects
            table.listed.move_to_end(version)
            if len(table.listed) > KEPT_LISTS:
                table.listed.popitem(last=False)
        return version, found[:limit], Token(version, _place(found[limit - 1]))

    def create(self, resource: ApiResource, value: Object, *, dry: bool = False) -> Stored:
        """Add an object, unless `dry`; returns it as stored. Raises StatusError 409 if its name is taken."""
        name = value["metadata"]["name"]
        with self._lock:
            key = (value["metadata"].get("namespace", ""), name)
            if key in self._tables[resource].objects:
                raise errors.already_exists(resource.qualified, name)
            if dry:
                item = {field: part for field, part in value.items() if field not in ("kind", "apiVersion")}
                return Stored(resource, *key, 0, item, msgspec.json.encode(item))
            return self._write(resource, key, value, None)

    def replace(self, old: Stored, value: Object, *, gone: bool = False) -> Stored | None:
        """Write the next version of `old`, or remove it if `gone`; None if someone else wrote or removed it first."""
        with self._lock:
            key = (old.namespace, old.name)
            if self._tables[old.resource].objects.get(key) is not old:
                return None
            return self._write(old.resource, key, value, old, gone=gone)

    def remove(self, old: Stored) -> Stored | None:
        """Remove `old` and return its last state; None if someone else wrote or removed it first."""
        return self.replace(old, old.copy(), gone=True)

    def position(self, resource: ApiResource, after: int) -> int:
        """The position in the history of the first change after `after`. Raises StatusError 410 if it was dropped."""
        with self._lock:
            table = self._tables[resource]
            if after < table.floor:
                raise errors.expired(f"too old resource version: {after} ({table.floor})")
            return table.dropped + bisect.bisect_right(table.changes, after, key=lambda c: c.new.version)

    def wait(
        self, resource: ApiResource, position: int, seconds: float, epoch: int
    ) -> tuple[list[StoreEvent], int]:
        """Wait for a change at `position` or later; returns all such changes, and the version after them.

        The list is empty after `seconds`, or when `epoch` is over. Raises StatusError 410 if changes were dropped.
        """
        with self._lock:
            table = self._tables[resource]
            if epoch == self.epoch and position >= table.dropped + len(table.changes):
                table.changed.wait(seconds)
            if position < table.dropped:
                raise errors.expired("The resourceVersion for the provided watch is too old.")
            return table.changes[position - table.dropped :], self._version

    def end_watches(self) -> None:
        """End every watch that is open now. Clients then open new ones."""
        with self._lock:
            self.epoch += 1
            for table in self._tables.values():
                table.changed.notify_all()

    def compact(self) -> None:
        """Drop the history, so that every watch from an earlier version gets 410 Gone."""
        with self._lock:
            self._version += 1
            for table in self._tables.values():
                self._forget(table, len(table.changes))
                table.floor = self._version
                table.listed.clear()
                table.changed.notify_all()

    def _write(
        self,
        resource: ApiResource,
        key: tuple[str, str],
        value: Object,
        old: Stored | None,
        *,
        gone: bool = False,
    ) -> Stored:
        self._version += 1
        value.pop("kind", None)
        value.pop("apiVersion", None)
        value["metadata"]["resourceVersion"] = str(self._version)
        stored = Stored(resource, *key, self._version, value, msgspec.json.encode(value))
        table = self._tables[resource]
        if gone:
            del table.objects[key]
        else:
            table.objects[key] = stored
        table.changes.append(StoreEvent(stored, old, gone))
        if len(table.changes) > 2 * self._history:
            self._forget(table, self._history)
        table.changed.notify_all()
        return stored

    def _forget(self, table: _Table, count: int) -> None:
        if count:
            table.floor = table.changes[count - 1].new.version
            table.dropped += count
            del table.changes[:count]
