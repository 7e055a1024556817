"""Cards as a driver shows them, and records of containers with slices of them."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.grants import Slice
from device_plugin.node.slices.records import Record
from device_plugin.node.stages.discover import Discovery
from device_plugin.node.vendors.kfd_processes import KfdCard
from device_plugin.node.vendors.port import FoundCard, Scan
from device_plugin.node.vendors.rocm import Rocm
from tests.node.parts import PREFIXES

FOUND = FoundCard(
    "GPU-1", "Z100", "0000:19:00.0", mem_mib=16368, compute_units=60, group_units=1, max_slices=4, numa=0,
    payload=KfdCard(gpu_id=7, render_minor=128, xcc=1, paired=False),
)  # fmt: skip


class Listed(Rocm):
    """A vendor whose driver shows these cards."""

    PCI_VENDOR: ClassVar[int] = 0x1D94

    def __init__(self, *cards: FoundCard[KfdCard]) -> None:
        self._cards = cards

    def scan(self) -> Scan[KfdCard]:
        return Scan(self._cards)


class ListedAmd(Listed):
    """A vendor whose driver shows these cards of AMD."""

    PCI_VENDOR: ClassVar[int] = 0x1002


def shared(
    *found: FoundCard[KfdCard],
    unit: int = 1024,
    prefixes: Mapping[str, str] = PREFIXES,
    exclude: Sequence[str] = (),
    vendor: type[Listed] = Listed,
) -> list[Card]:
    return [local.card for local in Discovery("n1", [vendor(*found)], prefixes, unit, exclude).scan()]


def card(found: FoundCard[KfdCard] = FOUND, unit: int = 1024) -> Card:
    (card,) = shared(found, unit=unit)
    return card


def record(pod: str, *slices: Slice) -> Record:
    """A container with these slices, which holds no tickets."""
    return Record(pod, "default", f"name-{pod}", "main", slices, {}, {}, {})
