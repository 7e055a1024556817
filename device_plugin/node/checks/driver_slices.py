"""Driver slices: the slices that a driver holds, compared with the agent's records.

Hygon's driver holds a slice to its limits itself, and shows each slice that a process uses, with its memory limit. So
the agent sees from outside of the containers whether limits hold, and whether another program has cut the card. A
container with all core groups of a card has it alone, and needs no slice of the driver.
"""

import logging
import time
from collections.abc import Callable, Mapping

from device_plugin.core.contract.events import Event
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.units import MIB
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.lasting import Lasting
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.vendors.local_card import LocalCard

log = logging.getLogger(__name__)

# A foreign slice counts at the second look that shows it: the first may show one of ours that has just ended. At the
# third look without it the finding ends.
FOREIGN_SECONDS, GONE_SECONDS = 4.0, 9.0
# Seconds for which a process must use a card without a slice of the driver.
UNHELD_SECONDS = 30.0

Key = tuple[str, str]
"""Pod UID and container name."""


class DriverSlices:
    """Compares the slices that drivers hold with the agent's records at each `step`; any thread may read the result.

    Posts an event for each card that another program has cut.
    """

    def __init__(
        self,
        records: Records,
        cards: Callable[[], Mapping[str, LocalCard]],
        figures: KernelFigures,
        api: NodeApi,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._cards = cards
        self._figures = figures
        self._api = api
        # Uuids of cards with a slice that is none of ours.
        self._foreign = Lasting[str](clock, FOREIGN_SECONDS, GONE_SECONDS)
        # Processes, each with its container, card and vendor id, that the driver holds to no slice.
        self._unheld = Lasting[tuple[Key, str, int, int]](clock, UNHELD_SECONDS)
        self._closed: frozenset[str] = frozenset()
        self._found: frozenset[Key] = frozenset()
        self._limits: Mapping[tuple[Key, str], int] = {}

    def limit(self, record: Record, card: str) -> int | None:
        """The driver's memory limit of the container's slice of `card`, in bytes, at the latest step.

        None while no process uses the slice, or if the driver holds no slices.
        """
        return self._limits.get((record.key, card))

    def closed(self) -> frozenset[str]:
        """The uuids of the cards that another program has cut; these cards get no new slices."""
        return self._closed

    def unheld(self, record: Record) -> bool:
        """True if a process of the container has used a card for UNHELD_SECONDS while the driver holds no slice for it.

        A slice in the driver with more memory than the container's slice counts as none. A container that has all core
        groups of a card needs none.
        """
        return record.key in self._found

    def step(self) -> None:
        """Compare the drivers' slices with the agent's records; post an event for each card that others have cut."""
        limits: dict[tuple[Key, str], int] = {}
        foreign, unheld = dict[str, int](), set[tuple[Key, str, int, int]]()
        cards = self._cards()
        for uuid, local in cards.items():
            held = local.vendor.driver_slices(local.payload)
            if held is None:
                continue
            ours = {each.vendor_ids[uuid]: each for each in self._records.all() if uuid in each.vendor_ids}
            foreign.update((uuid, vendor_id) for vendor_id in held.keys() - ours.keys())
            for vendor_id, record in ours.items():
                if vendor_id in held:
                    limits[record.key, uuid] = held[vendor_id]
                slice_ = _slice(record, uuid)
                whole = len(slice_.cores) == local.card.core_groups
                if not whole and not 0 < held.get(vendor_id, 0) <= slice_.mem_mib * MIB:
                    unheld |= {(record.key, uuid, vendor_id, user) for user in self._users(record, uuid)}
        before, self._limits = self._closed, limits
        self._closed = frozenset(self._foreign.note_all(foreign.keys())) & cards.keys()
        self._found = frozenset(key for key, *_ in self._unheld.note_all(unheld))
        for uuid in self._closed - before:
            self._report(cards[uuid], foreign[uuid])
        for uuid in before - self._closed:
            log.info("card %s: the driver holds no foreign slice of it any more", uuid)

    def _users(self, record: Record, card: str) -> frozenset[int]:
        """The container's processes with card memory or a queue; empty if it is not certain that they use `card`.

        It is certain if the container has no other card, or holds memory of `card`.
        """
        use = self._figures.of(record)
        return use.holders if use.memory_bytes.get(card) or len(record.slices) == 1 else frozenset()

    def _report(self, local: LocalCard, vendor_id: int) -> None:
        card = local.card
        pods = sorted(
            {
                f"{record.namespace}/{record.pod_name}"
                for record in self._records.all()
                if card.uuid in {s.card for s in record.slices}
            }
        )
        text = (
            f"card {card.uuid} at {card.pci}: its driver holds a slice (pipe {vendor_id}) that another program has cut."
            f" The card gets no new slices while it does. Pods of ours with a slice of it: {', '.join(pods) or 'none'}"
        )
        log.error("%s", text)
        self._api.node_event(Event.CARD_SHARED_ELSEWHERE, text[:1024])


def _slice(record: Record, card: str) -> Slice:
    return next(each for each in record.slices if each.card == card)
