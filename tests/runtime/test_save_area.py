"""Queues that every Linux accepts. `hack/queues` runs every size of a slice on every kernel.

HIP is that of Debian 12; with `VGPU_HIP=7.2.4` and the like that of another release (vgpu_runtime/sim/userlands.py).
"""

import re
from pathlib import Path

import pytest

from tests.runtime import slices
from tests.runtime.slices import CHOSEN_SHAPES as SHAPES
from tests.runtime.slices import SimSlice
from vgpu_runtime.rocm import UNITS_VARIABLE
from vgpu_runtime.sim import PRESETS, Kernel, hip, number
from vgpu_runtime.sim.save_area import SaveArea, save_area, sizes
from vgpu_runtime.sim.tree import TOPOLOGY
from vgpu_runtime.sim.userlands import Root

KERNELS = list(Kernel)
# On every shape each of the five sizes, and each of the three kernels.
TRIALS = [
    (shape, size, KERNELS[(row + column) % 3])
    for row, shape in enumerate(SHAPES)
    for column, size in enumerate(slices.sizes(SHAPES[shape]))
]


def without_library(slice_: SimSlice) -> dict[str, str]:
    return {"LD_PRELOAD": str(slice_.build / "libsimkfd.so")}


def asked(slice_: SimSlice) -> set[tuple[int, ...]]:
    """(stack, size, mapping) of each compute queue that was asked for."""
    return {
        tuple(int(call[name]) for name in ("stack", "area", "mapped")) for call in slice_.calls("save-area")
    }


@pytest.mark.parametrize("program", ["vgpu-probe", "vgpu-kfd-probe"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_kernels_formulae_are_what_a_runtime_asks_for_the_whole_card(
    native: Path, chosen_hip: Path | Root, tmp_path: Path, shape: str, program: str
) -> None:
    """The real libhsakmt, which asks for the debugger's part too, and our own."""
    slice_ = slices.make(tmp_path, native, chosen_hip, SHAPES[shape], 1, Kernel.UNCHECKED)
    assert slice_.probe("queue", program=program, **without_library(slice_))["error"] == "hipSuccess"
    expected = save_area(slice_.card)
    assert asked(slice_) == {(expected.stack, expected.size, expected.mapping)}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("preset", "units", "area"),
    [
        ("amd-gfx942-304cu-192gib", 72, (0x3000, 0x1621000, (0x1621000 + 0xBE00) * 8)),
        ("amd-gfx950-256cu-288gib", 72, (0x3000, 0x15A3000, (0x15A3000 + 0xA000) * 8)),
        ("amd-gfx1100-96cu-48gib", 18, (0xA000, 0x2BEA000, 0x2BEA000 + 0x18000)),
        ("amd-gfx1201-64cu-16gib", 18, (0x7000, 0x1D47000, 0x1D47000 + 0x10000)),
    ],
)
def test_cards_that_debian_12s_hip_does_not_know(
    native: Path, tmp_path: Path, preset: str, units: int, area: tuple[int, ...], kernel: Kernel
) -> None:
    """Our own runtime's half; `hack/nightly userlands` has the other."""
    (card,) = number([PRESETS[preset]])
    slice_ = slices.make(tmp_path, native, None, card, 9, kernel)
    assert slice_.outcome("vgpu-kfd-probe") == slices.Outcome("hipSuccess", units, 1, 0)
    assert asked(slice_) == {area}


@pytest.mark.parametrize(
    ("gfx", "units", "engines", "xccs", "lds_kib", "expected"),
    [
        ((9, 0, 6), 60, 4, 1, 64, SaveArea(0x5000, 0x13F1000, 0x10000, 1)),
        ((9, 0, 10), 104, 8, 1, 64, SaveArea(0x9000, 0x3C91000, 0x20000, 1)),
        ((9, 4, 2), 304, 32, 8, 64, SaveArea(0x3000, 0x1621000, 0xBE00, 8)),
        ((9, 5, 0), 256, 32, 8, 160, SaveArea(0x3000, 0x15A3000, 0xA000, 8)),
        ((10, 3, 0), 80, 4, 1, 64, SaveArea(0x7000, 0x1A97000, 0x14000, 1)),
        ((11, 0, 0), 96, 6, 1, 64, SaveArea(0xA000, 0x2BEA000, 0x18000, 1)),
        ((12, 0, 1), 64, 4, 1, 64, SaveArea(0x7000, 0x1D47000, 0x10000, 1)),
    ],
)
def test_the_formulae(
    gfx: tuple[int, int, int], units: int, engines: int, xccs: int, lds_kib: int, expected: SaveArea
) -> None:
    assert sizes(gfx, units, engines, xccs, lds_kib) == expected


@pytest.mark.parametrize("shape", SHAPES)
def test_a_runtime_that_is_told_fewer_units_asks_too_little_for_a_slice_of_any_size(shape: str) -> None:
    card = SHAPES[shape]
    whole = save_area(card)
    step = slices.group_units(card)
    for units in range(step, card.compute_units, step):
        asked_for = sizes(card.gfx_version, units, card.engines, card.save_area_xccs, card.lds_kib)
        assert asked_for.size < whole.size, f"{units} units"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_slice_of_any_size_has_queues(native: Path, tmp_path: Path, shape: str) -> None:
    slice_ = slices.make(tmp_path, native, None, SHAPES[shape], 1)
    for groups in range(1, slices.all_groups(SHAPES[shape]) + 1):
        slice_ = slice_.resized(groups)
        assert slice_.outcome("vgpu-kfd-probe") == slices.Outcome("hipSuccess", slice_.units, 1, 0), groups


@pytest.mark.parametrize(("shape", "groups", "kernel"), TRIALS)
def test_hip_creates_queues_sees_its_units_and_stays_on_them(
    native: Path, chosen_hip: Path | Root, tmp_path: Path, shape: str, groups: int, kernel: Kernel
) -> None:
    slice_ = slices.make(tmp_path, native, chosen_hip, SHAPES[shape], groups, kernel)
    outcome = slice_.outcome()
    assert outcome == slices.Outcome("hipSuccess", slice_.hip_units, outcome.queues, 0)
    assert outcome.queues > 0


# Newer HIP aborts by itself, before it asks for a queue, where the topology has fewer units than its other figures say.
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    "program", ["vgpu-kfd-probe", *(["vgpu-probe"] if slices.CHOSEN == hip.VERSION else [])]
)
@pytest.mark.parametrize("shape", SHAPES)
def test_with_fewer_units_in_the_topology_only_an_old_kernel_gives_a_queue(
    native: Path, chosen_hip: Path | Root, tmp_path: Path, shape: str, program: str, kernel: Kernel
) -> None:
    """As the library once served it: so the checks of the other tests bite. (With the variable, HIP aborts besides.)"""
    card = SHAPES[shape]
    slice_ = slices.make(tmp_path, native, chosen_hip, card, slices.sizes(card)[1], kernel)
    node = tmp_path / "sim" / TOPOLOGY / "nodes/1/properties"
    simds = slice_.units * (2 if card.paired else 4)
    node.write_text(re.sub(r"(?m)^simd_count .*", f"simd_count {simds}", node.read_text()))
    outcome = slice_.outcome(program, **{UNITS_VARIABLE: ""})
    assert (outcome.queues > 0) == (kernel is Kernel.UNCHECKED), outcome
