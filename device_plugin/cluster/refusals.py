"""Refusals, remembered until something they depend on changes: kube-scheduler asks for refused pods again and again.

A pod that found no cards finds none until a slice ends, or a node shows other cards; placing others only takes more.
"""

from collections import Counter, OrderedDict
from collections.abc import Collection
from dataclasses import dataclass

from device_plugin.core.ledger import Ledger
from device_plugin.core.placement import Placer, Refused
from device_plugin.core.placement.columns import Rows
from device_plugin.core.requests import PodRequest, Request, Selector
from device_plugin.core.roles import ALONE

# Refusals remembered in all, and of pods of one namespace: each takes a byte for every node, and some 500 for itself.
MOST, MOST_OF_NAMESPACE = 1024, 128

Shape = tuple[tuple[Request, ...], Selector, Selector, str, str]
"""What a refusal depends on of a request: containers, card models, uuids, policy, application type."""


@dataclass(frozen=True, slots=True)
class _Entry:
    """A refusal by the ledger at `gained`, on the nodes `offered`; None if no node whatever would do."""

    namespace: str
    refused: Refused
    gained: int
    offered: Rows | None


class Refusals:
    """By what was asked for; of too many the longest unused are forgotten. Callers hold the state's lock."""

    def __init__(self, ledger: Ledger, placer: Placer) -> None:
        self._ledger = ledger
        self._placer = placer
        self._entries: OrderedDict[Shape, _Entry] = OrderedDict()
        self._of: Counter[str] = Counter()
        self._position = placer.index.position
        self.left_out = 0
        """Refusals that were forgotten because there were too many."""

    def __len__(self) -> int:
        """How many are remembered."""
        return len(self._entries)

    def knows(self, request: PodRequest) -> bool:
        """True if the request was refused and no node became better since. It may be called without the lock."""
        entry = self._entries.get(_shape(request))
        return entry is not None and entry.offered is None and entry.gained == self._ledger.gained

    def get(self, request: PodRequest, nodes: Collection[str]) -> Refused | None:
        """The refusal of an equal request that still holds on `nodes`; None if it must be decided."""
        if request.standing is not ALONE:
            return None
        shape = _shape(request)
        entry = self._entries.get(shape)
        if entry is None:
            return None
        if entry.gained != self._ledger.gained or self._placer.index.position is not self._position:
            self._drop(shape)
            return None
        if entry.offered is not None and (self._placer.index.chosen(nodes) & ~entry.offered).any():
            return None
        self._entries.move_to_end(shape)
        return entry.refused

    def note(self, namespace: str, request: PodRequest, nodes: Collection[str], refused: Refused) -> None:
        """The request was refused on `nodes` just now."""
        if request.standing is not ALONE:
            return
        index = self._placer.index
        if index.position is not self._position:
            # The entries are about other rows.
            self.clear()
            self._position = index.position
        shape = _shape(request)
        self._drop(shape)
        if self._of[namespace] >= MOST_OF_NAMESPACE:
            self._drop(next(s for s, entry in self._entries.items() if entry.namespace == namespace))
            self.left_out += 1
        elif len(self._entries) >= MOST:
            self._drop(next(iter(self._entries)))
            self.left_out += 1
        offered = None if refused.everywhere else index.chosen(nodes)
        self._entries[shape] = _Entry(namespace, refused, self._ledger.gained, offered)
        self._of[namespace] += 1

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()
        self._of.clear()

    def _drop(self, shape: Shape) -> None:
        entry = self._entries.pop(shape, None)
        if entry is not None:
            self._of[entry.namespace] -= 1
            if not self._of[entry.namespace]:
                del self._of[entry.namespace]


def _shape(request: PodRequest) -> Shape:
    return (
        tuple(asked for _, asked in request.containers), request.models, request.uuids, request.policy,
        request.app_type,
    )  # fmt: skip
