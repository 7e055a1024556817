"""The real HIP and HSA runtimes on a slice of which Hygon's own driver makes a virtual device."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime import slices
from tests.runtime.slices import LIMIT_MIB, SimSlice
from vgpu_runtime import region
from vgpu_runtime.sim.cards import PRESETS

SHAPES = ("hygon-60cu-16gib", "hygon-80cu-64gib", "hygon-120cu-64gib")
ONE = SHAPES[0]

Machine = Callable[[str], SimSlice]


@pytest.fixture
def machine(native: Path, hip_libraries: Path, tmp_path: Path) -> Machine:
    """A quarter of the units of a card, not its first ones."""
    return lambda shape: slices.make(
        tmp_path, native, hip_libraries, PRESETS[shape], PRESETS[shape].compute_units // 4, vendor=True
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_programs_run_and_set_masks_of_their_own(machine: Machine, program: Path, shape: str) -> None:
    """With masks of the card's bits the driver would refuse the mask of each queue, and the program would die."""
    slice_ = machine(shape)
    assert slice_.grant & 1 == 0
    done = slice_.run(program, "1")
    assert done.returncode == 0, done.stderr
    seen = dict(map(str.split, done.stdout.splitlines()))
    assert (seen["total"], seen["units"], seen["hsa-units"]) == (
        str(LIMIT_MIB), str(slice_.units), str(slice_.units)
    )  # fmt: skip
    assert {seen[what] for what in ("stream", "memset", "queue")} == {"0"}
    masks = [mask for queue in slice_.queue_masks().values() for mask in queue]
    assert masks
    assert all(mask and not mask >> slice_.units for mask in masks), "masks count the units of the slice"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("part", range(5))
def test_each_size_of_a_slice_shows_its_units(machine: Machine, shape: str, part: int) -> None:
    slice_ = machine(shape).resized(slices.sizes(PRESETS[shape])[part])
    assert slice_.probe("info")["units"] == slice_.units
    assert slice_.probe("queue")["error"] == "hipSuccess"


def test_the_library_counts_the_memory_of_all_processes(machine: Machine) -> None:
    slice_ = machine(ONE)
    with slice_.holding(1500):
        assert slice_.probe("alloc", "600")["error"] == "hipErrorOutOfMemory"
        assert region.read(slice_.folder / "usage").denied[0] > 0, "the library refused, not the driver"
        assert slice_.probe("alloc", "500")["error"] == "hipSuccess"


def test_a_program_without_the_makers_folder_finds_no_device(machine: Machine) -> None:
    slice_ = machine(ONE)
    (slice_.folder / "root/opt/hyhal").rmdir()
    assert slice_.probe("info")["devices"] == 0
