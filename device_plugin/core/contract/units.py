"""Memory units of a card: the number that it has, and the MiB that a number of them grants.

A card of M MiB has U = round(M / unit) units, and u units grant floor(u * M / U) MiB. So four quarters of a card always
fit although real cards report a little less than a round number (16,368 MiB, not 16,384).
"""

DEFAULT_UNIT_MIB = 1024
MIB = 1 << 20
"""Bytes of a MiB."""


def unit_count(mem_mib: int, unit_mib: int = DEFAULT_UNIT_MIB) -> int:
    """The number of memory units of a card of `mem_mib` MiB; at least 1, halves rounded up."""
    if mem_mib <= 0 or unit_mib <= 0:
        raise ValueError(f"memory ({mem_mib} MiB) and unit ({unit_mib} MiB) must be positive")
    return max(1, (2 * mem_mib + unit_mib) // (2 * unit_mib))


def units_to_mib(units: int, mem_mib: int, unit_total: int) -> int:
    """The MiB that `units` memory units grant, on a card of `mem_mib` MiB with `unit_total` units."""
    return units * mem_mib // unit_total


def mib_to_units(mib: int, mem_mib: int, unit_total: int) -> int:
    """The most memory units that grant at most `mib` MiB, on a card of `mem_mib` MiB with `unit_total` units."""
    return ((mib + 1) * unit_total - 1) // mem_mib


def proportional(part: int, whole: int, other_whole: int) -> int:
    """The part of `other_whole` in the same proportion as `part` is of `whole`, rounded up."""
    return -(-part * other_whole // whole)
