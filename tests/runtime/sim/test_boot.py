"""The real HIP runtime on every shape of card."""

from collections.abc import Callable

import pytest

from tests.runtime.sim.conftest import Machine

WAYS = ["malloc", "pitch", "3d", "ext", "managed", "pool", "hsa"]


@pytest.mark.parametrize(
    ("card", "mib", "units"),
    [
        ("preset: hygon-60cu-16gib", 16368, 60),
        ("preset: hygon-120cu-64gib", 65520, 120),
        ("preset: amd-304cu-192gib", 196592, 304),
        ("preset: amd-rdna-80cu-16gib", 16368, 40),  # HIP counts workgroup processors: pairs of units
        ("preset: amd-60cu-16gib, computeUnits: 64, memoryMiB: 8192", 8192, 64),
        ("preset: amd-60cu-16gib, computeUnits: 80", 16368, 80),
        ("preset: amd-60cu-16gib, computeUnits: 104", 16368, 104),
        ("preset: amd-60cu-16gib, computeUnits: 128", 16368, 128),
    ],
)
def test_totals_and_units(machine: Callable[[str], Machine], card: str, mib: int, units: int) -> None:
    shown = machine(f"[{{{card}, name: Card}}]").hip("info")
    assert shown == {"devices": 1, "total_mib": mib, "free_mib": mib, "units": units, "name": "Card"}


def test_a_machine_of_many_kinds(machine: Callable[[str], Machine]) -> None:
    mixed = machine(
        "[{preset: nvidia}, {preset: hygon-60cu-16gib}, {preset: amd-rdna-80cu-16gib}, {preset: hygon-120cu-64gib}]"
    )
    shown = [mixed.hip("--device", device, "info") for device in range(3)]
    assert [card["total_mib"] for card in shown] == [16368, 16368, 65520]
    assert {card["devices"] for card in shown} == {3}


def test_sixteen_cards(machine: Callable[[str], Machine]) -> None:
    many = machine("[{preset: hygon-60cu-16gib, count: 16}]")
    assert many.hip("--device", 15, "info")["devices"] == 16


@pytest.mark.parametrize("way", WAYS)
def test_an_allocation_beyond_the_card_is_out_of_memory(machine: Callable[[str], Machine], way: str) -> None:
    one = machine("[{preset: hygon-60cu-16gib}]")
    assert one.hip("alloc", 16000, way)["error"] == "hipSuccess"
    assert one.hip("alloc", 16369, way)["error"] == "hipErrorOutOfMemory"


def test_kernels_run_and_streams_carry_their_mask(machine: Callable[[str], Machine]) -> None:
    one = machine("[{preset: hygon-60cu-16gib}]")
    assert one.hip("run", 10, "--mask", "f0")["error"] == "hipSuccess"
    assert {call["mask"] for call in one.logged("queue-mask")} == {"0x000000f0"}


def test_copies_arrive(machine: Callable[[str], Machine]) -> None:
    one = machine("[{preset: hygon-60cu-16gib}]")
    assert one.hip("copy", 9) == {"mib": 9, "intact": True, "error": "hipSuccess"}


def test_without_hip_the_driver_is_asked(kfd_machine: Callable[[str], Machine]) -> None:
    one = kfd_machine("[{preset: hygon-60cu-16gib}]")
    shown = one.hip("info")
    assert shown == {"devices": 1, "total_mib": 16368, "free_mib": 16368, "units": 60, "name": "Z100"}
