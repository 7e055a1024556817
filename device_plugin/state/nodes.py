"""The nodes with cards, as the constraints of pods see them, from watch events and lists."""

import threading
from collections.abc import Iterable

from device_plugin.core.node_constraints import NodeIndex, NodeTraits
from device_plugin.core.pods import Node


class KnownNodes:
    """Safe from any thread. Nodes without an inventory are not kept: no replica with cards can go there."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, NodeTraits] = {}
        self._index: NodeIndex | None = None

    def see(self, node: Node) -> None:
        """Take news of a node, most of which is a heartbeat."""
        if not node.inventory:
            self.gone(node.name)
            return
        traits = node.traits()
        with self._lock:
            if self._nodes.get(node.name) != traits:
                self._nodes[node.name] = traits
                self._index = None

    def forget(self, node: Node) -> None:
        """The watch shows that the node is gone."""
        self.gone(node.name)

    def gone(self, name: str) -> None:
        """The node is gone, or shows no cards any more."""
        with self._lock:
            if self._nodes.pop(name, None) is not None:
                self._index = None

    def sync(self, nodes: Iterable[Node]) -> None:
        """Take a list of all nodes."""
        listed = set()
        for node in nodes:
            listed.add(node.name)
            self.see(node)
        for name in self._nodes.keys() - listed:
            self.gone(name)

    def index(self) -> NodeIndex:
        """The nodes as they are now; the same object as long as nothing has changed."""
        with self._lock:
            if self._index is None:
                self._index = NodeIndex(self._nodes.values())
            return self._index
