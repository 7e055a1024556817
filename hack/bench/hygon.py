"""A simulated card like Hygon's Z100, for benchmarks."""

from device_plugin.core.contract.cards import Card

MIB, UNITS, GROUPS, SLICES = 16368, 16, 60, 4


def card(uuid: str, family: str, slot: int = 0) -> Card:
    """A card of 16 memory units and 60 core groups in a slot of its host; four slots belong to one NUMA node."""
    return Card(
        uuid, family, "Z100", f"0000:{slot + 1:02x}:00.0", mem_mib=MIB, units=UNITS, compute_units=GROUPS,
        core_groups=GROUPS, group_units=1, max_slices=SLICES, numa=slot // 4, healthy=True,
    )  # fmt: skip
