"""Remembers requests for which no room was found. A refusal holds until a node of the request changes.

The ledger replaces a node's record with every change, and a rollback restores the old record. So rolled-back trials do
not end a refusal, and after a change of a few nodes only these nodes are searched again.
"""

from weakref import WeakKeyDictionary

from device_plugin.core.ledger import Ledger, NodeState
from device_plugin.core.node_constraints import NodeSet
from device_plugin.core.requests import PodRequest


class Refusals:
    """The refused requests of one ledger. A refusal is kept only while a job has its request."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._version = -1
        self._records: dict[str, NodeState | None] = {}
        # The number of each node's last change, the newest at the end.
        self._changed: dict[str, int] = {}
        self._number = 0
        # By request and nodes: the number of the last change before the refusal.
        self._refused = WeakKeyDictionary[PodRequest, dict[NodeSet | None, int]]()
        # By change: the nodes that changed after it. Cleared with each further change.
        self._since: dict[int, tuple[str, ...]] = {}

    def changed(self, request: PodRequest, nodes: NodeSet | None) -> tuple[str, ...] | None:
        """The nodes that changed after the request was refused on `nodes` (None: all); None if it was not refused."""
        refused = self._refused.get(request)
        at = refused.get(nodes) if refused is not None else None
        if at is None:
            return None
        self._catch_up()
        if at not in self._since:
            self._since[at] = tuple(self._after(at))
        return self._since[at]

    def add(self, request: PodRequest, nodes: NodeSet | None) -> None:
        """Record that the ledger has no room now for the request on `nodes` (None: all)."""
        self._catch_up()
        self._refused.setdefault(request, {})[nodes] = self._number

    def _after(self, at: int) -> list[str]:
        found = list[str]()
        for name in reversed(self._changed):
            if self._changed[name] <= at:
                break
            found.append(name)
        return found

    def _catch_up(self) -> None:
        """Give a new change number to each node whose state in the ledger has changed since the previous call."""
        if self._version == self._ledger.version:
            return
        before = self._number
        for name in list(self._ledger.changed_since(self._version)):
            record = self._ledger.node(name)
            if name not in self._records or self._records[name] is not record:
                self._number += 1
                self._changed.pop(name, None)
                self._changed[name] = self._number
                self._records[name] = record
        self._version = self._ledger.version
        if self._number != before:
            self._since.clear()
