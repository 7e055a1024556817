"""Discover: from what the driver says of the machine's cards to the cards that we share."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from device_plugin.core import masks, units
from device_plugin.core.annotations import MAX_BYTES, MAX_CARDS
from device_plugin.core.card_names import unique
from device_plugin.core.cards import Card, Inventory
from device_plugin.core.errors import AnnotationError
from device_plugin.core.machine import FoundCard, Scan
from vgpu_runtime import vdev
from vgpu_runtime.config import CardLimit, ConfigError
from vgpu_runtime.rocm import RocmLimit

log = logging.getLogger(__name__)

HYGON = 0x1D94
# Hygon's driver keeps four pipes apart; elsewhere each slice needs a core group, and sixteen are as many as help.
HYGON_SLICES, MOST_SLICES = 4, 16


@dataclass(frozen=True, slots=True)
class LocalCard:
    """A shared card: what the cluster knows of it, and what only this machine needs."""

    card: Card
    found: FoundCard

    @property
    def hygon(self) -> bool:
        """True if Hygon's own stack reads vdev files for it."""
        return self.found.vendor == HYGON

    def sick(self) -> "LocalCard":
        """The same card, unhealthy."""
        return replace(self, card=replace(self.card, healthy=False))


class Discovery:
    """Chooses the cards of `node` to share, by settings: prefix by vendor id, memory unit, cards to leave alone."""

    def __init__(
        self, node: str, prefixes: Mapping[str, str], unit_mib: int, exclude: Collection[str]
    ) -> None:
        self._node = node
        self._prefixes = {int(vendor, 16): prefix for vendor, prefix in prefixes.items()}
        self._unit_mib = unit_mib
        self._exclude = frozenset(exclude)
        self._said: set[str] = set()

    def cards(self, scan: Scan) -> tuple[LocalCard, ...]:
        """The cards of a scan that we share, by uuid. What is left out, and what is broken, is logged once."""
        for problem in scan.problems:
            self._say(logging.ERROR, problem)
        shared: list[LocalCard] = []
        for each in scan.cards:
            found = replace(each, uuid=unique(each.uuid, self._node))
            prefix = self._prefixes.get(found.vendor)
            if prefix is None:
                self._say(logging.INFO, f"card {found.pci} is of vendor {found.vendor:04x}: not shared")
            elif {each.uuid, found.uuid, found.pci} & self._exclude:
                self._say(logging.INFO, f"card {found.uuid} at {found.pci} is excluded by the settings")
            elif why := _unfit(found):
                self._say(logging.ERROR, f"card {found.uuid} at {found.pci} is not shared: {why}")
            elif why := _unspeakable(local := LocalCard(self._card(found, prefix), found)):
                self._say(
                    logging.ERROR, f"card {found.pci} is not shared: {why}. Reload its driver, or exclude it"
                )
            elif any(other.card.uuid == found.uuid for other in shared):
                self._say(
                    logging.ERROR,
                    f"card {found.uuid} at {found.pci} is not shared: another has this id. If the card is partitioned,"
                    " set it back to one partition (SPX)",
                )
            else:
                shared.append(local)
        shared.sort(key=lambda local: local.card.uuid)
        for local in shared[MAX_CARDS:]:
            self._say(
                logging.ERROR,
                f"card {local.card.uuid} at {local.found.pci} is not shared: a node shares at most {MAX_CARDS}",
            )
        return tuple(shared[:MAX_CARDS])

    def _card(self, found: FoundCard, prefix: str) -> Card:
        group = masks.group_units(xcc=found.xcc, paired=found.paired)
        groups = found.compute_units // group
        return Card(
            uuid=found.uuid,
            family=prefix,
            model=found.model,
            pci=found.pci,
            mem_mib=found.mem_mib,
            units=units.unit_count(found.mem_mib, self._unit_mib),
            compute_units=found.compute_units,
            core_groups=groups,
            group_units=group,
            max_slices=HYGON_SLICES if found.vendor == HYGON else min(groups, MOST_SLICES),
            numa=found.numa,
            healthy=found.healthy,
            unit_mib=self._unit_mib,
        )

    def _say(self, level: int, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            log.log(level, "%s", text)


def _unfit(found: FoundCard) -> str:
    """Why a card cannot be cut; empty if it can."""
    if found.vendor == HYGON and found.compute_units > vdev.MAX_UNITS:
        return (
            f"it has {found.compute_units} compute units, its vendor's slices hold at most {vdev.MAX_UNITS}"
        )
    if found.compute_units < masks.group_units(xcc=found.xcc, paired=found.paired):
        return f"its {found.compute_units} compute units are less than one core group"
    return ""


def _unspeakable(local: LocalCard) -> str:
    """What of a card neither the cluster nor our library would believe; empty if nothing.

    One such card in the inventory would make the allocator refuse all of it.
    """
    card, found = local.card, local.found
    try:
        text = Inventory((card,)).encode()
        if len(text) > MAX_BYTES // MAX_CARDS:
            return (
                f"its description has {len(text)} characters, at most {MAX_BYTES // MAX_CARDS} are published"
            )
        Inventory.decode(text)
        CardLimit(
            uuid=card.uuid,
            pci=card.pci,
            mem_bytes=card.mem_mib << 20,
            family=RocmLimit(
                gpu_id=found.gpu_id or 1,  # 0 is a sick card's
                render_minor=found.render_minor,
                compute_units=card.compute_units,
                xcc=found.xcc,
                paired=found.paired,
                mask=masks.unit_mask(range(card.core_groups), card.group_units),
            ),
        )
    except (AnnotationError, ConfigError) as error:
        return str(error)
    return ""
