"""The real HIP and HSA runtimes on the simulated driver, held to a slice."""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.runtime.conftest import HERE, MIB
from vgpu_runtime import config, region
from vgpu_runtime.config import CardLimit, SliceConfig
from vgpu_runtime.sim import cards, tree

OUT_OF_MEMORY = 2  # hipErrorOutOfMemory
HSA_OUT_OF_RESOURCES = 4104
HSA_INVALID_ALLOCATION = 4099
LIMIT_MIB = 2048
SHAPES = ["hygon-60cu-16gib", "hygon-120cu-64gib", "amd-304cu-192gib", "amd-rdna-80cu-16gib"]
WAYS = ["hipMalloc", "hipMallocPitch", "hipMalloc3D", "hipExtMallocWithFlags", "hsa_amd_memory_pool_allocate"]


@dataclass
class Machine:
    """One simulated card, and a slice of a quarter of its units that does not begin at unit 0."""

    folder: Path
    card: cards.SimCard
    grant: int
    environment: dict[str, str]
    program: Path

    def run(self, mib: int) -> dict[str, int]:
        """What `hipcalls MIB` prints."""
        command = [self.program, str(mib)]
        done = subprocess.run(
            command, env=self.environment, text=True, capture_output=True, timeout=120, check=True
        )
        return {name: int(value) for name, value in map(str.split, done.stdout.splitlines())}

    def queue_masks(self) -> dict[int, list[int]]:
        """Per queue, in order, the masks that reached the driver; the first entry is None until one did."""
        masks: dict[int, list[int]] = {}
        for line in (self.folder / "driver.log").read_text().splitlines():
            words = dict(word.split("=") for word in line.split() if "=" in word)
            if " queue-create " in line:
                masks[int(words["queue"])] = []
            elif " queue-mask " in line:
                masks[int(words["queue"])].append(int(words["mask"], 16))
        return masks


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("hip") / "hipcalls"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, HERE / "hipcalls.c", "-o", target, "-ldl"], check=True)
    return target


@pytest.fixture
def machine(native: Path, hip_libraries: Path, program: Path, tmp_path: Path) -> Callable[[str], Machine]:
    def build(shape: str) -> Machine:
        (card,) = cards.number([cards.PRESETS[shape]])
        tree.build([card], tmp_path / "sim")
        group = card.xcc * (2 if card.paired else 1)
        units = card.compute_units // 4 // group * group
        grant = ((1 << units) - 1) << group
        limit = CardLimit(
            "D", card.gpu_id, card.pci, 128, LIMIT_MIB * MIB, card.compute_units, card.xcc, card.paired, grant
        )
        (tmp_path / "vgpu.conf").write_text(config.render(SliceConfig("pod", "main", (limit,))))
        region.create(tmp_path / "usage")
        environment = os.environ | {
            "LD_LIBRARY_PATH": str(hip_libraries),
            "LD_PRELOAD": f"{native / 'libvgpu-test.so'}:{native / 'libsimkfd.so'}",
            "SIMKFD_DIR": str(tmp_path / "sim"),
            "SIMKFD_LOG": str(tmp_path / "driver.log"),
            "VGPU_TEST_FOLDER": str(tmp_path),
        }
        return Machine(tmp_path, card, grant, environment, program)

    return build


@pytest.mark.parametrize("shape", SHAPES)
def test_totals_and_units_are_the_slices(machine: Callable[[str], Machine], shape: str) -> None:
    slice_ = machine(shape)
    units = slice_.grant.bit_count()
    seen = slice_.run(1)
    assert (seen["total"], seen["hsa-pool"], seen["hsa-units"]) == (LIMIT_MIB, LIMIT_MIB, units)
    # HIP counts RDNA's pairs (workgroup processors) as multiprocessors.
    assert seen["units"] == (units // 2 if slice_.card.paired else units)


def test_within_the_limit_every_way_of_allocating_works(machine: Callable[[str], Machine]) -> None:
    seen = machine(SHAPES[0]).run(1024)
    assert {way: seen[way] for way in WAYS} == dict.fromkeys(WAYS, 0)


def test_over_the_limit_every_way_of_allocating_is_refused(machine: Callable[[str], Machine]) -> None:
    slice_ = machine(SHAPES[0])
    # Below the total that the runtime knows, so that it asks the driver; above what the first 2 MiB leave.
    seen = slice_.run(LIMIT_MIB)
    assert {way: seen[way] for way in WAYS[:4]} == dict.fromkeys(WAYS[:4], OUT_OF_MEMORY)
    assert seen[WAYS[4]] in (HSA_OUT_OF_RESOURCES, HSA_INVALID_ALLOCATION)
    assert region.read(slice_.folder / "usage").denied[0] >= len(WAYS), "the runtime refused by itself"


@pytest.mark.parametrize("skip", ["0", "1"])
@pytest.mark.parametrize("shape", SHAPES)
def test_queues_carry_the_grant_whatever_the_program_sets(
    machine: Callable[[str], Machine], shape: str, skip: str
) -> None:
    slice_ = machine(shape)
    slice_.environment["HSA_CU_MASK_SKIP_INIT"] = skip
    seen = slice_.run(1)
    assert (seen["stream"], seen["memset"], seen["queue"], seen["queue-mask"]) == (0, 0, 0, 0)
    queues = slice_.queue_masks()
    assert all(masks[0] == slice_.grant for masks in queues.values())
    own = [mask for masks in queues.values() for mask in masks[1:]]
    assert slice_.grant in own, "the mask of all units, which the program gave its HSA queue"
    assert any(mask != slice_.grant for mask in own), "the mask of two units, which it gave its stream"
    assert all(mask and not mask & ~slice_.grant for mask in own)
