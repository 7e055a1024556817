"""Slice history: since when each slice has been idle, and the most memory that its container has held.

A slice is idle while computing is measured and is 0, and the memory that its container holds does not change. Computing
is measured by the kernel: it counts the compute units that run a process' work. A container without a process on a card
does not compute either, if the library says so too. Where neither is known, a slice is never called idle. A burst of
work that is shorter than the time between two samples and takes no memory may be missed.

A history begins with the start of the container, or of the agent.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.slices.writable import WritableFiles

# A slice that computed within this time is not asked again: to read the figures costs CPU time.
SURE_SECONDS = 1.0
# Most processes of a container that are asked at each sample whether they compute: with more, it is not known.
MOST_PROCESSES = 64


@dataclass(frozen=True, slots=True)
class SliceFigures:
    """The history of one slice. It covers `observed` seconds, in which the container held at most `peak_bytes` bytes.

    `idle` are the seconds since the slice last computed or its memory changed. A figure that is not measured is None.
    """

    observed: float
    idle: float | None
    peak_bytes: int | None


@dataclass(slots=True)
class _Slice:
    """The history of a slice: since when the slice is observed and idle, and its container's memory in bytes.

    `held` is the memory at the latest look, as the library and as the kernel counts it; `peak` is the most at any look.
    """

    since: float
    idle_since: float | None = None
    held: tuple[int | None, int | None] | None = None
    peak: int | None = None


@dataclass(slots=True)
class _Container:
    """The slices of a container by card. `used` is true unless the library says that no process uses them."""

    record: Record
    slices: dict[str, _Slice] = field(default_factory=dict)
    used: bool = True


class SliceHistory:
    """Follows since when each slice is idle, and the most memory that its container has held.

    One thread calls `look` and `sample`; any thread may call `of`. `clock` is monotonic.
    """

    def __init__(
        self,
        records: Records,
        writable: WritableFiles,
        figures: KernelFigures,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._records = records
        self._writable = writable
        self._figures = figures
        self._clock = clock
        # By pod UID and container name.
        self._containers: dict[tuple[str, str], _Container] = {}

    def of(self, record: Record, card: str) -> SliceFigures | None:
        """Returns the history of a container's slice; None before the first look at the container."""
        container = self._containers.get(record.key)
        found = container.slices.get(card) if container is not None and container.record is record else None
        if found is None:
            return None
        now, idle = self._clock(), found.idle_since
        return SliceFigures(now - found.since, now - idle if idle is not None else None, found.peak)

    def look(self) -> None:
        """Note the memory that each container holds now; where it has changed, the idle time begins again.

        Call it each time after the kernel's figures were read.
        """
        before, now = self._containers, self._clock()
        found = {}
        for record in self._records.all():
            container = before.get(record.key)
            if container is None or container.record is not record:
                container = _Container(record, {part.card: _Slice(now) for part in record.slices})
            found[record.key] = container
            self._look_at(container, now)
        self._containers = found

    def _look_at(self, container: _Container, now: float) -> None:
        record = container.record
        usage, kernel = self._writable.usage(record.key), self._figures.of(record).memory_bytes
        container.used = usage is None or usage.live_slots > 0
        for number, part in enumerate(record.slices):
            each = container.slices[part.card]
            held = usage.used_bytes[number] if usage is not None else None, kernel.get(part.card)
            if held != each.held and each.idle_since is not None:
                each.idle_since = now
            each.held = held
            # The library's figure, as in vgpu_slice_memory_used_bytes; the kernel's where there is none.
            counted = held[1] if held[0] is None else held[0]
            if counted is not None:
                each.peak = max(counted, each.peak or 0)

    def sample(self) -> None:
        """Record which slices compute now; from these records `of` finds since when a slice is idle.

        Call it at least once a second.
        """
        now = self._clock()
        for container in self._containers.values():
            for card, each in container.slices.items():
                if each.idle_since is not None and now - each.idle_since < SURE_SECONDS:
                    continue
                computes = self._computes(container, card)
                if computes is None:
                    each.idle_since = None
                elif computes or each.idle_since is None:
                    each.idle_since = now

    def _computes(self, container: _Container, card: str) -> bool | None:
        """True if at least one compute unit of the card runs the container's work, as the kernel counts; else false.

        None if the kernel's count is not known.
        """
        processes = self._figures.of(container.record).processes
        if len(processes) > MOST_PROCESSES or (not processes and container.used):
            return None
        units = self._figures.busy_units(container.record, card)
        return None if units is None else units > 0
