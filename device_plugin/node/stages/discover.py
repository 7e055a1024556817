"""Discover: read the machine's cards from the vendors' drivers, and choose the cards to share."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from device_plugin.core.contract import units
from device_plugin.core.contract.annotations import MAX_BYTES, MAX_CARDS
from device_plugin.core.contract.card_names import unique
from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.units import MIB
from device_plugin.core.counted import counted
from device_plugin.core.enforcement import Enforcement
from device_plugin.core.errors import AnnotationError
from device_plugin.node.api import NodeApi
from device_plugin.node.slices.records import Record
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import FoundCard, Vendor
from vgpu_runtime.config import MAX_MEM_BYTES

log = logging.getLogger(__name__)

# Most pods that an event about an unhealthy card names: with the longest names it has room for no more.
NAMED = 3


class Discovery:
    """Finds the cards of `node`, and decides by the settings which of them are shared.

    `prefixes` are resource prefixes by PCI vendor id in hexadecimal; `exclude` names cards that are not shared, by uuid
    or PCI address. `modes` are enforcement modes by PCI vendor id; a vendor without one has Enforcement.OBSERVE.
    """

    def __init__(
        self,
        node: str,
        vendors: Sequence[Vendor[Any]],
        prefixes: Mapping[str, str],
        unit_mib: int,
        exclude: Collection[str],
        modes: Mapping[str, Enforcement] = MappingProxyType({}),
    ) -> None:
        self._node = node
        self._vendors = vendors
        self._prefixes = {int(vendor, 16): prefix for vendor, prefix in prefixes.items()}
        self._modes = {int(vendor, 16): mode for vendor, mode in modes.items()}
        self._unit_mib = unit_mib
        self._exclude = frozenset(exclude)
        self._said: set[str] = set()

    def scan(self, held: Collection[str] = ()) -> tuple[LocalCard, ...]:
        """The shared cards of the machine, ordered by uuid. An excluded card is among them only if `held` has its uuid.

        A card that is not shared is logged once, with the reason.
        """
        shared: dict[str, LocalCard] = {}
        for local in self._candidates(held):
            card = local.card
            if local.excluded:
                self._say(
                    logging.INFO, f"card {card.uuid} is excluded by the settings, once its slices have ended"
                )
            if card.uuid in shared:
                self._refuse(
                    card.uuid,
                    card.pci,
                    "another has this id. If the card is partitioned, set it back to one partition (SPX)",
                )
            else:
                shared[card.uuid] = local
        ordered = [shared[uuid] for uuid in sorted(shared)]
        for local in ordered[MAX_CARDS:]:
            self._refuse(local.card.uuid, local.card.pci, f"a node shares at most {MAX_CARDS}")
        return tuple(ordered[:MAX_CARDS])

    def _candidates(self, held: Collection[str]) -> Iterator[LocalCard]:
        known = {vendor.PCI_VENDOR for vendor in self._vendors}
        for vendor in self._vendors:
            scan = vendor.scan()
            for problem in scan.problems:
                self._say(logging.ERROR, problem)
            for pci, pci_vendor in scan.others.items():
                if pci_vendor not in known:
                    self._foreign(pci, pci_vendor)
            prefix = self._prefixes.get(vendor.PCI_VENDOR)
            for each in scan.cards:
                found = replace(each, uuid=unique(each.uuid, self._node))
                if prefix is None:
                    self._foreign(found.pci, vendor.PCI_VENDOR)
                elif (excluded := self._excludes(each, found)) and found.uuid not in held:
                    self._say(logging.INFO, f"card {found.uuid} at {found.pci} is excluded by the settings")
                elif why := _unfit(found):
                    self._refuse(found.uuid, found.pci, why)
                elif why := _unpublishable(card := self._card(found, prefix)):
                    # The text names no uuid, because the uuid itself may be malformed.
                    self._say(
                        logging.ERROR,
                        f"card {found.pci} is not shared: {why}. Reload its driver, or exclude it",
                    )
                else:
                    mode = self._modes.get(vendor.PCI_VENDOR, Enforcement.OBSERVE)
                    yield LocalCard(card, vendor, found.payload, found.fault, mode, excluded)

    def _excludes(self, *names: FoundCard[Any]) -> bool:
        return not self._exclude.isdisjoint(name for card in names for name in (card.uuid, card.pci))

    def _card(self, found: FoundCard[Any], prefix: str) -> Card:
        return Card(
            uuid=found.uuid,
            family=prefix,
            model=found.model,
            pci=found.pci,
            mem_mib=found.mem_mib,
            units=units.unit_count(found.mem_mib, self._unit_mib),
            compute_units=found.compute_units,
            core_groups=found.compute_units // found.group_units,
            group_units=found.group_units,
            max_slices=found.max_slices,
            numa=found.numa,
            healthy=not found.fault,
            unit_mib=self._unit_mib,
            hive=found.hive,
        )

    def _refuse(self, uuid: str, pci: str, why: str) -> None:
        self._say(logging.ERROR, f"card {uuid} at {pci} is not shared: {why}")

    def _foreign(self, pci: str, vendor: int) -> None:
        self._say(logging.INFO, f"card {pci} is of vendor {vendor:04x}: not shared")

    def _say(self, level: int, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            log.log(level, "%s", text)


class SharedCards:
    """Holds the shared cards as the latest `look` found them. Safe from any thread."""

    def __init__(self, discovery: Discovery, api: NodeApi, records: Callable[[], Iterable[Record]]) -> None:
        self._discovery = discovery
        self._api = api
        self._records = records
        self._now: Mapping[str, LocalCard] = {}
        # Pairs of a pod's UID and one of its cards that an event to the pod has named.
        self._reported: set[tuple[str, str]] = set()

    def __call__(self) -> Mapping[str, LocalCard]:
        """The shared cards by uuid."""
        return self._now

    def cards(self) -> list[Card]:
        """The shared cards, ordered by uuid."""
        return [local.card for local in self._now.values()]

    def excluded(self) -> frozenset[str]:
        """The uuids of the excluded cards whose slices have not all ended."""
        return frozenset(uuid for uuid, local in self._now.items() if local.excluded)

    def look(self) -> None:
        """Scan the machine; changes of health are logged and written as events.

        A vanished card stays, unhealthy: containers may still be on it. An excluded card leaves with its last slice.
        """
        before = self._now
        held = {held.card for record in self._records() for held in record.slices}
        now = {local.card.uuid: local for local in self._discovery.scan(held)}
        for uuid, local in before.items():
            if not local.excluded or uuid in held:
                now.setdefault(uuid, local.unhealthy("its driver does not show it any more"))
        self._now = dict(sorted(now.items()))
        for uuid, local in self._now.items():
            was = before[uuid].card.healthy if uuid in before else True
            if local.card.healthy != was:
                self._report(local)

    def _report(self, local: LocalCard) -> None:
        card = local.card
        if card.healthy:
            text = f"card {card.uuid} at {card.pci} is healthy again"
            log.info("%s", text)
            self._api.node_event(Event.CARD_HEALTHY, text)
            return
        text = (
            f"card {card.uuid} at {card.pci} is unhealthy: {local.fault}; {_slices_on(card, self._records())}"
        )
        log.warning("%s", text)
        self._api.node_event(Event.CARD_UNHEALTHY, text)
        self._report_to_pods(local)

    def _report_to_pods(self, local: LocalCard) -> None:
        """Post an event about the sick card on each pod with a slice of it; a pod gets only one event about a card."""
        card, records = local.card, tuple(self._records())
        self._reported &= {(record.pod, s.card) for record in records for s in record.slices}
        for record in records:
            if card.uuid in {s.card for s in record.slices} and (record.pod, card.uuid) not in self._reported:
                self._reported.add((record.pod, card.uuid))
                self._api.pod_event(
                    record.pod_ref,
                    Event.SLICE_UNHEALTHY,
                    f"its card {card.uuid} at {card.pci} is unhealthy: {local.fault}. Its containers are not started"
                    " again before the card is healthy: delete the pod if it no longer works",
                )


def _unfit(found: FoundCard[Any]) -> str:
    """The reason why a card cannot be shared, as text; empty if it can."""
    if found.mem_mib * MIB > MAX_MEM_BYTES:
        return f"its {found.mem_mib} MiB are more than a slice can have"
    return found.unfit


def _unpublishable(card: Card) -> str:
    """The reason why a card's entry cannot be in the inventory, as text; empty if it can.

    The entry is too long, or the allocator would refuse it, and with it the whole inventory.
    """
    try:
        text = Inventory((card,)).encode()
        if len(text) > MAX_BYTES // MAX_CARDS:
            return (
                f"its description has {len(text)} characters, at most {MAX_BYTES // MAX_CARDS} are published"
            )
        Inventory.decode(text)
    except AnnotationError as error:
        return str(error)
    return ""


def _slices_on(card: Card, records: Iterable[Record]) -> str:
    """The pods with slices on a card, and how to move them, as text."""
    held = Counter(
        f"{record.namespace}/{record.pod_name}"
        for record in records
        for slice_ in record.slices
        if slice_.card == card.uuid
    )
    if not held:
        return "no slice is on it"
    named = [f"{pod} ({count})" if count > 1 else pod for pod, count in sorted(held.items())]
    more = f" and {len(named) - NAMED} more pods" if len(named) > NAMED else ""
    slices = counted(held.total(), "slice")
    return f"{slices} on it: {', '.join(named[:NAMED])}{more}. vgpu drain {card.uuid} moves them"
