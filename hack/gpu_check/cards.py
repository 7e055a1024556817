"""Reads the cards of this machine from the driver's KFD topology."""

from __future__ import annotations

import os
from dataclasses import dataclass

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
RDNA = 100000  # the first gfx_target_version whose units come in pairs


@dataclass(frozen=True)
class Card:
    """A card, with its values in the KFD topology."""

    gpu_id: int
    pci: str
    ids: str
    name: str
    gfx: int
    units: int
    xcc: int
    render_minor: int

    @property
    def group_units(self) -> int:
        """The number of compute units in a core group: one on each XCC, or pairs on RDNA."""
        return self.xcc * (2 if self.gfx >= RDNA else 1)


def read(path: str) -> str:
    """The text of a file, stripped; empty if it cannot be read."""
    try:
        with open(path) as file:  # noqa: PTH123 - the call that a simulated driver answers
            return file.read().strip()
    except OSError:
        return ""


def cards() -> list[Card]:
    """The cards of the KFD topology, in its order."""
    try:
        nodes = sorted(os.listdir(NODES), key=int)  # noqa: PTH208 - a simulated driver answers this call
    except OSError:
        return []
    found = []
    for node in nodes:
        gpu_id = read(f"{NODES}/{node}/gpu_id")
        pairs = (line.split() for line in read(f"{NODES}/{node}/properties").splitlines())
        values = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
        if gpu_id in ("", "0") or not values.get("simd_count") or not values.get("simd_per_cu"):
            continue
        location, domain = values.get("location_id", 0), values.get("domain", 0)
        found.append(
            Card(
                gpu_id=int(gpu_id),
                pci=f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.{location & 7}",
                ids=f"{values.get('vendor_id', 0):04x}:{values.get('device_id', 0):04x}",
                name=read(f"{NODES}/{node}/name") or "no name",
                gfx=values.get("gfx_target_version", 0),
                units=values["simd_count"] // values["simd_per_cu"],
                xcc=values.get("num_xcc", 0) or 1,
                render_minor=values.get("drm_render_minor", 0),
            )
        )
    return found
