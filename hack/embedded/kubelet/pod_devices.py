"""The tickets (device IDs) of each container, and the checkpoint that keeps them over a restart of the kubelet."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from hack.embedded.kubelet.plugin_endpoint import Allocated


@dataclass(frozen=True, slots=True)
class HeldTickets:
    """The tickets (device IDs) of one resource in one container of a pod, and the answer of Allocate for them."""

    pod: str
    container: str
    resource: str
    ids: frozenset[str]
    answer: Allocated


@dataclass(frozen=True, slots=True)
class DevicesCheckpoint:
    """The content of the checkpoint: all held tickets, and the names of the registered resources."""

    holdings: list[HeldTickets] = field(default_factory=list)
    registered: list[str] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Replace the file at `path` atomically."""
        partial = path.with_name(f".{path.name}")
        partial.write_bytes(msgspec.json.encode(self))
        partial.replace(path)


def load(path: Path) -> DevicesCheckpoint:
    """The checkpoint in this file; an empty checkpoint if the file does not exist."""
    return (
        msgspec.json.decode(path.read_bytes(), type=DevicesCheckpoint)
        if path.exists()
        else DevicesCheckpoint()
    )


def in_use(holdings: Iterable[HeldTickets]) -> dict[str, set[str]]:
    """The tickets (device IDs) that containers hold, by resource."""
    used: dict[str, set[str]] = {}
    for holding in holdings:
        used.setdefault(holding.resource, set()).update(holding.ids)
    return used
