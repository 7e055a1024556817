"""Cards, and the inventory of a node's cards as the Node annotation `vgpu.io/cards` carries it."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from device_plugin.core import annotations, units
from device_plugin.core.annotations import Fields
from device_plugin.core.errors import AnnotationError

MAX_CARDS = 64
MAX_COMPUTE_UNITS = 1024
# Far more than the kubelet could count; keeps units times MiB exact in a signed 64-bit integer.
MAX_UNITS = 2**20


@dataclass(frozen=True, slots=True)
class Card:
    """One physical accelerator.

    `family` is the resource prefix that asks for it (`hygon.com/dcu`). `units` are its memory units,
    `core_groups` its core groups of `group_units` compute units each; `max_slices` is how many slices
    the vendor's driver can keep apart. A `cordoned` card gets no new slices: a person's word, not its node's.
    """

    uuid: str
    family: str
    model: str
    pci: str
    mem_mib: int
    units: int
    compute_units: int
    core_groups: int
    group_units: int
    max_slices: int
    numa: int = -1
    healthy: bool = True
    cordoned: bool = False

    @property
    def open(self) -> bool:
        """True if it may get new slices."""
        return self.healthy and not self.cordoned

    def mib(self, unit_count: int) -> int:
        """MiB that `unit_count` memory units of this card grant."""
        return units.units_to_mib(unit_count, self.mem_mib, self.units)

    def cores_for(self, unit_count: int) -> int:
        """Core groups in proportion to `unit_count` memory units, rounded up."""
        return units.proportional(unit_count, self.units, self.core_groups)

    def units_for(self, core_groups: int) -> int:
        """Memory units in proportion to `core_groups`, rounded up."""
        return units.proportional(core_groups, self.core_groups, self.units)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The cards of one node, and whether its agent serves Allocate now."""

    cards: tuple[Card, ...]
    serving: bool = True

    def cordon(self, uuids: Collection[str]) -> "Inventory":
        """The same, with the cards of these uuids cordoned and no others."""
        cards = [
            card if card.cordoned == (card.uuid in uuids) else replace(card, cordoned=not card.cordoned)
            for card in self.cards
        ]
        return replace(self, cards=tuple(cards))

    def encode(self) -> str:
        """The annotation's text: one line of JSON, keys in a fixed order, so equal values give equal text."""
        cards = [
            {
                "uuid": card.uuid,
                "family": card.family,
                "model": card.model,
                "pci": card.pci,
                "memMiB": card.mem_mib,
                "units": card.units,
                "computeUnits": card.compute_units,
                "coreGroups": card.core_groups,
                "groupUnits": card.group_units,
                "maxSlices": card.max_slices,
                "numa": card.numa,
                "healthy": card.healthy,
            }
            for card in self.cards
        ]
        return annotations.write_object({"serving": self.serving, "cards": cards})

    @classmethod
    def decode(cls, text: str) -> "Inventory":
        """Read an annotation; unknown keys are ignored. Raises AnnotationError on anything malformed."""
        fields = annotations.read_object(text, "inventory")
        entries = fields.items("cards", most=MAX_CARDS)
        cards = tuple(_card(Fields(entry, f"inventory: card {i}")) for i, entry in enumerate(entries))
        if len({card.uuid for card in cards}) != len(cards):
            raise AnnotationError("inventory: two cards have the same uuid")
        return cls(cards, fields.flag("serving"))


def card_list(text: str) -> frozenset[str]:
    """The uuids of a comma list such as `vgpu.io/cordoned` carries."""
    return frozenset(word.strip() for word in text.split(",")) - {""}


def _card(fields: Fields) -> Card:
    card = Card(
        uuid=fields.text("uuid"),
        family=fields.text("family"),
        model=fields.text("model"),
        pci=fields.text("pci"),
        mem_mib=fields.integer("memMiB", least=1),
        units=fields.integer("units", least=1),
        compute_units=fields.integer("computeUnits", least=1),
        core_groups=fields.integer("coreGroups", least=1),
        group_units=fields.integer("groupUnits", least=1),
        max_slices=fields.integer("maxSlices", least=1),
        numa=fields.integer("numa", least=-1),
        healthy=fields.flag("healthy"),
    )
    if card.compute_units > MAX_COMPUTE_UNITS or card.core_groups * card.group_units > card.compute_units:
        raise AnnotationError(
            f"inventory: card {card.uuid}: {card.core_groups} core groups of {card.group_units} units"
            f" do not fit {card.compute_units} compute units"
        )
    if card.units > min(card.mem_mib, MAX_UNITS):
        raise AnnotationError(f"inventory: card {card.uuid}: {card.units} memory units of {card.mem_mib} MiB")
    return card
