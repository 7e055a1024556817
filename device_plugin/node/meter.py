"""Meter: what the cards have and what the slices use, as samples. A sample whose source is absent is absent."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from device_plugin.core.machine import FoundCard
from device_plugin.node.discover import LocalCard
from device_plugin.node.records import Record, Records
from vgpu_runtime import region

MIB = 1 << 20
CARD = ("node", "card")
SLICE = ("node", "card", "namespace", "pod", "container")


_METRICS = (
    ("vgpu_card_memory_bytes", "Memory of the card.", CARD),
    ("vgpu_card_memory_used_bytes", "Memory in use on the card, as its driver says.", CARD),
    ("vgpu_card_busy_ratio", "Share of its time that the card was busy lately, as its driver says.", CARD),
    ("vgpu_card_core_groups", "Core groups of the card.", CARD),
    ("vgpu_card_healthy", "1 if the card is healthy, 0 if not.", CARD),
    ("vgpu_slice_memory_limit_bytes", "Memory that the container may allocate on the card.", SLICE),
    ("vgpu_slice_memory_used_bytes", "Memory that the container has allocated on the card.", SLICE),
    ("vgpu_slice_memory_used_ratio", "Share of its memory that the container has allocated.", SLICE),
    ("vgpu_slice_core_groups", "Core groups that the container holds.", SLICE),
    ("vgpu_slice_processes", "Processes of the container that use its cards.", SLICE),
    ("vgpu_slice_denied_allocations", "Allocations refused since the container started.", SLICE),
)
Sample = tuple[str, tuple[str, ...], float]
"""Metric name, label values, value."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One gauge as it stands now: for each set of label values a value."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Sequence[tuple[tuple[str, ...], float]]


class Meter:
    """Reads everything anew at each call."""

    def __init__(
        self,
        node: str,
        records: Records,
        cards: Callable[[], Mapping[str, LocalCard]],
        used_bytes: Callable[[FoundCard], int | None],
        busy_ratio: Callable[[FoundCard], float | None],
    ) -> None:
        self._node = node
        self._records = records
        self._cards = cards
        self._used_bytes = used_bytes
        self._busy_ratio = busy_ratio

    def __call__(self) -> Iterator[Reading]:
        """All gauges as they stand now."""
        samples: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        for name, labels, value in self._samples():
            samples.setdefault(name, []).append((labels, value))
        for name, text, names in _METRICS:
            yield Reading(name, text, names, samples.get(name, ()))

    def _samples(self) -> Iterator[Sample]:
        for local in self._cards().values():
            yield from self._card(local)
        for record in self._records.all():
            yield from self._slices(record)

    def _card(self, local: LocalCard) -> Iterator[Sample]:
        labels = (self._node, local.card.uuid)
        yield "vgpu_card_memory_bytes", labels, local.card.mem_mib * MIB
        yield "vgpu_card_core_groups", labels, local.card.core_groups
        yield "vgpu_card_healthy", labels, float(local.card.healthy)
        used = self._used_bytes(local.found)
        if used is not None:
            yield "vgpu_card_memory_used_bytes", labels, used
        busy = self._busy_ratio(local.found)
        if busy is not None:
            yield "vgpu_card_busy_ratio", labels, busy

    def _slices(self, record: Record) -> Iterator[Sample]:
        usage = self._usage(record)
        for i, slice_ in enumerate(record.slices):
            labels = (self._node, slice_.card, record.namespace, record.pod_name, record.container)
            limit = slice_.mem_mib * MIB
            yield "vgpu_slice_memory_limit_bytes", labels, limit
            yield "vgpu_slice_core_groups", labels, len(slice_.cores)
            if usage is not None:
                yield "vgpu_slice_memory_used_bytes", labels, usage.used_bytes[i]
                yield "vgpu_slice_memory_used_ratio", labels, usage.used_bytes[i] / limit
                yield "vgpu_slice_processes", labels, usage.live_slots
                yield "vgpu_slice_denied_allocations", labels, usage.denied[i]

    def _usage(self, record: Record) -> region.RegionUsage | None:
        path = self._records.folder(*record.key) / "region" / "usage"
        try:
            return region.read(path)
        except (region.RegionError, OSError):
            return None  # the tenant's to ruin: then nobody knows
