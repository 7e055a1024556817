"""Core groups as masks of compute units, under the rules of the hardware.

Bit i of a mask stands for compute unit i, and core group g of n units covers bits g·n to g·n + n - 1.

The rules (amdgpu's kfd_mqd_manager, and AMD's guide to setting the number of CUs):

- RDNA masks whole workgroup processors: units 2i and 2i + 1 go together.
- On a card of N XCCs (dies) bit i goes to XCC i mod N, and an XCC with no bit runs unmasked.

A group of N units (2N on RDNA) is the smallest with which every combination of groups keeps both rules.
"""

from collections.abc import Iterable


def group_units(*, xcc: int, paired: bool) -> int:
    """The number of compute units in a core group, on a card of `xcc` XCCs; `paired` is true on RDNA."""
    if xcc < 1:
        raise ValueError(f"a card has at least one XCC, not {xcc}")
    return xcc * (2 if paired else 1)


def core_mask(cores: Iterable[int]) -> int:
    """The core-group ids as an integer with bit g set for group g."""
    mask = 0
    for core in cores:
        mask |= 1 << core
    return mask


def core_ids(mask: int) -> tuple[int, ...]:
    """The core-group ids whose bits are set in `mask`, ascending."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)


def unit_mask(cores: Iterable[int], units_per_group: int) -> int:
    """The compute units of the core groups `cores` as an integer with bit i set for unit i."""
    group = (1 << units_per_group) - 1
    mask = 0
    for core in cores:
        mask |= group << (core * units_per_group)
    return mask
