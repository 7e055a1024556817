"""A slice on a machine without a cluster: its files in a folder, and the environment variables of its programs."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from hack.gpu_check.cards import RDNA, Card

MIB = 1 << 20
LIMIT_MIB = 1024  # of each slice
# Constants of the usage region (vgpu_runtime/include/vgpu_region.h).
MAGIC, VERSION, SLOTS, CARDS, USED_OFFSET = 0x3147455255504756, 2, 128, 16, 4096
REGION_BYTES = USED_OFFSET + 2 * CARDS * SLOTS * 8


@dataclass(frozen=True)
class Slice:
    """A slice of a quarter of a card's compute units: its files, and the environment of its programs.

    `root` is the folder that stands for the root of the slice's container; it is set if a vdev file limits the slice
    (vdev.py). Without it the library sets the masks of queues.
    """

    card: Card
    folder: Path
    library: Path
    mask: int
    root: Path | None = None

    @property
    def units(self) -> int:
        """The number of compute units of the slice."""
        return bin(self.mask).count("1")

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of its programs, as in a container; LD_PRELOAD also loads the library."""
        preload = ":".join(filter(None, [str(self.library), os.environ.get("LD_PRELOAD", "")]))
        units = {} if self.root else {"ROC_GLOBAL_CU_MASK": hex((1 << self.units) - 1)}
        return {**self.bare, "LD_PRELOAD": preload, "VGPU_TEST_FOLDER": str(self.folder), **units}

    @property
    def bare(self) -> dict[str, str]:
        """The environment variables of a program that the library does not limit."""
        return {**os.environ, **({"SIMKFD_ROOT": str(self.root)} if self.root else {})}

    def used_bytes(self) -> int:
        """Bytes that the library has charged to the slice's processes."""
        data = (self.folder / "usage").read_bytes()
        return sum(struct.unpack_from(f"<{SLOTS}Q", data, USED_OFFSET))


def config_text(card: Card, mask: int, masks: str) -> str:
    """The text of a slice's vgpu.conf; `masks` says whether the library or the maker's driver masks queues."""
    lines = {
        "gpu_id": card.gpu_id,
        "render_minor": card.render_minor,
        "compute_units": card.units,
        "xcc": card.xcc,
        "paired": int(card.gfx >= RDNA),
        "masks": masks,
        "mask": hex(mask),
    }
    return (
        "version = 6\npod = gpu-check\ncontainer = main\nenforcement = observe\n\n"
        f"[card]\nuuid = {card.pci}\npci = {card.pci}\nmodel = ?\nrequest = ?\n"
        f"mem_bytes = {LIMIT_MIB * MIB}\n[rocm]\n"
        + "".join(f"{key} = {value}\n" for key, value in lines.items())
    )


def make_slice(card: Card, library: Path, folder: Path, first_group: int, root: Path | None = None) -> Slice:
    """Make a slice of a quarter of the card's core groups, from `first_group` on; the card has at least two."""
    groups = quarter(card)
    mask = ((1 << groups * card.group_units) - 1) << first_group * card.group_units
    folder.mkdir()
    (folder / "vgpu.conf").write_text(config_text(card, mask, "vendor" if root else "library"))
    header = struct.pack("<QIIII", MAGIC, VERSION, SLOTS, CARDS, REGION_BYTES)
    (folder / "usage").write_bytes(header.ljust(REGION_BYTES, b"\0"))
    return Slice(card, folder, library, mask, root)


def quarter(card: Card) -> int:
    """The number of core groups of a slice."""
    return max(1, card.units // card.group_units // 4)
