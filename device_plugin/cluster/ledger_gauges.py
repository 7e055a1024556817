"""The metrics of the ledger: slices granted per namespace, room on cards per model, and nodes that do not serve."""

import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.metrics import OTHERS, Exporter, Metric, Reading, largest
from device_plugin.core.contract.units import MIB, mib_to_units
from device_plugin.core.ledger import CardState, Holder, NodeState, Snapshot

# Most namespaces of a metric, and most nodes that it names.
MOST_NAMESPACES, MOST_NODES = 1000, 500
MERGED = f"Of more than {MOST_NAMESPACES} namespaces the others are one, {OTHERS}."
NAMESPACE = ("namespace", "family")
MODEL = ("family", "model")

NAMESPACE_MEMORY = Metric(
    "vgpu_namespace_granted_memory_bytes", Exporter.LEADER,
    f"Memory of cards that is granted to pods of the namespace, or reserved for them. {MERGED}", NAMESPACE,
)  # fmt: skip
NAMESPACE_CORE_GROUPS = Metric(
    "vgpu_namespace_granted_core_groups", Exporter.LEADER,
    f"Core groups that are granted to pods of the namespace, or reserved for them. {MERGED}", NAMESPACE,
)  # fmt: skip
NAMESPACE_SLICES = Metric(
    "vgpu_namespace_granted_slices", Exporter.LEADER,
    f"Slices that are granted to pods of the namespace, or reserved for them. {MERGED}", NAMESPACE,
)  # fmt: skip
LARGEST_MEMORY_UNITS = Metric(
    "vgpu_largest_free_slice_memory_units", Exporter.LEADER,
    "Memory units of the largest slice that a card of the model can give now, with at least one core group.", MODEL,
)  # fmt: skip
LARGEST_CORE_GROUPS = Metric(
    "vgpu_largest_free_slice_core_groups", Exporter.LEADER,
    "Core groups of the largest slice that a card of the model can give now, with at least one memory unit. It may be"
    " another card than that of vgpu_largest_free_slice_memory_units.", MODEL,
)  # fmt: skip
LARGEST_SHARE = Metric(
    "vgpu_largest_free_slice_ratio", Exporter.LEADER,
    "The largest share of one card of the model, 0 to 1, that a slice can get now of both its memory and its core"
    " groups.", MODEL,
)  # fmt: skip
FREE_CARDS = Metric(
    "vgpu_free_cards", Exporter.LEADER, "Cards of the model that can be granted as whole cards now.", MODEL
)
CROWDED = Metric(
    "vgpu_crowded_cards", Exporter.LEADER,
    "Cards whose slices together are more than the card has, by cause: overlap (two grants conflict), shrunk (the card"
    " reports less than was granted of it).", ("cause",),
)  # fmt: skip
NODES = Metric(
    "vgpu_nodes", Exporter.LEADER, "Nodes with an inventory, by whether their agent serves: yes, no.", ("serving",)
)  # fmt: skip
NOT_SERVING = Metric(
    "vgpu_node_not_serving", Exporter.LEADER,
    "1 for a node whose agent does not serve, by cause: inventory (the agent has said so), agent (none is ready there)."
    f" Absent for a node whose agent serves. Of more than {MOST_NODES} nodes the first by name.", ("node", "cause"),
)  # fmt: skip
MEMORY_UNITS = Metric(
    "vgpu_memory_unit_nodes", Exporter.LEADER,
    "Nodes with cards of the family on which a memory unit is this many MiB. Two series of one family: the same request"
    " gets another amount of memory by node.", ("family", "unit_mib"),
)  # fmt: skip

# The metrics of the fields `granted` and `room` of a _NodePart, in the same order; a number is the unit of an amount.
_NAMESPACES = ((NAMESPACE_MEMORY, MIB), (NAMESPACE_CORE_GROUPS, 1), (NAMESPACE_SLICES, 1))
_MODELS = (LARGEST_MEMORY_UNITS, LARGEST_CORE_GROUPS, LARGEST_SHARE, FREE_CARDS)

Labels = tuple[str, str]
Amounts = tuple[int, int, int]
Room = tuple[float, float, float, float]
_NO_ROOM = (0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class _NodePart:
    """The metrics of one node, computed from its `state`.

    `granted` has MiB, core groups and slices by namespace and family. `room` has, by family and model, the most free
    memory units, core groups and share on one card (each may be of another card), and the number of free cards.
    `crowded` counts cards with overlapping slices, and cards that have less now than their holders were granted.
    `units` has pairs of a card family and its memory unit.
    """

    state: NodeState
    granted: Mapping[Labels, Amounts]
    room: Mapping[Labels, Room]
    crowded: tuple[int, int]
    units: tuple[Labels, ...]


class LedgerGauges:
    """Reads the metrics of the ledger. The figures of each node are kept, because few nodes change between two scrapes.

    `namespace_of` returns an empty text for a holder whose namespace is not known. Safe from any thread.
    """

    def __init__(self, namespace_of: Callable[[Holder], str]) -> None:
        self._namespace_of = namespace_of
        self._lock = threading.Lock()
        self._parts: dict[str, _NodePart] = {}
        # The sums over all parts, and their labels, which the parts share.
        self._granted: dict[Labels, Amounts] = {}
        self._labels: dict[Labels, Labels] = {}

    def readings(self, snapshot: Snapshot, ready: Container[str] | None) -> Iterator[Reading]:
        """All metrics of a snapshot of the ledger.

        `ready` has the nodes whose agents are ready; None if it is not known which are.
        """
        with self._lock:
            self._update(snapshot.records())
            granted, parts = dict(self._granted), list(self._parts.values())
        for number, (metric, unit) in enumerate(_NAMESPACES):
            sums = {labels: float(amounts[number] * unit) for labels, amounts in granted.items()}
            yield Reading(metric, largest(sums, MOST_NAMESPACES, lambda labels: (OTHERS, labels[1])))
        room = _room(parts)
        for number, metric in enumerate(_MODELS):
            yield Reading(metric, [(model, found[number]) for model, found in sorted(room.items())])
        overlap, shrunk = (sum(part.crowded[number] for part in parts) for number in (0, 1))
        yield Reading(CROWDED, [(("overlap",), float(overlap)), (("shrunk",), float(shrunk))])
        yield from _serving(snapshot.inventories(), ready)
        units = Counter(chain.from_iterable(part.units for part in parts))
        yield Reading(MEMORY_UNITS, [(labels, float(nodes)) for labels, nodes in sorted(units.items())])

    def _update(self, states: Mapping[str, NodeState]) -> None:
        """Compute the figures of changed nodes again, and remove the figures of nodes that are gone."""
        for name in self._parts.keys() - states.keys():
            self._add(self._parts.pop(name), -1)
        for name, state in states.items():
            before = self._parts.get(name)
            if before is None or before.state is not state:
                self._parts[name] = self._part(state)
                self._add(self._parts[name], 1)
                if before is not None:
                    self._add(before, -1)

    def _add(self, part: _NodePart, times: int) -> None:
        for labels, (mib, groups, slices) in part.granted.items():
            sums = self._granted.get(labels, (0, 0, 0))
            self._granted[labels] = sums[0] + times * mib, sums[1] + times * groups, sums[2] + times * slices
            if self._granted[labels][2] == 0:
                del self._granted[labels], self._labels[labels]

    def _part(self, state: NodeState) -> _NodePart:
        cards = state.cards if state.inventory is not None else ()
        short = [card.short for card in cards if card.crowded]
        room: dict[Labels, Room] = {}
        for card in cards:
            model = card.card.family, card.card.model
            room[model] = _joined(room.get(model, _NO_ROOM), _room_of(card) if state.serving else _NO_ROOM)
        units = {(card.card.family, str(card.card.unit_mib)) for card in cards}
        return _NodePart(
            state, self._held(state, cards), room, (short.count(False), short.count(True)), (*units,)
        )

    def _held(self, state: NodeState, cards: Iterable[CardState]) -> Mapping[Labels, Amounts]:
        """The amounts that pods hold, by namespace and card family; slices kept for a job belong to no namespace."""
        found: dict[Labels, Amounts] = {}
        for card in cards:
            for holder, slices in state.held.get(card.card.uuid, {}).items():
                if namespace := self._namespace_of(holder):
                    labels = namespace, card.card.family
                    labels = self._labels.setdefault(labels, labels)
                    for slice_ in slices:
                        mib, groups, count = found.get(labels, (0, 0, 0))
                        found[labels] = mib + slice_.mem_mib, groups + len(slice_.cores), count + 1
        return found


def _room(parts: Iterable[_NodePart]) -> Mapping[Labels, Room]:
    """By family and model: the largest free amounts on one card of any node, and the number of free cards of all nodes.

    The amounts are memory units, core groups and the share of the card; each may be of another card.
    """
    found: dict[Labels, Room] = {}
    for part in parts:
        for model, room in part.room.items():
            found[model] = _joined(found.get(model, _NO_ROOM), room)
    return found


def _joined(one: Room, other: Room) -> Room:
    """Joins the rooms of two nodes or cards: the larger one of each free amount, and the sum of the free cards."""
    return max(one[0], other[0]), max(one[1], other[1]), max(one[2], other[2]), one[3] + other[3]


def _room_of(state: CardState) -> Room:
    """The free memory units, core groups and share of one card, and 1 if all of it is free.

    All four are 0 if the card can give no slice. A slice needs at least one memory unit and one core group.
    """
    card, groups = state.card, state.free_cores.bit_count()
    units = mib_to_units(state.free_mib, card.mem_mib, card.units)
    if not (state.open and state.free_slices and groups and units):
        return _NO_ROOM
    share = min(state.free_mib / card.mem_mib, groups / card.core_groups)
    return float(units), float(groups), share, float(state.untouched)


def _serving(inventories: Mapping[str, Inventory], ready: Container[str] | None) -> Iterator[Reading]:
    """The numbers of nodes with and without a serving agent, and the names of nodes without, each with the cause.

    At most MOST_NODES are named.
    """
    causes = {
        name: "agent" if inventory.serving else "inventory"
        for name, inventory in sorted(inventories.items())
        if not inventory.serving or (ready is not None and name not in ready)
    }
    yield Reading(NODES, [(("no",), float(len(causes))), (("yes",), float(len(inventories) - len(causes)))])
    yield Reading(NOT_SERVING, [(named, 1.0) for named in islice(causes.items(), MOST_NODES)])
