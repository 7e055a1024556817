"""Meter: reads what the cards have and what the slices use, as samples. A source without a figure gives no sample."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain

from device_plugin.core.contract.cards import ReportedSlice, SliceState
from device_plugin.core.contract.grants import Slice
from device_plugin.core.contract.metrics import CARD, CONTAINER, SLICE, Exporter, Metric, MetricType, Reading
from device_plugin.core.contract.units import MIB
from device_plugin.core.jobs.progress import BYTES, checkpoints_of, progress_of
from device_plugin.node.checks.driver_slices import DriverSlices
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.slice_history import SliceHistory
from device_plugin.node.checks.unaccounted import UnaccountedMemory
from device_plugin.node.slices.pods import NodePods
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.writable import PROGRESS, WritableFiles
from device_plugin.node.vendors.local_card import LocalCard

CARD_INFO = Metric(
    "vgpu_card_info", Exporter.AGENT,
    "Always 1. The labels say what the card is: its resource prefix (family), model, PCI address, NUMA node"
    " (-1: not known) and enforcement mode.",
    (*CARD, "family", "model", "pci", "numa", "enforcement"),
)  # fmt: skip
CARD_HEALTHY = Metric(
    "vgpu_card_healthy",
    Exporter.AGENT,
    "1 if the driver reports the card without a fault, otherwise 0.",
    CARD,
)
CARD_MEMORY = Metric("vgpu_card_memory_bytes", Exporter.AGENT, "Memory of the card.", CARD)
CARD_MEMORY_USED = Metric(
    "vgpu_card_memory_used_bytes", Exporter.AGENT,
    "Memory of the card in use by all processes, ours or not, as the driver reports it.", CARD,
)  # fmt: skip
CARD_MEMORY_UNACCOUNTED = Metric(
    "vgpu_card_memory_unaccounted_bytes", Exporter.AGENT,
    "Memory of the card in use beyond what the libraries of all containers with a slice of it count, slices of whole"
    " cards included. The driver's own use is in it.", CARD,
)  # fmt: skip
CARD_BUSY = Metric(
    "vgpu_card_busy_ratio", Exporter.AGENT,
    "Share of the last moment in which the card computed, 0 to 1, as the driver reports it. Absent where it does not.",
    CARD,
)  # fmt: skip
CARD_CORE_GROUPS = Metric("vgpu_card_core_groups", Exporter.AGENT, "Core groups of the card.", CARD)
CARD_MAX_SLICES = Metric(
    "vgpu_card_max_slices",
    Exporter.AGENT,
    "Slices that the driver can keep apart on the card, at most.",
    CARD,
)
GRANTED_MEMORY = Metric(
    "vgpu_card_granted_memory_bytes", Exporter.AGENT,
    "Memory of the card that is granted to bound pods, until their processes have ended.", CARD,
)  # fmt: skip
GRANTED_CORE_GROUPS = Metric(
    "vgpu_card_granted_core_groups", Exporter.AGENT,
    "Core groups of the card that are granted to bound pods, until their processes have ended.", CARD,
)  # fmt: skip
GRANTED_SLICES = Metric(
    "vgpu_card_granted_slices", Exporter.AGENT,
    "Slices of the card that are granted to bound pods, until their processes have ended.", CARD,
)  # fmt: skip
SLICE_MEMORY = Metric(
    "vgpu_slice_memory_limit_bytes",
    Exporter.AGENT,
    "Memory that the container may allocate on the card.",
    SLICE,
)
SLICE_MEMORY_USED = Metric(
    "vgpu_slice_memory_used_bytes", Exporter.AGENT,
    "Memory that the container has allocated on the card, as the library in the container counts it.", SLICE,
)  # fmt: skip
SLICE_MEMORY_RATIO = Metric(
    "vgpu_slice_memory_used_ratio", Exporter.AGENT,
    "vgpu_slice_memory_used_bytes divided by vgpu_slice_memory_limit_bytes.", SLICE,
)  # fmt: skip
SLICE_KERNEL_MEMORY = Metric(
    "vgpu_slice_kernel_memory_bytes", Exporter.AGENT,
    "Memory of the card that the container's processes hold, as the driver counts it; with renderWork also through"
    " render nodes. More than vgpu_slice_memory_used_bytes for long: a program bypasses the library, or holds what an"
    " ended process made. Absent where the driver does not say.",
    SLICE,
)  # fmt: skip
SLICE_DRIVER_LIMIT = Metric(
    "vgpu_slice_driver_limit_bytes", Exporter.AGENT,
    "Memory limit to which the card's driver holds the slice, beside vgpu_slice_memory_limit_bytes. Only for Hygon's"
    " cards, while a process uses the slice.", SLICE,
)  # fmt: skip
SLICE_COMPUTE = Metric(
    "vgpu_slice_compute_ratio", Exporter.AGENT,
    "Compute units that run work of the container at this moment, as the driver counts them, divided by the units of"
    " its core groups, 0 to 1. Absent where the driver does not say.", SLICE,
)  # fmt: skip
SLICE_IDLE = Metric(
    "vgpu_slice_idle_seconds", Exporter.AGENT,
    "Time since the container last computed on its slice, by the kernel's figures, or its memory there changed. 0 when"
    " the agent starts. Absent where computing is not measured.", SLICE,
)  # fmt: skip
SLICE_OBSERVED = Metric(
    "vgpu_slice_observed_seconds", Exporter.AGENT,
    "Time for which the agent has followed the slice: since the container started, or the agent.", SLICE,
)  # fmt: skip
SLICE_PEAK = Metric(
    "vgpu_slice_memory_peak_bytes", Exporter.AGENT,
    "Largest vgpu_slice_memory_used_bytes in the last vgpu_slice_observed_seconds, of a look every 5 s. Where the"
    " library's figure cannot be read, the driver's counts.", SLICE,
)  # fmt: skip
SLICE_CORE_GROUPS = Metric(
    "vgpu_slice_core_groups", Exporter.AGENT, "Core groups of the card that the container holds.", SLICE
)
SLICE_PROCESSES = Metric(
    "vgpu_slice_processes", Exporter.AGENT,
    "Processes of the container that have opened its cards.", CONTAINER,
)  # fmt: skip
SLICE_DENIED = Metric(
    "vgpu_slice_denied_allocations_total", Exporter.AGENT,
    "Allocations on the card that the library has refused since the container started.", SLICE, MetricType.COUNTER,
)  # fmt: skip
SLICES_REPORTED = Metric(
    "vgpu_reported_slices", Exporter.AGENT,
    "Containers whose slices the node reports, by state: outliving (the pod is gone and its processes still hold them),"
    " covered (a mount hides the files that limit the container), unenforced (it bypasses the library), refused"
    " (it cannot start, because another pod's container runs on its slice).",
    ("node", "state"),
)  # fmt: skip

PROGRESS_DONE = Metric(
    "vgpu_progress_done", Exporter.AGENT,
    "What the container's program says it has done, in a unit of its own. Absent while it says nothing.", CONTAINER,
)  # fmt: skip
PROGRESS_GOAL = Metric(
    "vgpu_progress_goal", Exporter.AGENT,
    "What the container's program says it has to do in all, in the unit of vgpu_progress_done.", CONTAINER,
)  # fmt: skip
CHECKPOINTS = Metric(
    "vgpu_checkpoints_total", Exporter.AGENT,
    "Checkpoints that the container's program says it has saved since the container started.", CONTAINER,
    MetricType.COUNTER,
)  # fmt: skip
WRITABLE_SPARE = Metric(
    "vgpu_writable_spare_containers", Exporter.AGENT,
    "Containers whose usage region and progress file still fit on the node's tmpfs. 0 if it is full, or not mounted:"
    " then these files lie on the node's disk.", ("node",),
)  # fmt: skip

INVENTORY_AGE = Metric(
    "vgpu_inventory_age_seconds", Exporter.AGENT,
    "Time since the agent last knew that its node's inventory (the annotation vgpu.io/cards) is up to date. Below 1"
    " while all is well, although it is written only when it changes: the agent reads it again every minute.",
    ("node",),
)  # fmt: skip

Sample = tuple[Metric, tuple[str, ...], float]
"""A metric, its label values, and its value."""


class Meter:
    """Returns all metrics when it is called; each call reads all sources again."""

    def __init__(
        self,
        node: str,
        records: Records,
        writable: WritableFiles,
        cards: Callable[[], Mapping[str, LocalCard]],
        pods: NodePods,
        reports: Callable[[], Iterable[ReportedSlice]],
        figures: KernelFigures,
        unaccounted: UnaccountedMemory,
        driver: DriverSlices,
        history: SliceHistory,
        inventory_age: Callable[[], float],
    ) -> None:
        self._node = node
        self._records = records
        self._writable = writable
        self._cards = cards
        self._pods = pods
        self._reports = reports
        self._figures = figures
        self._unaccounted = unaccounted
        self._driver = driver
        self._history = history
        self._inventory_age = inventory_age

    def __call__(self) -> Iterator[Reading]:
        """All metrics with their present values."""
        samples: dict[Metric, list[tuple[tuple[str, ...], float]]] = {}
        for metric, labels, value in self._samples():
            samples.setdefault(metric, []).append((labels, value))
        for metric, found in samples.items():
            yield Reading(metric, found)

    def _samples(self) -> Iterator[Sample]:
        for local in self._cards().values():
            yield from self._card(local)
        for uuid, unaccounted in self._unaccounted.found().items():
            yield CARD_MEMORY_UNACCOUNTED, (self._node, uuid), unaccounted
        if self._pods.synced.is_set():
            yield from self._granted()
        for record in self._records.all():
            yield from self._slices(record)
            yield from self._progress(record)
        states = Counter(report.state for report in self._reports())
        for state in SliceState:
            yield SLICES_REPORTED, (self._node, state.value), states[state]
        yield WRITABLE_SPARE, (self._node,), self._writable.spare()
        yield INVENTORY_AGE, (self._node,), self._inventory_age()

    def _card(self, local: LocalCard) -> Iterator[Sample]:
        card = local.card
        labels = (self._node, card.uuid)
        about = (card.family, card.model, card.pci, str(card.numa), local.enforcement.value)
        yield CARD_INFO, (*labels, *about), 1
        yield CARD_HEALTHY, labels, float(card.healthy)
        yield CARD_MEMORY, labels, card.mem_mib * MIB
        yield CARD_CORE_GROUPS, labels, card.core_groups
        yield CARD_MAX_SLICES, labels, card.max_slices
        usage = local.vendor.usage(card, local.payload)
        if usage.used_bytes is not None:
            yield CARD_MEMORY_USED, labels, usage.used_bytes
        if usage.busy_ratio is not None:
            yield CARD_BUSY, labels, usage.busy_ratio

    def _granted(self) -> Iterator[Sample]:
        """The granted part of each card: slices of active pods, and of ended pods whose containers have a record."""
        held: dict[str, list[Slice]] = {uuid: [] for uuid in self._cards()}
        slices = chain.from_iterable(grant.slices() for grant in self._pods.grants())
        kept = (slice_ for r in self._records.all() if not self._pods.active(r.pod) for slice_ in r.slices)
        for slice_ in chain(slices, kept):
            if slice_.card in held:
                held[slice_.card].append(slice_)
        for uuid, found in held.items():
            labels = (self._node, uuid)
            yield GRANTED_MEMORY, labels, sum(slice_.mem_mib for slice_ in found) * MIB
            yield GRANTED_CORE_GROUPS, labels, len({core for slice_ in found for core in slice_.cores})
            yield GRANTED_SLICES, labels, len(found)

    def _slices(self, record: Record) -> Iterator[Sample]:
        usage, kernel = self._writable.usage(record.key), self._figures.of(record)
        container = (record.namespace, record.pod_name, record.container)
        if usage is not None:
            yield SLICE_PROCESSES, (self._node, *container), usage.live_slots
        for i, slice_ in enumerate(record.slices):
            labels = (self._node, slice_.card, *container)
            limit = slice_.mem_mib * MIB
            yield SLICE_MEMORY, labels, limit
            yield SLICE_CORE_GROUPS, labels, len(slice_.cores)
            if usage is not None:
                yield SLICE_MEMORY_USED, labels, usage.used_bytes[i]
                yield SLICE_MEMORY_RATIO, labels, usage.used_bytes[i] / limit
                yield SLICE_DENIED, labels, usage.denied[i]
            if (driver := self._driver.limit(record, slice_.card)) is not None:
                yield SLICE_DRIVER_LIMIT, labels, driver
            if slice_.card in kernel.memory_bytes:
                yield SLICE_KERNEL_MEMORY, labels, kernel.memory_bytes[slice_.card]
            yield from ((SLICE_COMPUTE, labels, ratio) for ratio in self._compute(record, slice_))
            yield from ((metric, labels, value) for metric, value in self._past(record, slice_))

    def _compute(self, record: Record, slice_: Slice) -> Iterator[float]:
        """The share of the slice's compute units that are busy; empty if the driver does not count them."""
        busy, local = self._figures.busy_units(record, slice_.card), self._cards().get(slice_.card)
        if busy is not None and local is not None:
            yield min(1.0, busy / (len(slice_.cores) * local.card.group_units))

    def _past(self, record: Record, slice_: Slice) -> Iterator[tuple[Metric, float]]:
        """The samples of the slice's history (peak memory, idle time), as far as it is measured."""
        history = self._history.of(record, slice_.card)
        if history is None:
            return
        yield SLICE_OBSERVED, history.observed
        if history.idle is not None:
            yield SLICE_IDLE, history.idle
        if history.peak_bytes is not None:
            yield SLICE_PEAK, history.peak_bytes

    def _progress(self, record: Record) -> Iterator[Sample]:
        said = self._writable.read(record.key, PROGRESS, BYTES)
        labels = (self._node, record.namespace, record.pod_name, record.container)
        progress, checkpoints = progress_of(said), checkpoints_of(said)
        if progress is not None:
            yield PROGRESS_DONE, labels, progress.done
            yield PROGRESS_GOAL, labels, progress.total
        if checkpoints:
            yield CHECKPOINTS, labels, checkpoints
