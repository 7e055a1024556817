"""The texts with which offered nodes refuse a pod: thousands of nodes share a few texts."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import compress

import numpy as np

from device_plugin.core.placement.offer import Offer

_NO_NODES = Offer({}, ())


class NodeTexts(Mapping[str, str]):
    """A mapping from each offered node to the text of its refusal: `texts[ranks[row of the node]]`.

    The last of `ranks` is for nodes without a row. `notes` holds additions to the texts of a few nodes, by node.
    """

    def __init__(
        self, offer: Offer = _NO_NODES, texts: tuple[str, ...] = ("",), ranks: bytes = b"\0",
        notes: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self._offer = offer
        self._texts = texts
        self._ranks = ranks
        self._notes = notes or {}

    @classmethod
    def same(cls, offer: Offer, text: str) -> "NodeTexts":
        """Returns the texts of a refusal that gives all nodes of the offer (offered nodes) one text."""
        return cls(offer, (text,), bytes(len(offer.position) + 1))

    def noted(self, notes: Mapping[str, str]) -> "NodeTexts":
        """A copy in which each of `notes` follows the text of its node, in brackets."""
        return NodeTexts(self._offer, self._texts, self._ranks, notes) if notes else self

    @property
    def key(self) -> Hashable:
        """A value that is equal for two NodeTexts with equal texts for the same offered nodes."""
        return self._offer, self._texts, self._ranks, tuple(self._notes.items())

    @property
    def nodes_by_text(self) -> Mapping[str, Sequence[str]]:
        """The names of the nodes with each text, by the text."""
        if not self._notes:
            return dict(self._parts())
        found: dict[str, list[str]] = {}
        for text, names in self._parts():
            for name in names:
                note = self._notes.get(name)
                found.setdefault(text if note is None else f"{text} ({note})", []).append(name)
        return found

    def __getitem__(self, node: str) -> str:
        return self._by_node[node]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_node)

    def __len__(self) -> int:
        return len(self._by_node)

    def _parts(self) -> Iterator[tuple[str, Sequence[str]]]:
        names = self._offer.names
        ranks = np.frombuffer(self._ranks, dtype=np.uint8)[self._offer.rows]
        found = np.flatnonzero(np.bincount(ranks)).tolist()
        for rank in found:
            some = names if len(found) == 1 else tuple(compress(names, (ranks == rank).tolist()))
            yield self._texts[rank], some

    @cached_property
    def _by_node(self) -> Mapping[str, str]:
        return {name: text for text, names in self.nodes_by_text.items() for name in names}


NO_TEXTS = NodeTexts()
"""The texts of an answer in which no node is refused."""
