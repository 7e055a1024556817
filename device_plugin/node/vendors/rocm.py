"""AMD's cards, as the KFD topology and DRM describe them in sysfs; Hygon's have the same driver (hygon.py).

Layout: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c, and Documentation/gpu/amdgpu/driver-misc.rst.
A card is healthy while its topology node has a gpu_id, its PCI device can be read, and, where the driver counts
memory errors, none was uncorrectable.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from device_plugin.core.contract import masks
from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.units import MIB
from device_plugin.core.machine import DeviceNode
from device_plugin.node.vendors import models
from device_plugin.node.vendors.host_stack import HostStack
from device_plugin.node.vendors.kfd_processes import KfdCard, KfdProcesses
from device_plugin.node.vendors.models import NO_NAME, Models
from device_plugin.node.vendors.port import (
    About,
    CardSlice,
    CardUsage,
    ContainerFiles,
    FoundCard,
    Machine,
    NodeSigns,
    ProcessFigures,
    Scan,
    Vendor,
    VendorIds,
)
from vgpu_runtime import rocm
from vgpu_runtime.config import CardLimit, ConfigError, model_value
from vgpu_runtime.rocm import RocmLimit

TOPOLOGY = "sys/devices/virtual/kfd/kfd/topology/nodes"
PCI_DEVICES = "sys/bus/pci/devices"
FRAMEBUFFER_HEAPS = (1, 2)  # public and private VRAM
FIRST_RDNA = 10
SHARED_DEVICES = ("kfd", "mkfd")
# Most slices of a card: each needs a core group, and more than sixteen are of no use.
MAX_SLICES = 16
# From gfx12 on a card has four slots for compute queues of programs, and HAMi measured that more than two sharers
# collapse. With amdgpu's parameter num_kcq=0 the kernel keeps no compute queues for itself.
FIRST_FEW_QUEUES, MAX_SLICES_FEW_QUEUES = 12, 2
KERNEL_QUEUES = "sys/module/amdgpu/parameters/num_kcq"
LONGEST_NAME = 63
_NUMBER = re.compile(r"[0-9]{1,20}")  # the kernel's are at most 64 bits wide


class BrokenFileError(Exception):
    """A file of the driver is malformed."""


class Rocm(Vendor[KfdCard]):
    """Reads and shares the cards of one PCI vendor whose driver is AMD's KFD."""

    PCI_VENDOR: ClassVar[int] = 0x1002
    MAX_SLICES: ClassVar[int] = MAX_SLICES
    RESERVE_BYTES: ClassVar[int] = rocm.RESERVE_BYTES
    CARD_VARIABLES: ClassVar[Mapping[str, str]] = {"AMD_VISIBLE_DEVICES": "void"}
    MODELS: ClassVar[Models] = models.AMD
    ABOUT: ClassVar[About] = About(
        "AMD Instinct, Radeon",
        "`amd.com/gpu` ([component `amd`](../install.md))",
        "amdgpu, with `/dev/kfd`",
        "ROCm",
    )

    def __init__(self, machine: Machine, mounts: Sequence[str] = ()) -> None:
        self._machine = machine
        self._stack = HostStack(machine, mounts, self.MOUNTS)
        self._processes = KfdProcesses(machine)

    def memory_region(self, card: Card) -> str:
        """The name under which amdgpu registers the card's memory."""
        return f"drm/{card.pci}/vram"

    @property
    def figures(self) -> ProcessFigures[KfdCard]:
        """The KFD's figures of processes. The KFD lists the processes of all vendors' cards together."""
        return self._processes

    @property
    def ids(self) -> VendorIds | None:
        """Always None, because amdgpu needs no ids of slices: masks keep slices apart."""
        return None

    def scan(self) -> Scan[KfdCard]:
        """All cards of this PCI vendor in KFD's topology.

        Cards of other vendors are in `others`, and a text for each unreadable card is in `problems`.
        """
        cards: list[FoundCard[KfdCard]] = []
        problems: list[str] = []
        others: dict[str, int] = {}
        for node in sorted(self._machine.matching(f"{TOPOLOGY}/*"), key=_node_number):
            try:
                values = self._properties(f"{node}/properties")
                if not _number(values, "simd_count", node):
                    continue  # a CPU
                pci, vendor = _pci_address(values, node), _number(values, "vendor_id", node)
                if vendor == self.PCI_VENDOR:
                    cards.append(self._card(node, values, pci))
                else:
                    others[pci] = vendor
            except BrokenFileError as error:
                problems.append(f"{error}; this card is not shared. Reload its driver, or exclude the card")
        return Scan(tuple(cards), tuple(problems), others)

    def usage(self, card: Card, payload: KfdCard) -> CardUsage:
        """The used memory and the busy share of the card, as amdgpu reports them now; None for a missing figure."""
        del payload
        busy = self._figure(card.pci, "gpu_busy_percent")
        return CardUsage(
            self._figure(card.pci, "mem_info_vram_used"), None if busy is None else min(busy, 100) / 100
        )

    def files(self, slices: Sequence[CardSlice[KfdCard]]) -> ContainerFiles[RocmLimit]:
        """The limits for the library, the device files, and the variable that tells HIP the number of compute units."""
        limits = [self._limit(s) for s in slices]
        return ContainerFiles(
            limits=limits,
            devices=[
                *self._devices([s.payload for s in slices]),
                *self._stack.devices(s.card.pci for s in slices),
            ],
            mounts=[*self._machine.mounts(), *self._stack.mounts()],
            preloads=self._machine.preloads(),
            environment=rocm.environment([limit.family for limit in limits]),
        )

    def driver_slices(self, payload: KfdCard) -> Mapping[int, int] | None:
        """Always None, because the driver (amdgpu) knows no slices."""
        del payload
        return None

    def rivals(self, signs: Callable[[], NodeSigns]) -> Sequence[str]:
        """Always empty, because AMD's own plugin is noticed by its resource (checks/other_plugins.py)."""
        del signs
        return ()

    def missing_mounts(self) -> Sequence[str]:
        """The paths of the setting `mounts` that are not on the node."""
        return self._stack.missing()

    def container_path(self, name: str) -> str | None:
        """Always None, because AMD's runtime reads no file that this vendor writes."""
        del name
        return None

    def _limit(self, s: CardSlice[KfdCard]) -> CardLimit[RocmLimit]:
        """The slice's limits for vgpu.conf. Raises ConfigError if vgpu.conf cannot express the limits."""
        return CardLimit(
            uuid=s.card.uuid,
            pci=s.card.pci,
            model=model_value(s.card.model),
            request=s.request,
            mem_bytes=s.mem_bytes,
            family=RocmLimit(
                gpu_id=s.payload.gpu_id,
                render_minor=s.payload.render_minor,
                compute_units=s.card.compute_units,
                xcc=s.payload.xcc,
                paired=s.payload.paired,
                mask=masks.unit_mask(s.cores, s.card.group_units),
            ),
        )

    def _devices(self, cards: Sequence[KfdCard]) -> Sequence[DeviceNode]:
        """The device nodes that all cards share (/dev/mkfd is Hygon's own), and the render node of each card.

        The nodes are looked up in the host's sysfs, because the agent does not see the host's /dev.
        """
        shared = [name for name in SHARED_DEVICES if self._machine.matching(f"sys/class/*/{name}")]
        names = [*shared, *(f"dri/renderD{card.render_minor}" for card in cards)]
        return [self._machine.device(f"dev/{name}") for name in names]

    def _card(self, node: str, values: Mapping[str, int], pci: str) -> FoundCard[KfdCard]:
        """The card that a topology node of the driver (KFD) describes.

        `values` are the properties of the topology node `node`; `pci` is the card's PCI address.
        """
        unique, hive = values.get("unique_id", 0), values.get("hive_id", 0)
        payload = KfdCard(
            gpu_id=self._integer(f"{node}/gpu_id"),
            render_minor=_number(values, "drm_render_minor", node),
            xcc=values.get("num_xcc", 1) or 1,
            paired=_number(values, "gfx_target_version", node) // 10000 >= FIRST_RDNA,
        )
        units = _number(values, "simd_count", node) // (_number(values, "simd_per_cu", node) or 1)
        group = masks.group_units(xcc=payload.xcc, paired=payload.paired)
        return FoundCard(
            uuid=f"GPU-{unique:016x}" if unique else f"GPU-{pci}",
            model=self._model(node, values, pci),
            pci=pci,
            mem_mib=self._memory(node),
            compute_units=units,
            group_units=group,
            max_slices=min(units // group, self._most_slices(_number(values, "gfx_target_version", node))),
            numa=self._numa(pci),
            payload=payload,
            fault=self._fault(pci) if payload.gpu_id else "its driver gives it no gpu_id",
            unfit=self._unfit(units, payload),
            hive=f"{hive:x}" if hive else "",
        )

    def _most_slices(self, target: int) -> int:
        """The largest number of slices for a card with this `gfx_target_version`.

        The number is smaller from gfx12 on, where a card has few queues.
        """
        if target // 10000 < FIRST_FEW_QUEUES:
            return self.MAX_SLICES
        try:
            kernel_queues = self._text(KERNEL_QUEUES).strip()
        except BrokenFileError:
            kernel_queues = ""
        return self.MAX_SLICES if kernel_queues == "0" else min(self.MAX_SLICES, MAX_SLICES_FEW_QUEUES)

    def _model(self, node: str, values: Mapping[str, int], pci: str) -> str:
        """The card's model as people name it; for a card in no table, the driver's name, or a name made of ids."""
        device, target = _number(values, "device_id", node), _number(values, "gfx_target_version", node)
        chip = self._name(f"{node}/name")
        return (
            self.MODELS.known(device, self._hexadecimal(pci, "revision"))
            or (chip if chip != NO_NAME else "")
            or self._product(pci)
            or self.MODELS.of_target(target)
            or f"{device:04x}"
        )

    def _product(self, pci: str) -> str:
        """The name that the vendor wrote into the card; empty without one, or if a list cannot hold it."""
        try:
            text = self._name(f"{PCI_DEVICES}/{pci}/product_name")
        except BrokenFileError:
            return ""
        return text if text.isascii() and "," not in text and not text.startswith("!") else ""

    def _hexadecimal(self, pci: str, name: str) -> int | None:
        try:
            return int(self._text(f"{PCI_DEVICES}/{pci}/{name}"), 16)
        except (BrokenFileError, ValueError):
            return None

    def _unfit(self, units: int, card: KfdCard) -> str:
        """The reason why a card with `units` compute units cannot be shared, as text; empty if it can."""
        group = masks.group_units(xcc=card.xcc, paired=card.paired)
        # Bounded, because the time to compute a mask grows with the number of units.
        if not group <= units <= rocm.MAX_COMPUTE_UNITS:
            return f"its {units} compute units are not between one core group's {group} and {rocm.MAX_COMPUTE_UNITS}"
        whole = masks.unit_mask(range(units // group), group)
        try:
            # The id 0 is a sick card's.
            RocmLimit(card.gpu_id or 1, card.render_minor, units, card.xcc, card.paired, whole)
        except ConfigError as error:
            return str(error)
        return ""

    def _memory(self, node: str) -> int:
        paths = self._machine.matching(f"{node}/mem_banks/*/properties")
        banks = [self._properties(path) for path in paths]
        size = sum(b.get("size_in_bytes", 0) for b in banks if b.get("heap_type") in FRAMEBUFFER_HEAPS)
        if size < MIB:
            raise BrokenFileError(f"/{node}/mem_banks names no card memory")
        return size // MIB

    def _figure(self, pci: str, name: str) -> int | None:
        try:
            return int(self._text(f"{PCI_DEVICES}/{pci}/{name}"))
        except (BrokenFileError, ValueError):
            return None

    def _numa(self, pci: str) -> int:
        node = self._figure(pci, "numa_node")
        return -1 if node is None else node

    def _fault(self, pci: str) -> str:
        """The reason why the card is unhealthy, as text; empty if it is not."""
        device = f"{PCI_DEVICES}/{pci}"
        if not self._machine.matching(f"{device}/vendor"):
            return "its PCI device is gone"
        try:
            lines = self._text(f"{device}/ras/umc_err_count").splitlines()
            counts = dict(line.split(": ", 1) for line in lines)
        except (BrokenFileError, ValueError):
            return ""
        errors = counts.get("ue", "0").strip()
        return "" if errors == "0" else f"uncorrectable memory errors (RAS): {errors[:20]}"

    def _text(self, path: str) -> str:
        try:
            return self._machine.text(path)
        except OSError as error:
            raise BrokenFileError(f"/{path} cannot be read: {error.strerror}") from error

    def _integer(self, path: str) -> int:
        text = self._text(path).strip()
        if not _NUMBER.fullmatch(text):
            raise BrokenFileError(f"/{path} says {text[:40]!r} where a number must be")
        return int(text)

    def _name(self, path: str) -> str:
        text = self._text(path).strip()
        if not text.isprintable() or len(text) > LONGEST_NAME:
            raise BrokenFileError(f"/{path} says {text[:40]!r} where a name must be")
        return text

    def _properties(self, path: str) -> Mapping[str, int]:
        values = {}
        for line in self._text(path).splitlines():
            name, _, number = line.partition(" ")
            if not _NUMBER.fullmatch(number.strip()):
                raise BrokenFileError(f"/{path} has the line {line[:60]!r} where `name number` must be")
            values[name] = int(number)
        return values


def _node_number(path: str) -> str:
    return path.rpartition("/")[2].zfill(4)


def _pci_address(values: Mapping[str, int], node: str) -> str:
    """The PCI address in the properties of a node of KFD's topology.

    The address consists of `domain`, and of `location_id`, which is bus << 8 | device << 3 | function.
    """
    # Older drivers name no domain, having only one: 0.
    domain, location = values.get("domain", 0), _number(values, "location_id", node)
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _number(values: Mapping[str, int], name: str, node: str) -> int:
    if name not in values:
        raise BrokenFileError(f"/{node}/properties has no {name}")
    return values[name]
