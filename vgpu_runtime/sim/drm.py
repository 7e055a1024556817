"""The sysfs files of a simulated card's PCI and DRM devices, and the card's health.

A card is `sys/devices/pci0000:00/<pci>/` with its files, which `sys/bus/pci/devices/<pci>`,
`sys/class/drm/cardN/device` and `sys/class/drm/renderDM/device` point at, all with relative links.

Health is what a real kernel shows: a card is healthy while the gpu_id of its KFD topology node is not 0, the folder of
its DRM device can be read, and, where the driver keeps error counts, `ras/umc_err_count` says `ue: 0` (uncorrectable).
"""

import os
from pathlib import Path

from vgpu_runtime.sim.cards import FIRST_RENDER_MINOR, SimCard

RAS_COUNT = Path("ras/umc_err_count")


def minor(index: int) -> int:
    """The number of the `index`-th card's render node."""
    return FIRST_RENDER_MINOR + index


def build(card: SimCard, index: int, folder: Path, account: Path | None) -> None:
    """Write the DRM and PCI files of the `index`-th card.

    `account` is the file with the card's used memory; None if it has none.
    """
    device = folder / "sys/devices/pci0000:00" / card.pci
    for name in (f"card{index}", f"renderD{minor(index)}"):
        node = device / "drm" / name
        node.mkdir(parents=True)
        (node / "device").symlink_to("../..")
        _link(folder / "sys/class/drm" / name, node)
    _link(folder / "sys/bus/pci/devices" / card.pci, device)
    driver = "amdgpu" if card.kfd else "nvidia"
    texts = {
        "vendor": f"0x{card.vendor:04x}\n",
        "device": f"0x{card.device:04x}\n",
        "class": "0x038000\n",
        "numa_node": f"{card.numa}\n",
        "uevent": f"DRIVER={driver}\nPCI_CLASS=38000\nPCI_ID={card.vendor:04X}:{card.device:04X}\n"
        f"PCI_SLOT_NAME={card.pci}\n",
    }
    if card.kfd:
        texts |= {
            "mem_info_vram_total": f"{card.memory_mib << 20}\n",
            "unique_id": f"{card.unique_id:016x}\n",
            str(RAS_COUNT): "ue: 0\nce: 0\n",
        }
    if account:
        _link(device / "mem_info_vram_used", account)
    for name, text in texts.items():
        path = device / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="ascii")
    render = folder / f"dev/dri/renderD{minor(index)}"
    render.parent.mkdir(parents=True, exist_ok=True)
    render.touch()


def set_health(folder: Path, uuid: str, ok: bool) -> None:
    """Make the card with this unique id (its 16 hex digits, with or without a prefix such as `GPU-`) sick or well.

    A sick card has had one uncorrectable memory error. Raises LookupError where no card has the id.
    """
    _replace(_device(folder, uuid) / RAS_COUNT, f"ue: {int(not ok)}\nce: 0\n")


def set_busy(folder: Path, uuid: str, percent: int | None) -> None:
    """Set the busy share that the driver reports for the card with this unique id; None for no report.

    Raises LookupError where no card has the id.
    """
    path = _device(folder, uuid) / "gpu_busy_percent"
    if percent is None:
        path.unlink(missing_ok=True)
    else:
        _replace(path, f"{percent}\n")


def _device(folder: Path, uuid: str) -> Path:
    for path in sorted((folder / "sys/devices/pci0000:00").glob("*/unique_id")):
        if path.read_text(encoding="ascii").strip() == uuid.rpartition("-")[2].lower():
            return path.parent
    raise LookupError(f"no simulated card has the unique id {uuid}")


def _replace(path: Path, text: str) -> None:
    """Write a file of the simulated sysfs in one step, so that no reader sees half of it."""
    new = path.with_name(f".{path.name}")
    new.write_text(text, encoding="ascii")
    new.replace(path)


def _link(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))
