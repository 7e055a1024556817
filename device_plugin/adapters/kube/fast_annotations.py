"""Grants of many pods and inventories of many nodes, read in less than half the time that `decode` of each takes.

What is not quite usual, such as a key that is not known here, is left to `decode`, and so is every refusal.
"""

from functools import lru_cache

import msgspec

from device_plugin.core.annotations import (
    MAX_BYTES,
    MAX_CARDS,
    MAX_COMPUTE_UNITS,
    MAX_INT,
    MAX_TEXT,
    VERSION,
    write_object,
)
from device_plugin.core.card_names import unique
from device_plugin.core.cards import Card, Inventory
from device_plugin.core.errors import AnnotationError
from device_plugin.core.grants import MAX_CONTAINER_NAME, CardSize, Grant, Slice


class _Exact(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    pass


class _Slice(_Exact):
    card: str
    mem: int = msgspec.field(name="memMiB")
    cores: list[int]


class _Size(_Exact):
    mem: int = msgspec.field(name="memMiB")
    most: int = msgspec.field(name="maxSlices")


class _Grant(_Exact):
    v: int
    gen: int
    pod: str
    node: str
    containers: dict[str, list[_Slice]]
    cards: dict[str, _Size] = {}


class _Card(_Exact):
    uuid: str
    family: str
    model: str
    pci: str
    mem: int = msgspec.field(name="memMiB")
    units: int
    compute_units: int = msgspec.field(name="computeUnits")
    core_groups: int = msgspec.field(name="coreGroups")
    group_units: int = msgspec.field(name="groupUnits")
    most: int = msgspec.field(name="maxSlices")
    numa: int
    healthy: bool
    unit: int = msgspec.field(name="memUnitMiB")
    hive: str | None = None


class _Inventory(_Exact):
    v: int
    serving: bool
    cards: list[_Card]


_grants, _inventories = msgspec.json.Decoder(_Grant), msgspec.json.Decoder(_Inventory)


def read_grant(text: str) -> Grant:
    """The grant in an annotation's text, as Grant.decode reads it. Raises AnnotationError."""
    found = _usual_grant(text) if len(text) <= MAX_BYTES else None
    return found or Grant.decode(text)


def _usual_grant(text: str) -> Grant | None:
    """A sound grant of one slice, with only the keys that are known here; None for every other text."""
    try:
        raw = _grants.decode(text)
    except msgspec.MsgspecError:
        return None
    if raw.v != VERSION or len(raw.containers) != 1 or len(raw.cards) > 1:
        return None
    ((container, slices),) = raw.containers.items()
    if len(slices) != 1:
        return None
    (held,) = slices
    cores = held.cores
    if not cores or sorted(set(cores)) != cores or cores[0] < 0 or cores[-1] >= MAX_COMPUTE_UNITS:
        return None
    names = (raw.pod, raw.node, held.card, *raw.cards)
    if not (_is_text(container, MAX_CONTAINER_NAME) and all(map(_is_text, names))):
        return None
    if not (1 <= held.mem <= MAX_INT and 1 <= raw.gen <= MAX_INT):
        return None
    sizes = {}
    for uuid, size in raw.cards.items():
        if not (1 <= size.mem <= MAX_INT and 1 <= size.most <= MAX_INT):
            return None
        sizes[unique(uuid, raw.node)] = CardSize(size.mem, size.most)
    part = Slice(unique(held.card, raw.node), held.mem, tuple(cores))
    return Grant(raw.pod, raw.node, {container: (part,)}, raw.gen, sizes)


def read_inventory(text: str) -> Inventory:
    """The inventory in an annotation's text, as Inventory.decode reads it. Raises AnnotationError."""
    found = _usual_inventory(text) if len(text) <= MAX_BYTES else None
    return found or Inventory.decode(text)


def _usual_inventory(text: str) -> Inventory | None:
    """A sound inventory without reports, with only the keys that are known here; None for every other text."""
    try:
        raw = _inventories.decode(text)
    except msgspec.MsgspecError:
        return None
    if (
        raw.v != VERSION
        or len({card.uuid for card in raw.cards}) != len(raw.cards)
        or len(raw.cards) > MAX_CARDS
    ):
        return None
    cards = []
    for c in raw.cards:
        kind = _of_kind(
            c.family,
            c.model,
            c.mem,
            c.units,
            c.compute_units,
            c.core_groups,
            c.group_units,
            c.most,
            c.unit,
            c.hive,
        )
        for name in (c.uuid, c.pci):
            if not 0 < len(name) <= MAX_TEXT or not name.isprintable():
                return None
        if kind is None or not -1 <= c.numa <= MAX_INT:
            return None
        cards.append(
            Card(
                c.uuid, kind.family, kind.model, c.pci, kind.mem_mib, kind.units, kind.compute_units,
                kind.core_groups, kind.group_units, kind.max_slices, c.numa, c.healthy, kind.cordoned,
                kind.unit_mib, kind.known_as, kind.hive,
            )
        )  # fmt: skip
    return Inventory(tuple(cards), raw.serving)


@lru_cache(1024)
def _of_kind(
    family: str, model: str, mem: int, units: int, compute_units: int, core_groups: int, group_units: int, most: int,
    unit: int, hive: str | None,
) -> Card | None:  # fmt: skip
    """Some card with these figures, checked by Inventory.decode; None if there can be none."""
    card = {
        "uuid": "some", "family": family, "model": model, "pci": "somewhere", "memMiB": mem, "units": units,
        "computeUnits": compute_units, "coreGroups": core_groups, "groupUnits": group_units, "maxSlices": most,
        "numa": 0, "healthy": True, "memUnitMiB": unit, **({"hive": hive} if hive is not None else {}),
    }  # fmt: skip
    try:
        (found,) = Inventory.decode(write_object({"serving": True, "cards": [card]})).cards
    except AnnotationError:
        return None
    return found


def _is_text(name: str, most: int = MAX_TEXT) -> bool:
    """True for what `annotations.checked_text` accepts."""
    return 0 < len(name) <= most and name.isprintable()
