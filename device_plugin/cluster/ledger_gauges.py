"""The metrics of the ledger: what is granted to each namespace, and what each model has left."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

from device_plugin.core.contract.cards import memory_units
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.metrics import Exporter, Metric, Reading, Samples
from device_plugin.core.contract.units import mib_to_units
from device_plugin.core.ledger import CardState, Holder, Snapshot

MIB = 2**20
NAMESPACE = ("namespace", "family")
MODEL = ("family", "model")

NAMESPACE_MEMORY = Metric(
    "vgpu_namespace_granted_memory_bytes", Exporter.LEADER,
    "Memory of cards that is granted to pods of the namespace, or reserved for them.", NAMESPACE,
)  # fmt: skip
NAMESPACE_CORE_GROUPS = Metric(
    "vgpu_namespace_granted_core_groups", Exporter.LEADER,
    "Core groups that are granted to pods of the namespace, or reserved for them.", NAMESPACE,
)  # fmt: skip
NAMESPACE_SLICES = Metric(
    "vgpu_namespace_granted_slices", Exporter.LEADER,
    "Slices that are granted to pods of the namespace, or reserved for them.", NAMESPACE,
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
SERVING = Metric(
    "vgpu_inventory_serving", Exporter.LEADER,
    "1 if the node's inventory says that its agent serves, 0 if it says that it does not.", ("node",),
)  # fmt: skip
MEMORY_UNITS = Metric(
    "vgpu_memory_unit_nodes", Exporter.LEADER,
    "Nodes with cards of the family on which a memory unit is this many MiB. Two series of one family: the same request"
    " gets another amount of memory by node.", ("family", "unit_mib"),
)  # fmt: skip

_MODELS: Sequence[tuple[Metric, Callable[[CardState], float]]] = (
    (LARGEST_MEMORY_UNITS, lambda of: mib_to_units(of.free_mib, of.card.mem_mib, of.card.units)),
    (LARGEST_CORE_GROUPS, lambda of: of.free_cores.bit_count()),
    (LARGEST_SHARE,
     lambda of: min(of.free_mib / of.card.mem_mib, of.free_cores.bit_count() / of.card.core_groups)),
)  # fmt: skip
_NAMESPACES: Sequence[tuple[Metric, Callable[[Slice], int]]] = (
    (NAMESPACE_MEMORY, lambda of: of.mem_mib * MIB),
    (NAMESPACE_CORE_GROUPS, lambda of: len(of.cores)),
    (NAMESPACE_SLICES, lambda _: 1),
)


def ledger_readings(snapshot: Snapshot, namespace_of: Callable[[Holder], str]) -> Iterator[Reading]:
    """All metrics of the ledger, of one moment. `namespace_of` is empty for a holder whose namespace is not known."""
    granted = _granted(snapshot, namespace_of)
    for metric, amount in _NAMESPACES:
        sums = {labels: float(sum(map(amount, slices))) for labels, slices in granted.items()}
        yield Reading(metric, sorted(sums.items()))
    yield from _of_models(snapshot)
    crowded = Counter(state.short for _, _, state in _states(snapshot) if state.crowded)
    yield Reading(CROWDED, [(("overlap",), float(crowded[False])), (("shrunk",), float(crowded[True]))])
    inventories = snapshot.inventories()
    yield Reading(
        SERVING, [((name,), float(inventory.serving)) for name, inventory in sorted(inventories.items())]
    )
    units = memory_units(inventories)
    yield Reading(
        MEMORY_UNITS,
        [((family, str(unit)), float(len(nodes))) for family, found in units.items() for unit, nodes in found.items()],
    )  # fmt: skip


def _states(snapshot: Snapshot) -> Iterator[tuple[str, bool, CardState]]:
    """Every card's node, whether the node's agent serves, and the card's state."""
    for name in snapshot.nodes():
        node = snapshot.node(name)
        for state in node.cards if node is not None else ():
            yield name, node is not None and node.serving, state


def _granted(snapshot: Snapshot, namespace_of: Callable[[Holder], str]) -> dict[tuple[str, str], list[Slice]]:
    """The slices that pods hold, by namespace and card family; slices kept for a job belong to no namespace."""
    found: defaultdict[tuple[str, str], list[Slice]] = defaultdict(list)
    for name, _, state in _states(snapshot):
        for holder, slices in snapshot.holders(name, state.card.uuid).items():
            if namespace := namespace_of(holder):
                found[namespace, state.card.family] += slices
    return found


def _of_models(snapshot: Snapshot) -> Iterator[Reading]:
    """The room on the cards of each model; 0 for a model without a card that takes slices."""
    room: dict[tuple[str, str], list[CardState]] = {}
    for _, serving, state in _states(snapshot):
        cards = room.setdefault((state.card.family, state.card.model), [])
        if serving and _has_room(state):
            cards.append(state)
    for metric, value in _MODELS:
        yield Reading(metric, _largest(room.items(), value))
    free = {labels: float(sum(state.untouched for state in cards)) for labels, cards in room.items()}
    yield Reading(FREE_CARDS, sorted(free.items()))


def _largest(
    room: Iterable[tuple[tuple[str, str], Sequence[CardState]]], value: Callable[[CardState], float]
) -> Samples:
    return [
        (labels, float(max(map(value, cards), default=0.0))) for labels, cards in sorted(room, key=_labels)
    ]


def _labels(item: tuple[tuple[str, str], object]) -> tuple[str, str]:
    return item[0]


def _has_room(state: CardState) -> bool:
    """True if the card can give a slice of one memory unit and one core group."""
    card = state.card
    return bool(
        state.open and state.free_slices and state.free_cores and mib_to_units(state.free_mib, card.mem_mib, card.units)
    )  # fmt: skip
