"""Unaccounted memory: the part of a card's used memory, by the driver's figure, that no slice accounts for.

It is held by a program that bypasses the library, by a process outside of Kubernetes, or by a container that writes
less into its usage region (the file of its counters) than it uses. The driver's own memory is in it too.
"""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.events import Event
from device_plugin.core.contract.units import MIB
from device_plugin.node.api import NodeApi
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.lasting import Lasting
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.writable import WritableFiles
from device_plugin.node.vendors.local_card import LocalCard

log = logging.getLogger(__name__)

# Seconds for which the memory must be beyond the limit before an event says so, and within it before another event says
# that: a driver frees the memory of a process somewhat later than the process ends.
SURE_SECONDS = 30.0
# Most containers that an event names.
NAMED = 3


@dataclass(frozen=True, slots=True)
class _SliceUse:
    """The memory of a slice: `counted` are the bytes that it accounts for; the kernel shows `beside` bytes more."""

    record: Record
    counted: int
    beside: int


class UnaccountedMemory:
    """Finds the memory in use on each card that no slice accounts for.

    Posts an event when this memory exceeds `limit_mib`, and another when it no longer does. `clock` is monotonic, in
    seconds.
    """

    def __init__(
        self,
        records: Records,
        writable: WritableFiles,
        cards: Callable[[], Mapping[str, LocalCard]],
        figures: KernelFigures,
        api: NodeApi,
        limit_mib: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._writable = writable
        self._cards = cards
        self._figures = figures
        self._api = api
        self._limit = limit_mib * MIB
        # By uuid: the cards whose unaccounted memory is beyond the limit.
        self._beyond = Lasting[str](clock, SURE_SECONDS, SURE_SECONDS)
        self._found: Mapping[str, int] = {}

    def found(self) -> Mapping[str, int]:
        """The unaccounted bytes of each card at the latest step, by uuid.

        Cards whose driver measures nothing are left out.
        """
        return self._found

    def step(self) -> None:
        """Compute the unaccounted memory of each card; post an event when it rises above the limit, or falls below.

        A rise or fall counts once it has lasted for SURE_SECONDS.
        """
        cards, found = self._cards(), {}
        slices = self._slices(cards)
        for uuid, local in cards.items():
            used = local.vendor.usage(local.card, local.payload).used_bytes
            if used is not None:
                found[uuid] = max(0, used - sum(use.counted for use in slices.get(uuid, ())))
                beyond = found[uuid] > self._limit
                if self._beyond.note(uuid, found=beyond):
                    self._report(local.card, found[uuid], slices.get(uuid, ()), beyond=beyond)
        self._found = found

    def _slices(self, cards: Mapping[str, LocalCard]) -> Mapping[str, Sequence[_SliceUse]]:
        """The use of all slices of these cards, by uuid of the card."""
        found: dict[str, list[_SliceUse]] = {}
        for record in self._records.all():
            usage, kernel = self._writable.usage(record.key), self._figures.of(record).memory_bytes
            for number, slice_ in enumerate(record.slices):
                if slice_.card not in cards:
                    continue
                most = slice_.mem_mib * MIB + cards[slice_.card].vendor.RESERVE_BYTES
                held = kernel.get(slice_.card)
                counted = most if held is None else held
                if usage is not None:
                    # The tenant can write any number, and must not hide with it what others use.
                    counted = min(usage.used_bytes[number], most)
                found.setdefault(slice_.card, []).append(
                    _SliceUse(record, counted, max(0, (held or 0) - counted))
                )
        return found

    def _report(self, card: Card, unaccounted: int, slices: Sequence[_SliceUse], *, beyond: bool) -> None:
        if not beyond:
            text = f"card {card.uuid} at {card.pci}: the memory in use is accounted for again"
            log.info("%s", text)
            self._api.node_event(Event.CARD_MEMORY_ACCOUNTED, text)
            return
        text = (
            f"card {card.uuid} at {card.pci}: {unaccounted // MIB} MiB in use that no slice accounts for;"
            f" {'; '.join(_holders(slices)) or 'by the kernel no container with a slice holds them'}"
        )
        log.warning("%s", text)
        self._api.node_event(Event.CARD_MEMORY_UNACCOUNTED, text)


def _holders(slices: Sequence[_SliceUse]) -> Iterator[str]:
    """Yields a text for each container that holds at least 1 MiB more than its library counts.

    NAMED containers at most are named, the largest excess first.
    """
    for use in sorted(slices, key=lambda use: (-use.beside, use.record.key))[:NAMED]:
        if use.beside >= MIB:
            record = use.record
            yield (
                f"container {record.container} of {record.namespace}/{record.pod_name} holds {use.beside // MIB} MiB"
                " more than its library counts"
            )
