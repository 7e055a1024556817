"""Cards of the ROCm family, as the KFD topology and DRM describe them in sysfs.

Layout: Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c, and Documentation/gpu/amdgpu/driver-misc.rst.
A card is healthy while its topology node has a gpu_id, its PCI device can be read, and, where the driver counts
memory errors, none was uncorrectable.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from device_plugin.core.machine import DeviceNode, FoundCard, Mount, Scan

TOPOLOGY = Path("sys/devices/virtual/kfd/kfd/topology/nodes")
PCI_DEVICES = Path("sys/bus/pci/devices")
FRAMEBUFFER_HEAPS = (1, 2)  # public and private VRAM
FIRST_RDNA = 10
SHARED = ("kfd", "mkfd")
MIB = 1 << 20
LONGEST_NAME = 63
_NUMBER = re.compile(r"[0-9]{1,20}")  # the kernel's are at most 64 bits wide


class BrokenFileError(Exception):
    """A topology file does not say what it must."""


class KfdCards:
    """The cards below `root`, which holds the machine's sys/ and dev/."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def scan(self) -> Scan:
        """All cards. One that cannot be read is a problem in words; the others are not affected."""
        cards, problems = [], []
        for node in sorted((self._root / TOPOLOGY).glob("*"), key=lambda path: path.name.zfill(4)):
            try:
                card = self._card(node)
            except BrokenFileError as error:
                problems.append(f"{error}; this card is not shared. Reload its driver, or exclude the card")
                continue
            if card is not None:
                cards.append(card)
        return Scan(tuple(cards), tuple(problems))

    def used_bytes(self, card: FoundCard) -> int | None:
        """`mem_info_vram_used` of the card."""
        try:
            return int(_text(self._pci(card.pci) / "mem_info_vram_used"))
        except (BrokenFileError, ValueError):
            return None

    def busy_ratio(self, card: FoundCard) -> float | None:
        """`gpu_busy_percent` of the card, which amdgpu averages over a moment; None from other drivers."""
        try:
            return min(int(_text(self._pci(card.pci) / "gpu_busy_percent")), 100) / 100
        except (BrokenFileError, ValueError):
            return None

    def devices(self, cards: Sequence[FoundCard]) -> Sequence[DeviceNode]:
        """What all cards share (/dev/mkfd is Hygon's own), and the render node of each card.

        The runtime looks for them on the host; we see the host's sysfs, not its /dev.
        """
        shared = [f"dev/{name}" for name in SHARED if any((self._root / "sys/class").glob(f"*/{name}"))]
        names = [*shared, *(f"dev/dri/renderD{card.render_minor}" for card in cards)]
        return [DeviceNode(f"/{name}", f"/{name}") for name in names]

    def extras(self) -> Sequence[Mount]:
        """None: the kernel is the same inside."""
        return ()

    def preloads(self) -> Sequence[str]:
        """None."""
        return ()

    def _card(self, node: Path) -> FoundCard | None:
        values = _properties(node / "properties")
        if not _number(values, "simd_count", node):
            return None  # a CPU
        per_unit = _number(values, "simd_per_cu", node) or 1
        # Older drivers name no domain, having only one: 0.
        pci = _pci_address(values.get("domain", 0), _number(values, "location_id", node))
        unique = values.get("unique_id", 0)
        gpu_id = _integer(node / "gpu_id")
        return FoundCard(
            uuid=f"GPU-{unique:016x}" if unique else f"GPU-{pci}",
            vendor=_number(values, "vendor_id", node),
            model=_name(node / "name") or f"{_number(values, 'device_id', node):04x}",
            pci=pci,
            mem_mib=self._memory(node),
            compute_units=_number(values, "simd_count", node) // per_unit,
            xcc=values.get("num_xcc", 1) or 1,
            paired=_number(values, "gfx_target_version", node) // 10000 >= FIRST_RDNA,
            numa=self._numa(pci),
            gpu_id=gpu_id,
            render_minor=_number(values, "drm_render_minor", node),
            healthy=gpu_id != 0 and self._without_errors(pci),
        )

    def _memory(self, node: Path) -> int:
        banks = [_properties(bank) for bank in sorted(node.glob("mem_banks/*/properties"))]
        size = sum(b.get("size_in_bytes", 0) for b in banks if b.get("heap_type") in FRAMEBUFFER_HEAPS)
        if size < MIB:
            raise BrokenFileError(f"{node / 'mem_banks'} names no card memory")
        return size // MIB

    def _pci(self, pci: str) -> Path:
        return self._root / PCI_DEVICES / pci

    def _numa(self, pci: str) -> int:
        try:
            return int(_text(self._pci(pci) / "numa_node"))
        except (BrokenFileError, ValueError):
            return -1

    def _without_errors(self, pci: str) -> bool:
        device = self._pci(pci)
        if not (device / "vendor").is_file():
            return False
        try:
            counts = dict(line.split(": ", 1) for line in _text(device / "ras/umc_err_count").splitlines())
        except (BrokenFileError, ValueError):
            return True
        return counts.get("ue", "0").strip() == "0"


def _pci_address(domain: int, location: int) -> str:
    """KFD's location_id is bus << 8 | device << 3 | function."""
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenFileError(f"{path} cannot be read: {error}") from error


def _integer(path: Path) -> int:
    text = _text(path).strip()
    if not _NUMBER.fullmatch(text):
        raise BrokenFileError(f"{path} says {text[:40]!r} where a number must be")
    return int(text)


def _name(path: Path) -> str:
    text = _text(path).strip()
    if not text.isprintable() or len(text) > LONGEST_NAME:
        raise BrokenFileError(f"{path} says {text[:40]!r} where a name must be")
    return text


def _properties(path: Path) -> Mapping[str, int]:
    values = {}
    for line in _text(path).splitlines():
        name, _, number = line.partition(" ")
        if not _NUMBER.fullmatch(number.strip()):
            raise BrokenFileError(f"{path} has the line {line[:60]!r} where `name number` must be")
        values[name] = int(number)
    return values


def _number(values: Mapping[str, int], name: str, node: Path) -> int:
    if name not in values:
        raise BrokenFileError(f"{node / 'properties'} has no {name}")
    return values[name]
