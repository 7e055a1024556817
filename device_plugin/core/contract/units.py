"""Memory units of a card: how many it has, and how many MiB a number of them grants.

A card of M MiB has U = round(M / unit) units and u units grant floor(u * M / U) MiB, so that four quarters
of a card always fit although real cards report a little less than a round number (16,368 MiB, not 16,384).
"""

DEFAULT_UNIT_MIB = 1024
MIB = 1 << 20
"""Bytes of a MiB."""


def unit_count(mem_mib: int, unit_mib: int = DEFAULT_UNIT_MIB) -> int:
    """Units of a card of `mem_mib` MiB; at least 1, halves rounded up."""
    if mem_mib <= 0 or unit_mib <= 0:
        raise ValueError(f"memory ({mem_mib} MiB) and unit ({unit_mib} MiB) must be positive")
    return max(1, (2 * mem_mib + unit_mib) // (2 * unit_mib))


def units_to_mib(units: int, mem_mib: int, unit_total: int) -> int:
    """MiB that `units` of the `unit_total` units of a card of `mem_mib` MiB grant."""
    return units * mem_mib // unit_total


def mib_to_units(mib: int, mem_mib: int, unit_total: int) -> int:
    """The most units, of the `unit_total` of a card of `mem_mib` MiB, that grant at most `mib` MiB."""
    return ((mib + 1) * unit_total - 1) // mem_mib


def proportional(part: int, whole: int, other_whole: int) -> int:
    """The share of `other_whole` that matches `part` of `whole`, rounded up."""
    return -(-part * other_whole // whole)
