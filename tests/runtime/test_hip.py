"""The real HIP and HSA runtimes on the simulated driver, held to a slice.

They are those of Debian 12; with `VGPU_HIP=7.2.4` and the like those of another release
(vgpu_runtime/sim/userlands.py). `hack/nightly userlands` runs all.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.runtime import slices
from tests.runtime.slices import CHOSEN_SHAPES as SHAPES
from tests.runtime.slices import LIMIT_MIB, SimSlice
from vgpu_runtime import region
from vgpu_runtime.rocm import UNITS_VARIABLE
from vgpu_runtime.sim.userlands import Root

OUT_OF_MEMORY = 2  # hipErrorOutOfMemory
HSA_OUT_OF_RESOURCES = 4104
HSA_INVALID_ALLOCATION = 4099
ONE = "hygon-60cu-16gib"
WAYS = ["hipMalloc", "hipMallocPitch", "hipMalloc3D", "hipExtMallocWithFlags", "hsa_amd_memory_pool_allocate"]

Machine = Callable[[str], SimSlice]


@pytest.fixture
def machine(native: Path, chosen_hip: Path | Root, tmp_path: Path) -> Machine:
    """A quarter of the units of a card."""
    return lambda shape: slices.make(
        tmp_path, native, chosen_hip, SHAPES[shape], slices.sizes(SHAPES[shape])[1]
    )


def calls(slice_: SimSlice, program: Path, mib: int, **extra: str) -> dict[str, int]:
    """What `hipcalls MIB` prints."""
    done = slice_.run(*slice_.on_hip(program), str(mib), **extra)
    assert done.returncode == 0, done.stderr
    return {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}


@pytest.mark.parametrize("shape", SHAPES)
def test_hip_sees_the_slice_and_hsa_the_slices_memory_on_the_whole_cards_units(
    machine: Machine, program: Path, shape: str
) -> None:
    slice_ = machine(shape)
    seen = calls(slice_, program, 1)
    assert (seen["total"], seen["hsa-pool"]) == (LIMIT_MIB, LIMIT_MIB)
    assert (seen["units"], seen["hsa-units"]) == (slice_.hip_units, slice_.card.compute_units)


def test_within_the_limit_every_way_of_allocating_works(machine: Machine, program: Path) -> None:
    seen = calls(machine(ONE), program, 1024)
    assert {way: seen[way] for way in WAYS} == dict.fromkeys(WAYS, 0)


def test_over_the_limit_every_way_of_allocating_is_refused(machine: Machine, program: Path) -> None:
    slice_ = machine(ONE)
    # Another process holds memory, so that a runtime that compares with the total only asks the driver.
    with slice_.holding(1500):
        seen = calls(slice_, program, LIMIT_MIB - 1500 + 52)
    assert {way: seen[way] for way in WAYS[:4]} == dict.fromkeys(WAYS[:4], OUT_OF_MEMORY)
    assert seen[WAYS[4]] in (HSA_OUT_OF_RESOURCES, HSA_INVALID_ALLOCATION)
    assert region.read(slice_.folder / "usage").denied[0] >= len(WAYS), "the runtime refused by itself"


@pytest.mark.parametrize("shape", SHAPES)
def test_memory_is_copied_to_the_card_and_back(machine: Machine, shape: str) -> None:
    """By engines, or by a kernel of HIP's own; more than one packet of an engine holds."""
    assert machine(shape).probe("copy", "63") == {"mib": 63, "intact": True, "error": "hipSuccess"}


def test_more_than_the_whole_slice_hip_refuses_by_itself(machine: Machine, program: Path) -> None:
    """No call says so: there is no line on stderr for it, nor a count, and the documentation says that."""
    slice_ = machine(ONE)
    done = slice_.run(*slice_.on_hip(program), str(LIMIT_MIB + 1))
    ways = WAYS[:3]
    assert [f"{way} {OUT_OF_MEMORY}" in done.stdout.splitlines() for way in ways] == [True] * 3
    assert region.read(slice_.folder / "usage").denied[0] <= len(WAYS) - len(ways), done.stderr


@pytest.mark.parametrize("skip", ["0", "1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_queues_carry_the_grant_whatever_the_program_sets(
    machine: Machine, program: Path, shape: str, skip: str
) -> None:
    slice_ = machine(shape)
    seen = calls(slice_, program, 1, HSA_CU_MASK_SKIP_INIT=skip)
    assert (seen["stream"], seen["memset"], seen["queue"], seen["queue-mask"]) == (0, 0, 0, 0)
    queues = slice_.queue_masks()
    assert all(masks[0] == slice_.grant for masks in queues.values())
    own = [mask for masks in queues.values() for mask in masks[1:]]
    assert slice_.grant in own, "the mask of all units, which the program gave its HSA queue"
    assert any(mask != slice_.grant for mask in own), "the mask of two units, which it gave its stream"
    assert all(mask and not mask & ~slice_.grant for mask in own)


# Counted in units of the grant: how HIP reads the variable that a program sets itself.
VALUES: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "short": lambda granted, _: (min(granted, 4), 1),
    "padded to the card": lambda granted, card: (granted, card // 4),
    "padded beyond the card": lambda granted, card: (granted, card // 4 + 32),
    "longer than the card": lambda _, card: (card + 32, card // 4 + 8),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("shape", SHAPES)
def test_a_program_that_sets_hips_mask_itself_neither_dies_nor_leaves_its_units(
    machine: Machine, shape: str, value: str
) -> None:
    slice_ = machine(shape)
    whole = slice_.card.compute_units
    ones, digits = VALUES[value](slice_.units, whole)
    extra = {UNITS_VARIABLE: f"{(1 << ones) - 1:#0{digits + 2}x}"}
    seen = slice_.probe("info", **extra)
    assert seen["units"] * (2 if slice_.card.paired else 1) == min(ones, whole)
    assert slice_.probe("queue", **extra)["error"] == "hipSuccess"
    masks = [mask for queue in slice_.queue_masks().values() for mask in queue]
    assert masks
    assert all(mask and not mask & ~slice_.grant for mask in masks)


def test_a_program_that_is_linked_with_hip_and_has_no_environment(machine: Machine, tmp_path: Path) -> None:
    """HIP's own constructors run before the library's."""
    slice_ = machine(ONE)
    source = tmp_path / "linked.c"
    source.write_text(
        "#include <stdio.h>\n#include <unistd.h>\nint hipDeviceGetAttribute(int *, int, int);\n"
        'int main(void) { int units = -1; hipDeviceGetAttribute(&units, 63, 0); printf("%d\\n", units);'
        " fflush(stdout); _exit(0); }\n"
    )
    libraries = slice_.root.libraries if slice_.root else slice_.environment["LD_LIBRARY_PATH"]
    library = slice_.environment["VGPU_PROBE_HIP"]
    command = ["cc", str(source), "-o", str(tmp_path / "linked"), f"-L{libraries}", f"-l:{library}"]
    subprocess.run([*command, "-Wl,--allow-shlib-undefined"], check=True)
    done = slice_.run("env", "-i", *(f"{name}={slice_.environment[name]}" for name in (
        "LD_LIBRARY_PATH", "LD_PRELOAD", "SIMKFD_DIR", "VGPU_TEST_FOLDER",
    )), *slice_.on_hip(tmp_path / "linked"))  # fmt: skip
    assert (done.stdout, done.stderr) == (f"{slice_.hip_units}\n", "")
