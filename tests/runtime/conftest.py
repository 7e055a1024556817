import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.requirement import require
from vgpu_runtime import config, region
from vgpu_runtime.config import CardLimit, SliceConfig
from vgpu_runtime.paths import SOURCES

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
GPU = 13261
MIB = 1 << 20
PRELUDE = f"import os\nfrom tests.runtime import kfd\nGPU, MIB = {GPU}, {MIB}\n"


def card(**changes: object) -> CardLimit:
    """A quarter of a 60-unit card."""
    fields: dict[str, object] = {
        "uuid": "DCU-1",
        "gpu_id": GPU,
        "pci": "0000:19:00.0",
        "render_minor": 128,
        "mem_bytes": 1024 * MIB,
        "compute_units": 60,
        "xcc": 1,
        "paired": False,
        "mask": 0x7FFF << 10,
    }
    return CardLimit(**(fields | changes))  # type: ignore[arg-type]


@dataclass
class Slice:
    """A container's files, and how to run a program as one of its processes on the stub driver."""

    folder: Path
    library: Path
    stub: Path

    @property
    def region(self) -> Path:
        return self.folder / "usage"

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def configure(self, *cards: CardLimit) -> None:
        text = config.render(SliceConfig("pod-1", "main", cards or (card(),)))
        (self.folder / "vgpu.conf").write_text(text)
        region.create(self.region)

    def environment(self, **extra: str) -> dict[str, str]:
        return os.environ | {
            "LD_PRELOAD": f"{self.library}:{self.stub}",
            "VGPU_TEST_FOLDER": str(self.folder),
            "STUB_LOG": str(self.folder / "log"),
            "PYTHONPATH": str(REPOSITORY),
            **extra,
        }

    def start(self, script: str, **extra: str) -> "subprocess.Popen[str]":
        """A Python program with `kfd`, GPU and MIB in scope."""
        return subprocess.Popen(
            [sys.executable, "-c", PRELUDE + script],
            env=self.environment(**extra),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, script: str, **extra: str) -> "subprocess.CompletedProcess[str]":
        with self.start(script, **extra) as process:
            output, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(script, process.returncode, output, errors)

    def output(self, script: str, **extra: str) -> list[str]:
        """The lines that `script` prints; it must succeed and say nothing on stderr."""
        done = self.run(script, **extra)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the stub driver and the small programs of these tests."""
    require(shutil.which("cc"), "needs a C compiler: apt-get install gcc")
    folder = tmp_path_factory.mktemp("built")
    include = f"-I{SOURCES / 'include'}"
    for source, target, flags in (
        ("stubkfd.c", "libstubkfd.so", ["-shared", "-fPIC", "-lpthread"]),
        ("churn.c", "churn", []),
        ("parse.c", "parse", [f"-I{SOURCES / 'src'}", str(SOURCES / "src" / "config.c")]),
        (
            "mask.c",
            "mask",
            [f"-I{SOURCES / 'src'}", str(SOURCES / "src" / "mask.c"), str(SOURCES / "src" / "config.c")],
        ),
    ):
        command = [
            "cc",
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            include,
            str(HERE / source),
            *flags,
        ]
        subprocess.run([*command, "-o", str(folder / target)], check=True)
    return folder


@pytest.fixture
def container(native: Path, built: Path, tmp_path: Path) -> Slice:
    return Slice(tmp_path, native / "libvgpu-test.so", built / "libstubkfd.so")
