"""Kernel figures: each container's use of cards as the driver counts it, independent of the library in the container.

The driver names processes by their ids on the host. A process belongs to the pod and the container of its cgroup, which
no process of a container can leave. A cgroup does not have the container's name: where several containers of a pod hold
slices, the mounts of a process show to which of them it belongs.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from device_plugin.core.contract.grants import Slice
from device_plugin.node.checks import mountinfo
from device_plugin.node.checks.render_files import RenderFile, held_bytes, workers
from device_plugin.node.checks.render_scan import CONTAINER_PROCESSES, RenderScan
from device_plugin.node.ports import HostProcesses
from device_plugin.node.slices.records import Record, Records
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import Vendor

# Most processes of the machine that are looked up: the kernel has room for fewer users of a card.
MACHINE_PROCESSES = 4096
# Most processes of one cgroup whose mounts are read to learn the container's name: a tenant can make long lists.
NAMING_PROCESSES = 4

Cgroup = tuple[str, str]
"""UID of the pod, and name of the container's cgroup."""


@dataclass(frozen=True, slots=True)
class KernelUse:
    """The use of cards by one container, from one reading of the kernel's figures.

    `memory_bytes` has, by card uuid, the bytes that the container's processes hold at least. `processes` are the
    processes that have the driver open, and `holders` those that hold card memory or a queue. `unmasked` are the
    processes that made a card work through its render node, although the container has only a part of the card.
    """

    memory_bytes: Mapping[str, int]
    processes: Sequence[int] = ()
    holders: frozenset[int] = frozenset()
    unmasked: frozenset[int] = frozenset()


@dataclass(slots=True)
class _ContainerNames:
    """The container names of cgroups, read from the mounts of their processes."""

    processes: HostProcesses
    known: dict[Cgroup, str] = field(default_factory=dict)

    def keep(self, pods: Iterable[str]) -> None:
        """Forget the cgroups of pods that are not in `pods`."""
        kept = frozenset(pods)
        self.known = {cgroup: name for cgroup, name in self.known.items() if cgroup[0] in kept}

    def of(self, cgroup: Cgroup, members: Sequence[int], records: Sequence[Record]) -> str | None:
        """The name of the container that has this cgroup; None if it cannot be found out.

        If `records` has only one record (the agent's state of a container), the name is in this record. Otherwise the
        mounts of `members`, the cgroup's processes, show the name.
        """
        if len(records) == 1:
            return records[0].container  # no other container of the pod was given a card
        if cgroup not in self.known:
            for process in members[:NAMING_PROCESSES]:
                found = self.processes.mounts(process)
                if found is None or self.processes.container(process) != cgroup:
                    continue
                mounts = mountinfo.parse(found[0])
                for record in records:
                    if mountinfo.is_of(mounts, *record.key):
                        self.known[cgroup] = record.container
                        return record.container
        return self.known.get(cgroup)


class KernelFigures:
    """Holds the kernel's figures of all containers with slices, as the latest `look` read them.

    Any thread may ask for the figures. With a `render` scan, they include the use of cards through render nodes.
    """

    def __init__(
        self,
        records: Records,
        cards: Callable[[], Mapping[str, LocalCard]],
        processes: HostProcesses,
        render: RenderScan | None = None,
    ) -> None:
        self._records = records
        self._cards = cards
        self._processes = processes
        self._render = render
        self._names = _ContainerNames(processes)
        self._found: Mapping[tuple[str, str], KernelUse] = {}

    def look(self) -> None:
        """Read the figures of all containers with slices; `of` returns them until the next look."""
        cards = self._cards()
        by_pod: dict[str, list[Record]] = {}
        for record in self._records.all():
            by_pod.setdefault(record.pod, []).append(record)
        listed = _listed({local.vendor for local in cards.values()})
        self._names.keep(by_pod)
        cgroup_of = cache(self._processes.container)  # most processes are in both lists
        members = self._members(
            {process for found in listed.values() for process in found}, by_pod, cgroup_of
        )
        files = self._render.look(by_pod) if self._render is not None else {}
        openers = self._members(files, by_pod, cgroup_of)
        self._found = {
            record.key: _use(
                record,
                cards,
                listed,
                members.get(record.key, ()),
                {process: files[process] for process in openers.get(record.key, ())},
            )
            for records in by_pod.values()
            for record in records
        }

    def of(self, record: Record) -> KernelUse:
        """The container's figures at the latest look; cards whose driver does not list processes are left out."""
        return self._found.get(record.key, KernelUse({}))

    def busy_units(self, record: Record, card: str) -> int | None:
        """Compute units of the card that run the container's work at this moment.

        None if the driver does not say, or the card is not shared.
        """
        use, local = self.of(record), self._cards().get(card)
        if local is None or card not in use.memory_bytes:
            return None
        figures = local.vendor.figures
        found = [figures.busy_units(process, local.payload) for process in use.processes]
        known = [units for units in found if units is not None]
        return sum(known) if known or not found else None

    def _members(
        self,
        processes: Iterable[int],
        by_pod: Mapping[str, Sequence[Record]],
        cgroup_of: Callable[[int], Cgroup | None],
    ) -> Mapping[tuple[str, str], Sequence[int]]:
        """By pod UID and container name, the processes among `processes` that are in a container with slices."""
        cgroups: dict[Cgroup, list[int]] = {}
        for process in sorted(processes)[:MACHINE_PROCESSES]:
            cgroup = cgroup_of(process)
            if cgroup is not None and cgroup[0] in by_pod:
                cgroups.setdefault(cgroup, []).append(process)
        found: dict[tuple[str, str], list[int]] = {}
        for cgroup, members in cgroups.items():
            name = self._names.of(cgroup, members, by_pod[cgroup[0]])
            if name is not None:
                found.setdefault((cgroup[0], name), []).extend(members[:CONTAINER_PROCESSES])
        return found


def _is_part(slice_: Slice, cards: Mapping[str, LocalCard]) -> bool:
    """True if the slice has fewer core groups than its card."""
    return slice_.card in cards and len(slice_.cores) < cards[slice_.card].card.core_groups


def _listed(vendors: Iterable[Vendor[Any]]) -> Mapping[Vendor[Any], Sequence[int]]:
    """The processes that each vendor's driver lists, by vendor. A vendor whose driver cannot list any is left out."""
    found = {vendor: vendor.figures.processes() for vendor in vendors}
    return {vendor: processes for vendor, processes in found.items() if processes is not None}


def _listed_cards(
    record: Record, cards: Mapping[str, LocalCard], listed: Mapping[Vendor[Any], object]
) -> Mapping[str, LocalCard]:
    """The container's cards, by uuid, of the vendors in `listed`: vendors whose drivers list their cards' processes."""
    found = ((s.card, cards[s.card]) for s in record.slices if s.card in cards)
    return {uuid: local for uuid, local in found if local.vendor in listed}


def _use(
    record: Record,
    cards: Mapping[str, LocalCard],
    listed: Mapping[Vendor[Any], object],
    processes: Sequence[int],
    files: Mapping[int, Sequence[RenderFile]],
) -> KernelUse:
    """The use of cards by one container: by its `processes`, which have the driver open, and by its render `files`."""
    memory, holders = {}, set()
    for uuid, local in _listed_cards(record, cards, listed).items():
        figures = local.vendor.figures
        allocated = {process: figures.memory(process, local.payload) or 0 for process in processes}
        memory[uuid] = held_bytes(files, local.card.pci, allocated)
        holders |= {
            process
            for process, held in allocated.items()
            if held or figures.has_queue(process, local.payload)
        }
    parts = [cards[s.card].card.pci for s in record.slices if _is_part(s, cards)]
    return KernelUse(memory, tuple(processes), frozenset(holders), workers(files, parts))
