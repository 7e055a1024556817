"""Compact lists of nodes, kept with waiting pods: one bit per node in place of thousands of names."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from device_plugin.core.placement.card_columns import Ints, Mask
from device_plugin.core.placement.table import NodeTable

# Most recent lists that are compared with new ones, so that equal lists are kept once.
MOST = 16
# Names of removed nodes are dropped once there are more of them than of present nodes, and more than this.
SPARE = 1024


@dataclass(frozen=True, slots=True)
class _Names:
    """A number for each node name. No name is ever removed, so lists stay valid and can be read without the lock."""

    names: list[str] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, name: str) -> int:
        """The number of a name; a new name is added."""
        found = self.numbers.get(name)
        if found is None:
            found = self.numbers[name] = len(self.names)
            self.names.append(name)
        return found


class NodeList(Sequence[str]):
    """A list of distinct node names in a fixed order, in one bit per known node: 625 bytes for 5,000 nodes.

    It is equal only to a NodeList of the same nodes that was made with the same table of names.
    """

    __slots__ = ("_bits", "_names")

    def __init__(self, names: _Names, bits: bytes) -> None:
        self._names = names
        self._bits = bits

    def __iter__(self) -> Iterator[str]:
        names = self._names.names
        return iter([names[number] for number in self._set().tolist()])

    def __len__(self) -> int:
        return len(self._set())

    def __contains__(self, name: object) -> bool:
        number = self._names.numbers.get(name) if isinstance(name, str) else None
        if number is None or number >= 8 * len(self._bits):
            return False
        return bool(self._bits[number // 8] >> number % 8 & 1)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[str]: ...

    def __getitem__(self, at: int | slice) -> str | Sequence[str]:
        return list(self)[at]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NodeList):
            return NotImplemented
        return self._names is other._names and self._bits == other._bits

    def __hash__(self) -> int:
        return hash(self._bits)

    def __repr__(self) -> str:
        return f"NodeList({list(self)})"

    def _set(self) -> Ints:
        """The numbers of the nodes in this list."""
        return np.flatnonzero(np.unpackbits(np.frombuffer(self._bits, dtype=np.uint8), bitorder="little"))


class NodeLists:
    """Makes compact lists of offered nodes. Callers hold the cluster view's lock."""

    def __init__(self, index: NodeTable) -> None:
        self._index = index
        self._names = _Names()
        # The numbers of the index's nodes, by row.
        self._position: dict[str, int] | None = None
        self._numbers: Ints = np.zeros(0, dtype=np.int64)
        self._newest: tuple[Mask, NodeList] | None = None
        self._recent: OrderedDict[bytes, NodeList] = OrderedDict()

    def of(self, nodes: Sequence[str]) -> NodeList:
        """The compact list of `nodes`; equal lists of recent calls are one object."""
        if isinstance(nodes, NodeList):
            return nodes
        # Most pods are offered the same nodes as the pod before; the index has already looked these nodes up.
        rows = self._index.chosen(nodes)
        if self._newest is None or self._newest[0] is not rows:
            self._newest = rows, self._made(nodes, rows)
        return self._newest[1]

    def _made(self, nodes: Sequence[str], rows: Mask) -> NodeList:
        if len(self._names.names) > 2 * (len(nodes) + SPARE):
            # Existing lists keep the table of names that they were made with.
            self._names, self._position = _Names(), None
            self._recent.clear()
        if self._position is not self._index.position:
            self._position = self._index.position
            self._numbers = np.array([self._names.number(name) for name in self._index.nodes], dtype=np.int64)
        numbers = self._numbers[rows]
        if len(numbers) < len(nodes):
            # Some nodes have no cards, or come twice.
            others = [self._names.number(name) for name in nodes if name not in self._position]
            numbers = np.concatenate((numbers, np.array(others, dtype=np.int64)))
        chosen = np.zeros(len(self._names.names), dtype=bool)
        chosen[numbers] = True
        bits = np.packbits(chosen, bitorder="little").tobytes().rstrip(b"\0")
        known = self._recent.setdefault(bits, NodeList(self._names, bits))
        self._recent.move_to_end(bits)
        if len(self._recent) > MOST:
            self._recent.popitem(last=False)
        return known
