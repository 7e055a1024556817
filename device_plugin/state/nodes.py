"""The nodes with cards, to be matched with the constraints of pods, from watch events and lists."""

import threading
from collections.abc import Iterable

from device_plugin.core.node_constraints import NodeIndex, NodeTraits
from device_plugin.core.pods import Node


class KnownNodes:
    """Holds the nodes that have an inventory: pods with cards can run only on these. Any thread may call it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeTraits] = {}
        self._index: NodeIndex | None = None

    def see(self, node: Node) -> None:
        """Record a node, or remove it if it has no inventory.

        The index is kept if nothing has changed that pods' constraints are compared to, for example after a heartbeat.
        """
        if not node.inventory:
            self.gone(node.name)
            return
        traits = node.traits()
        with self._lock:
            if self._nodes.get(node.name) != traits:
                self._nodes[node.name] = traits
                self._index = None

    def forget(self, node: Node) -> None:
        """Remove a node of which the watch shows that it is gone."""
        self.gone(node.name)

    def gone(self, name: str) -> None:
        """Remove a node that is gone, or that shows no cards any more."""
        with self._lock:
            if self._nodes.pop(name, None) is not None:
                self._index = None

    def sync(self, nodes: Iterable[Node]) -> None:
        """Record a list of all nodes; known nodes that are not listed are removed."""
        listed = set()
        for node in nodes:
            listed.add(node.name)
            self.see(node)
        for name in self._nodes.keys() - listed:
            self.gone(name)

    def index(self) -> NodeIndex:
        """The index of the present nodes; the same object until a node changes."""
        with self._lock:
            if self._index is None:
                self._index = NodeIndex(self._nodes.values())
            return self._index
