"""A dictionary that is bounded for each namespace, so that no tenant fills it."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Bounded(Generic[Key, Value]):
    """A dictionary with at most `most` values, and at most `most_of_namespace` values of one namespace.

    A namespace with too many values loses its newest, or with `lose_oldest` its oldest. If there are too many in total,
    the namespace with the most values loses one. Callers hold the cluster view's lock, unless a method says otherwise.
    """

    def __init__(self, most: int, most_of_namespace: int, *, lose_oldest: bool = False) -> None:
        self.most = most
        self.most_of_namespace = most_of_namespace
        self.left_out = 0
        """Number of entries that were left out because there were too many."""
        self._lose_oldest = lose_oldest
        # By key: namespace and value; and the values of each namespace, the newest last.
        self._entries: dict[Key, tuple[str, Value]] = {}
        self._by_namespace: dict[str, dict[Key, Value]] = {}

    def __len__(self) -> int:
        """Number of entries."""
        return len(self._entries)

    def values(self) -> list[Value]:
        """A list of the values of all keys. It needs no lock."""
        return [value for _, value in list(self._entries.values())]

    def get(self, key: Key) -> Value | None:
        """The value of the key; None if there is none. It needs no lock."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None else None

    def put(self, namespace: str, key: Key, value: Value) -> None:
        """Store the value as the newest of its namespace.

        Beyond the bounds, one value is removed and counted in `left_out`.
        """
        self.drop(key)
        self._entries[key] = namespace, value
        entries = self._by_namespace.setdefault(namespace, {})
        entries[key] = value
        if len(entries) > self.most_of_namespace:
            self._leave_out(entries)
        elif len(self) > self.most:
            self._leave_out(max(self._by_namespace.values(), key=len))

    def drop(self, key: Key) -> Value | None:
        """Remove and return the value; None if there is none."""
        if key not in self._entries:
            return None
        namespace, value = self._entries.pop(key)
        entries = self._by_namespace[namespace]
        del entries[key]
        if not entries:
            del self._by_namespace[namespace]
        return value

    def clear(self) -> None:
        """Remove all entries."""
        self._entries.clear()
        self._by_namespace.clear()

    def _leave_out(self, entries: dict[Key, Value]) -> None:
        self.drop(next(iter(entries) if self._lose_oldest else reversed(entries)))
        self.left_out += 1
