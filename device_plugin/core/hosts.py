"""Hosts: the CPU, memory and disk that nodes have left beside their cards, by what their pods request."""

from collections.abc import Iterator
from dataclasses import dataclass

from device_plugin.core.changes import Followed


@dataclass(frozen=True, slots=True)
class Room:
    """CPU in thousandths of a core, memory and disk (ephemeral storage) in MiB."""

    cpu_milli: int = 0
    memory_mib: int = 0
    disk_mib: int = 0

    def __add__(self, other: "Room") -> "Room":
        return Room(
            self.cpu_milli + other.cpu_milli,
            self.memory_mib + other.memory_mib,
            self.disk_mib + other.disk_mib,
        )

    def __sub__(self, other: "Room") -> "Room":
        return Room(
            self.cpu_milli - other.cpu_milli,
            self.memory_mib - other.memory_mib,
            self.disk_mib - other.disk_mib,
        )


NOTHING = Room()


class Hosts(Followed):
    """What each node can give, and which pods have how much of it. Callers hold the ledger's lock around it."""

    def __init__(self) -> None:
        super().__init__()
        self._whole: dict[str, Room] = {}
        self._taken: dict[str, Room] = {}
        self._held: dict[str, tuple[str, Room]] = {}

    def room(self, node: str) -> Room:
        """What a node has left: less than nothing where its pods request more than it can give."""
        return self._whole.get(node, NOTHING) - self._taken.get(node, NOTHING)

    def whole(self, node: str) -> Room:
        """What a node can give to pods; nothing if it is not known."""
        return self._whole.get(node, NOTHING)

    def set_node(self, node: str, room: Room) -> None:
        """Take what a node can give to pods."""
        if self._whole.get(node) != room:
            self._whole[node] = room
            self._changes.touch(node)

    def drop_node(self, node: str) -> None:
        """Forget what a node can give; its pods hold on."""
        if self._whole.pop(node, None) is not None:
            self._changes.touch(node)

    def pods(self) -> Iterator[str]:
        """UIDs of the pods that hold something."""
        return iter(self._held)

    def held(self, pod: str) -> tuple[str, Room] | None:
        """The node where a pod has room, and how much; None if it has none anywhere."""
        return self._held.get(pod)

    def hold(self, pod: str, node: str, room: Room) -> None:
        """A pod has `room` on a node, in place of what it had anywhere."""
        if self._held.get(pod) != (node, room):
            self.release(pod)
            self._held[pod] = node, room
            self._add(node, room)

    def release(self, pod: str) -> None:
        """The pod has left, if it was there."""
        node, room = self._held.pop(pod, ("", NOTHING))
        self._add(node, NOTHING - room)

    def _add(self, node: str, room: Room) -> None:
        if room != NOTHING:
            self._taken[node] = self._taken.get(node, NOTHING) + room
            self._changes.touch(node)
