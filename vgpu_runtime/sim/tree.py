"""The files of a simulated machine: those that its kernel would show in sysfs, and those of the simulated driver.

Layout and formats are those of Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c and amdgpu's sysfs files, so that
discovery under `<folder>` runs exactly the code that it runs under `/`.
"""

import filecmp
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from vgpu_runtime.paths import BUILD
from vgpu_runtime.sim import drm, records, vram
from vgpu_runtime.sim.cards import SimCard, number
from vgpu_runtime.sim.save_area import Kernel, save_area

KFD = Path("sys/devices/virtual/kfd/kfd")
TOPOLOGY = KFD / "topology"
KFD_NUMBER = "511:0\n"  # of the device node, as the driver's device.c has it
CONF_VERSION = 3
DRIVER = "libsimkfd.so"

HYGON = 0x1D94
_CHECKS = {Kernel.UNCHECKED: "none", Kernel.EQUAL: "equal", Kernel.EXPORTED: "at-least"}

_HEAP_SYSTEM, _HEAP_VRAM_PUBLIC = 0, 1
_LINK_PCIE = 2
_CACHE_OF_SIMD_DATA = 9
_CPU_CORES = 4
_SYSTEM_MEMORY = 64 << 30
_SIMD_ID_BASE = 1 << 31


def build(cards: Sequence[SimCard], folder: Path, kernel: Kernel = Kernel.EQUAL) -> None:
    """Write the machine under `folder`: sys/, dev/, state/ and driver.conf. `folder` must hold no other machine.

    A card without a PCI address or a unique id gets one, as `cards.number` gives it. Raises SpecError.
    """
    cards = number(cards)
    nodes = [card for card in cards if card.kfd]
    topology = folder / TOPOLOGY
    _write(folder / KFD / "dev", KFD_NUMBER)
    _write(topology / "generation_id", "2\n")
    _write(
        topology / "system_properties",
        _lines({"platform_oem": 0, "platform_id": 0, "platform_rev": 2}),
    )
    _cpu_node(topology / "nodes/0", gpu_nodes=len(nodes))
    kind = folder / "sys/class/kfd/kfd"
    kind.parent.mkdir(parents=True)
    kind.symlink_to("../../devices/virtual/kfd/kfd")
    for index, card in enumerate(cards):
        node = nodes.index(card) + 1 if card.kfd else 0
        drm.build(card, index, folder, vram.account(folder, node - 1) if node else None)
        if node:
            _gpu_node(topology / f"nodes/{node}", node, card, drm.minor(index), kernel)
    _write(folder / "dev/kfd", "")
    _write(
        folder / "sys/amdgpu.ids",
        "1.0.0\n" + "".join(f"{card.device:X},\t00,\t{card.name}\n" for card in nodes),
    )
    vram.create(folder, len(nodes))
    records.create(folder)
    if any(card.vendor == HYGON for card in nodes):
        _write(folder / "opt/hyhal/version", "simulated\n")
    minors = {card.pci: drm.minor(index) for index, card in enumerate(cards)}
    _write(folder / "driver.conf", _conf(nodes, minors, kernel))


def add_driver(folder: Path) -> None:
    """Copy the simulated driver into the machine's folder, from which containers get the driver.

    Raises OSError if the driver is not built.
    """
    target = folder / DRIVER
    if not target.exists() or not filecmp.cmp(BUILD / DRIVER, target, shallow=False):
        new = folder / f".{DRIVER}"
        shutil.copyfile(BUILD / DRIVER, new)
        new.chmod(0o755)
        new.replace(target)  # programs that have the old one loaded keep it


def _conf(nodes: Sequence[SimCard], minors: Mapping[str, int], kernel: Kernel) -> str:
    lines = [f"version {CONF_VERSION}", f"save_area_check {_CHECKS[kernel]}"]
    for node, card in enumerate(nodes, start=1):
        area = save_area(card)
        lines.append(
            f"card gpu_id={card.gpu_id} node={node} minor={minors[card.pci]} vendor={card.vendor} device={card.device}"
            f" pci={card.pci} units={card.compute_units} xcc={card.xcc} paired={int(card.paired)}"
            f" vram={card.memory_mib << 20}"
            f" stack={area.stack} area={area.size} debug={area.debug} xccs={area.xccs}"
        )
    return "\n".join(lines) + "\n"


def _cpu_node(node: Path, gpu_nodes: int) -> None:
    _write(node / "gpu_id", "0\n")
    _write(node / "name", "\n")
    _write(node / "properties", _lines(_properties(cpu_cores_count=_CPU_CORES, io_links_count=gpu_nodes)))
    _memory(node, _HEAP_SYSTEM, _SYSTEM_MEMORY, width=64, clock=2666)
    for gpu in range(1, gpu_nodes + 1):
        _link(node / f"io_links/{gpu - 1}", 0, gpu)


def _gpu_node(node: Path, index: int, card: SimCard, minor: int, kernel: Kernel) -> None:
    _write(node / "gpu_id", f"{card.gpu_id}\n")
    _write(node / "name", f"{card.name}\n")
    _write(
        node / "properties",
        _lines(_gpu_properties(card, minor, kernel)),
    )
    _memory(node, _HEAP_VRAM_PUBLIC, card.memory_mib << 20, width=2048, clock=945)
    _link(node / "io_links/0", index, 0)
    _cache(node / "caches/0", level=1, kib=16)
    _cache(node / "caches/1", level=2, kib=4096 * card.xcc)


def _gpu_properties(card: SimCard, minor: int, kernel: Kernel) -> dict[str, int]:
    area = save_area(card)
    exported = {"cwsr_size": area.size, "ctl_stack_size": area.stack} if kernel is Kernel.EXPORTED else {}
    counts = _properties(io_links_count=1, caches_count=2)
    return counts | _shape(card) | _identity(card, minor) | exported


def _properties(**known: int) -> dict[str, int]:
    """The properties of a topology node, in the kernel's order; a property that is not given has its default."""
    names = (
        "cpu_cores_count simd_count mem_banks_count caches_count io_links_count p2p_links_count cpu_core_id_base"
        " simd_id_base max_waves_per_simd lds_size_in_kb gds_size_in_kb num_gws wave_front_size array_count"
        " simd_arrays_per_engine cu_per_simd_array simd_per_cu max_slots_scratch_cu gfx_target_version vendor_id"
        " device_id location_id domain drm_render_minor hive_id num_sdma_engines num_sdma_xgmi_engines"
        " num_sdma_queues_per_engine num_cp_queues max_engine_clk_ccompute"
    )
    return dict.fromkeys(names.split(), 0) | {"mem_banks_count": 1, "max_engine_clk_ccompute": 3200} | known


def _shape(card: SimCard) -> dict[str, int]:
    """The topology properties of the card's size, clock and target version; the size counts all XCCs."""
    rdna = card.paired
    simd_per_cu = 2 if rdna else 4
    major, minor, step = card.gfx_version
    return {
        "simd_count": card.compute_units * simd_per_cu,
        "simd_id_base": _SIMD_ID_BASE,
        "max_waves_per_simd": 16 if rdna else 10,
        "lds_size_in_kb": card.lds_kib,
        "wave_front_size": 32 if rdna else 64,
        "array_count": card.arrays,
        "simd_arrays_per_engine": card.arrays_per_engine,
        "cu_per_simd_array": -(-card.compute_units // card.arrays),
        "simd_per_cu": simd_per_cu,
        "max_slots_scratch_cu": 32,
        "gfx_target_version": major * 10000 + minor * 100 + step,
        "max_engine_clk_fcompute": 1500,
        "num_xcc": card.xcc,
    }


def _identity(card: SimCard, minor: int) -> dict[str, int]:
    domain, bus, slot, function = (int(part, 16) for part in card.pci.replace(".", ":").split(":"))
    return {
        "vendor_id": card.vendor,
        "device_id": card.device,
        "location_id": bus << 8 | slot << 3 | function,
        "domain": domain,
        "drm_render_minor": minor,
        "hive_id": card.hive,
        "num_sdma_engines": 2,
        "num_sdma_queues_per_engine": 8,
        "num_cp_queues": 24,
        "local_mem_size": 0,  # the memory bank has it
        "fw_version": 440,
        "capability": 0x2280,
        "debug_prop": 0,
        "sdma_fw_version": 145,
        "unique_id": card.unique_id,
    }


def _memory(node: Path, heap: int, size: int, width: int, clock: int) -> None:
    bank = {"heap_type": heap, "size_in_bytes": size, "flags": 0, "width": width, "mem_clk_max": clock}
    _write(node / "mem_banks/0/properties", _lines(bank))


def _link(folder: Path, node_from: int, node_to: int) -> None:
    link = {
        "type": _LINK_PCIE, "version_major": 0, "version_minor": 0, "node_from": node_from, "node_to": node_to,
        "weight": 20, "min_latency": 0, "max_latency": 0, "min_bandwidth": 0, "max_bandwidth": 0,
        "recommended_transfer_size": 0, "recommended_sdma_engine_id_mask": 0, "flags": 0,
    }  # fmt: skip
    _write(folder / "properties", _lines(link))


def _cache(folder: Path, level: int, kib: int) -> None:
    """Write the topology's files of one memory cache of this level (L1, L2).

    Real cards have a cache per compute unit, which no program here needs.
    """
    cache = {
        "processor_id_low": _SIMD_ID_BASE, "level": level, "size": kib, "cache_line_size": 64,
        "cache_lines_per_tag": 1, "association": 16, "latency": 0, "type": _CACHE_OF_SIMD_DATA,
    }  # fmt: skip
    _write(folder / "properties", _lines(cache) + "sibling_map 1\n")


def _lines(values: Mapping[str, int]) -> str:
    return "".join(f"{name} {value}\n" for name, value in values.items())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="ascii")
