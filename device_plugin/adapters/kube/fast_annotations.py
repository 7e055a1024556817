"""Reads grants and inventories of many objects in less than half the time of Grant.decode and Inventory.decode.

Anything unusual, such as a key that is not known here, is left to `decode`, and so is every refusal.
"""

from functools import lru_cache
from typing import Annotated

import msgspec

from device_plugin.core.contract.annotations import (
    MAX_BYTES,
    MAX_CARDS,
    MAX_COMPUTE_UNITS,
    MAX_INT,
    MAX_TEXT,
    VERSION,
    write_object,
)
from device_plugin.core.contract.card_names import unique
from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.grants import MAX_CONTAINER_NAME, CardSize, Grant, Slice
from device_plugin.core.errors import AnnotationError


class _Exact(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    pass


_Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT)]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_TEXT)]
_ContainerName = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_CONTAINER_NAME)]


class _Slice(_Exact):
    card: _Text
    mem: _Count = msgspec.field(name="memMiB")
    cores: tuple[int, ...]


class _Size(_Exact):
    mem: _Count = msgspec.field(name="memMiB")
    most: _Count = msgspec.field(name="maxSlices")


class _Grant(_Exact):
    v: int
    gen: _Count
    pod: _Text
    node: _Text
    containers: dict[_ContainerName, list[_Slice]]
    cards: dict[_Text, _Size] = {}


class _Card(_Exact):
    uuid: _Text
    family: str
    model: str
    pci: _Text
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
    except (msgspec.MsgspecError, UnicodeEncodeError):
        return None
    if raw.v != VERSION or len(raw.containers) != 1 or len(raw.cards) > 1:
        return None
    ((container, slices),) = raw.containers.items()
    if len(slices) != 1:
        return None
    (held,) = slices
    node = raw.node
    if not (
        _sound(held.cores) and all(map(str.isprintable, (container, raw.pod, node, held.card, *raw.cards)))
    ):
        return None
    sizes = {unique(uuid, node): _size(size.mem, size.most) for uuid, size in raw.cards.items()}
    part = Slice(unique(held.card, node), held.mem, held.cores)
    return Grant(raw.pod, node, {container: (part,)}, raw.gen, sizes)


# Most slices of a cluster have one of few sets of core groups, and most cards one of few sizes.
_size = lru_cache(1024)(CardSize)


@lru_cache(4096)
def _sound(cores: tuple[int, ...]) -> bool:
    """True for ids of core groups, at least one, ascending."""
    return bool(cores) and (*sorted(set(cores)),) == cores and cores[0] >= 0 and cores[-1] < MAX_COMPUTE_UNITS


def read_inventory(text: str) -> Inventory:
    """The inventory in an annotation's text, as Inventory.decode reads it. Raises AnnotationError."""
    found = _usual_inventory(text) if len(text) <= MAX_BYTES else None
    return found or Inventory.decode(text)


def _usual_inventory(text: str) -> Inventory | None:
    """A sound inventory without reports, with only the keys that are known here; None for every other text."""
    try:
        raw = _inventories.decode(text)
    except (msgspec.MsgspecError, UnicodeEncodeError):
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
        if kind is None or not -1 <= c.numa <= MAX_INT or not (c.uuid.isprintable() and c.pci.isprintable()):
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
