"""A slice's limit and masks hold in another machine's programs: the probe on the driver's interface, simulated."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from device_plugin.core.jobs.progress import BYTES, Progress, checkpoints_of, progress_of
from tests import compiled
from tests.requirement import require
from tests.runtime import slices
from tests.runtime.slices import LIMIT_MIB, SHAPES, SimSlice
from vgpu_runtime import region

# Where Debian's cross compiler has the libc of programs for the other machine.
AARCH64 = Path("/usr/aarch64-linux-gnu")


def probe(slice_: SimSlice, emulator: tuple[str | Path, ...], *words: str) -> str:
    """How a command of the probe ends."""
    done = slice_.run(*emulator, slice_.build / "vgpu-kfd-probe", *words, LD_PRELOAD="", LD_LIBRARY_PATH="")
    (line,) = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    return str(json.loads(line)["error"])


@pytest.fixture
def aarch64() -> str:
    """An emulator of its processor."""
    found = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    require(found, "needs qemu-aarch64: apt-get install qemu-user")
    return str(found)


def test_on_aarch64(aarch64: str, tmp_path: Path) -> None:
    build = compiled.library("aarch64")
    slice_ = slices.make(tmp_path, build, None, SHAPES["hygon-60cu-16gib"], 15)
    run = (aarch64, "-L", AARCH64, "-E", f"LD_PRELOAD={slice_.environment['LD_PRELOAD']}")
    assert probe(slice_, run, "alloc", str(LIMIT_MIB)) == "hipSuccess"
    assert probe(slice_, run, "alloc", str(LIMIT_MIB + 1)) == "hipErrorOutOfMemory"
    assert region.read(slice_.folder / "usage").denied[0] == 1
    assert probe(slice_, run, "queue") == "hipSuccess"
    assert list(slice_.queue_masks().values()) == [[slice_.grant]]


def test_scripts_tell_their_progress_on_aarch64(aarch64: str, tmp_path: Path) -> None:
    file = tmp_path / "progress"
    file.write_bytes(b" " * BYTES)
    for name, *words in (("vgpu-progress", "3", "40"), ("vgpu-checkpoint", "done")):
        (tmp_path / name).symlink_to(compiled.library("aarch64") / "vgpu-tell")
        subprocess.run(
            [aarch64, tmp_path / name, *words], env={"VGPU_PROGRESS": str(file)}, check=True, timeout=60
        )
    assert (progress_of(file.read_bytes()), checkpoints_of(file.read_bytes())) == (Progress(3, 40), 1)
