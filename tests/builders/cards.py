"""Cards as agents publish them, and the simulated cards of a machine."""

from dataclasses import replace
from typing import Any

from device_plugin.core.contract.cards import Card, Inventory

FAMILY = "hygon.com/dcu"
MEM, CORES, PERCENT, SLICES = (f"{FAMILY}-{each}" for each in ("mem", "cores", "percent", "slices"))
# Two cards like those of `inventory`, for a simulated machine.
CARDS = "version: v1\ncards: [{preset: hygon-60cu-16gib, count: 2}]"


def card(
    uuid: str, *, mem_mib: int = 16368, groups: int = 60, slices: int = 4, healthy: bool = True,
    pci: str = "0000:19:00.0",
) -> Card:  # fmt: skip
    """A card with a core group for each compute unit, in memory units of 1 GiB."""
    units = round(mem_mib / 1024)
    return Card(uuid, FAMILY, "Z100", pci, mem_mib, units, groups, groups, 1, slices, 0, healthy)


def inventory(node: str, count: int = 2, **shape: Any) -> Inventory:
    """Cards NODE-0, NODE-1, ... of one `shape`, with which `card` is called."""
    return Inventory(
        tuple(card(f"{node}-{i}", pci=f"0000:{0x19 + i:02x}:00.0", **shape) for i in range(count))
    )


def preparing(node: str) -> Inventory:
    """The cards of `inventory`, on a node whose agent prepares ResourceClaims."""
    return replace(inventory(node), claims=True)
