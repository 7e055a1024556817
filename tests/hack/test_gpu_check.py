"""`hack/gpu-check`, without a card and over the simulated driver with the real HIP."""

import ast
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from hack.gpu_check import cards, slices
from hack.gpu_check.__main__ import FAIL, IMPOSSIBLE, PASS
from tests.requirement import require
from tests.runtime.slices import SHAPES
from vgpu_runtime import region, rocm
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim import Kernel, number, tree

SCRIPT = SOURCES.parent / "hack/gpu-check"
# Of a simulated card: its requests never reach a kernel, and it runs no kernels.
NOT_SIMULATED = {
    "memory limit, PyTorch", "masks by HW_ID", "two slices disjoint", "kernel's figures", "render node's text",
    "dmem.max", "ioctl path",
}  # fmt: skip
CARD = cards.Card(14290, "0000:19:00.0", "1d94:54b7", "Z100", 90006, 60, 1, 128)


def table(environment: Mapping[str, str], *options: str | Path) -> tuple[int, dict[str, str]]:
    """The exit status, and the result of each check."""
    command = [str(SCRIPT), "--json", *map(str, options)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    answer = json.loads(done.stdout)
    assert (done.stderr, done.returncode) == ("", answer["status"])
    return done.returncode, {row["check"]: row["result"] for row in answer["rows"]}


@pytest.fixture
def simulated(native: Path, hip_libraries: Path, tmp_path: Path) -> Mapping[str, str]:
    """Variables under which a program sees a simulated card."""
    tree.build(number([SHAPES["amd-rdna-80cu-16gib"]]), tmp_path / "sim", Kernel.EQUAL)
    return os.environ | {
        "LD_LIBRARY_PATH": str(hip_libraries),
        "LD_PRELOAD": str(native / "libsimkfd.so"),
        "SIMKFD_DIR": str(tmp_path / "sim"),
    }


def test_without_a_card_nothing_is_possible_and_the_status_says_so() -> None:
    require(not Path("/dev/kfd").exists(), "needs a machine without a card")
    status, results = table({"PATH": "/usr/bin:/bin"})
    assert status == 1
    assert results.pop("kernel, driver") == PASS
    assert results == {"all others": IMPOSSIBLE}


def test_what_can_be_seen_over_a_simulated_driver_passes(simulated: Mapping[str, str]) -> None:
    status, results = table(simulated)
    assert status == 0
    assert {name for name, result in results.items() if result != PASS} <= NOT_SIMULATED


def test_a_library_that_holds_nothing_fails(simulated: Mapping[str, str], native: Path) -> None:
    check = "memory limit, HIP"
    status, results = table(simulated, check, "--library", native / "libsimkfd.so")
    assert (status, results[check]) == (1, FAIL)


@pytest.mark.parametrize("mask", [0x7FFF, 0x7FFF << 15])
def test_the_slices_files_are_the_agents(tmp_path: Path, mask: int) -> None:
    first = 15 if mask & 1 == 0 else 0
    made = slices.make_slice(CARD, Path("libvgpu.so"), tmp_path / "slice", first)
    (limit,) = rocm.parse((made.folder / "vgpu.conf").read_text()).cards
    assert limit.mem_bytes == slices.LIMIT_MIB << 20
    assert limit.family == rocm.RocmLimit(14290, 128, 60, 1, paired=False, mask=mask)
    region.create(tmp_path / "usage")
    assert (made.folder / "usage").read_bytes() == (tmp_path / "usage").read_bytes()


@pytest.mark.parametrize(
    "module", sorted(Path(slices.__file__).parent.glob("*.py")), ids=lambda path: path.name
)
def test_it_is_python_3_8(module: Path) -> None:
    ast.parse(module.read_text(), feature_version=(3, 8))
