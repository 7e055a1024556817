"""Hosts: the CPU and memory that nodes have left beside their cards, by what their pods request."""

from collections.abc import Iterator
from dataclasses import dataclass

from device_plugin.core.changes import Changes


@dataclass(frozen=True, slots=True)
class Room:
    """CPU in thousandths of a core, memory in MiB."""

    cpu_milli: int = 0
    memory_mib: int = 0

    def __add__(self, other: "Room") -> "Room":
        return Room(self.cpu_milli + other.cpu_milli, self.memory_mib + other.memory_mib)

    def __sub__(self, other: "Room") -> "Room":
        return Room(self.cpu_milli - other.cpu_milli, self.memory_mib - other.memory_mib)


class Hosts:
    """What each node has left. Callers hold the ledger's lock around it."""

    def __init__(self) -> None:
        self._room: dict[str, Room] = {}
        self._changes = Changes()

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._changes.version

    def changed_since(self, version: int) -> Iterator[str]:
        """Nodes that changed after `version`, newest first."""
        return self._changes.since(version)

    def room(self, node: str) -> Room:
        """What a node has left; nothing if it is not known."""
        return self._room.get(node, Room())

    def set(self, node: str, room: Room) -> None:
        """Take what a node has left."""
        if self._room.get(node) != room:
            self._room[node] = room
            self._changes.touch(node)

    def take(self, node: str, room: Room) -> None:
        """A pod that requests `room` starts on the node."""
        self.set(node, self.room(node) - room)

    def give(self, node: str, room: Room) -> None:
        """A pod that requested `room` has left the node."""
        self.set(node, self.room(node) + room)
