import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.requirement import require
from tests.runtime.slices import CHOSEN
from vgpu_runtime import config, region
from vgpu_runtime.config import CardLimit, SliceConfig
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.rocm import RocmLimit
from vgpu_runtime.sim import hip, userlands
from vgpu_runtime.sim.userlands import USERLANDS, Root

HERE = Path(__file__).parent
NATIVE = SOURCES / "native"
REPOSITORY = HERE.parent.parent
GPU = 13261
MIB = 1 << 20
STRICT = ("-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror")
SANITIZE = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PRELUDE = f"import os\nfrom tests.runtime import kfd\nGPU, MIB = {GPU}, {MIB}\n"


def hip_of(version: str) -> Path | Root:
    """The folder of Debian 12's HIP, or the userland of a newer one, fetched once into the cache."""
    try:
        if version == hip.VERSION:
            return hip.ensure(hip.default_cache())
        return userlands.ensure(hip.default_cache(), USERLANDS[version])
    except hip.HipUnavailableError as error:
        require(False, str(error))  # noqa: FBT003 - it is what require asks
        raise


@pytest.fixture(scope="session")
def chosen_hip() -> Path | Root:
    """The release of HIP that the suites run on."""
    return hip_of(CHOSEN)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program `hipcalls`, which makes HIP's and HSA's calls and prints what they say."""
    target = tmp_path_factory.mktemp("hip") / "hipcalls"
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *flags, HERE / "hipcalls.c", "-o", target, "-ldl"], check=True)
    return target


def card(**changes: object) -> CardLimit[RocmLimit]:
    """A quarter of a 60-unit card."""
    common: dict[str, object] = {
        "uuid": "DCU-1",
        "pci": "0000:19:00.0",
        "model": "Z100",
        "request": "hygon.com/dcu-mem:1",
        "mem_bytes": 1024 * MIB,
    }
    family: dict[str, object] = {
        "gpu_id": GPU,
        "render_minor": 128,
        "compute_units": 60,
        "xcc": 1,
        "paired": False,
        "mask": 0x7FFF << 10,
    }
    common |= {key: value for key, value in changes.items() if key in common}
    family |= {key: value for key, value in changes.items() if key not in common}
    return CardLimit(**common, family=RocmLimit(**family))  # type: ignore[arg-type]


@dataclass
class Slice:
    """A container's files, and how to run a program as one of its processes on the stub driver."""

    folder: Path
    library: Path
    stub: Path
    sanitizers: tuple[Path, ...] = ()
    """What `library` needs before it where it is built with sanitizers."""
    runner: tuple[str | Path, ...] = ()
    """A program that runs the container's programs, and its arguments."""

    @property
    def region(self) -> Path:
        return self.folder / "usage"

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def configure(self, *cards: CardLimit[RocmLimit]) -> None:
        text = config.render(SliceConfig("pod-1", "main", cards or (card(),)))
        (self.folder / "vgpu.conf").write_text(text)
        region.create(self.region)

    def environment(self, **extra: str) -> dict[str, str]:
        return os.environ | {
            "LD_PRELOAD": ":".join(map(str, (*self.sanitizers, self.library, self.stub))),
            "ASAN_OPTIONS": "detect_leaks=0",  # of the programs
            "VGPU_TEST_FOLDER": str(self.folder),
            "VGPU_QUIET": "1",
            "STUB_LOG": str(self.folder / "log"),
            "PYTHONPATH": str(REPOSITORY),
            **extra,
        }

    def start(self, script: str, **extra: str) -> "subprocess.Popen[str]":
        """A Python program with `kfd`, GPU and MIB in scope."""
        return subprocess.Popen(
            # Without the packages of the virtual environment, which take most of a short program's time.
            [*self.runner, sys.executable, "-S", "-c", PRELUDE + script],
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
    for source, target, flags in (
        ("stubkfd.c", "libstubkfd.so", ["-shared", "-fPIC", "-lpthread"]),
        ("churn.c", "churn", []),
        ("admit.c", "admit", []),
        ("cancelled.c", "cancelled", ["-pthread"]),
        ("small_stack.c", "small_stack", ["-Wl,-z,now"]),
        ("parse.c", "parse", [*SANITIZE, *own("common/config.c")]),
        ("mask.c", "mask", [*SANITIZE, *own("rocm/mask.c", "common/config.c")]),
    ):
        command = ["cc", *STRICT, f"-I{SOURCES / 'include'}", str(HERE / source), *flags]
        subprocess.run([*command, "-o", str(folder / target)], check=True)
    return folder


def own(*sources: str) -> list[str]:
    """What builds these sources of the library, given below native/."""
    includes = (f"-I{NATIVE / folder}" for folder in ("common", "rocm"))
    return [*includes, *(str(NATIVE / source) for source in sources)]


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Path, ...]]:
    """The test build of the library with sanitizers, and their own libraries."""
    found = [
        subprocess.run(["cc", f"-print-file-name={name}"], text=True, capture_output=True, check=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    runtimes = tuple(Path(done.stdout.strip()).resolve() for done in found)
    require(
        all(path.is_file() for path in runtimes), "needs gcc's sanitizers: apt-get install libasan8 libubsan1"
    )
    target = tmp_path_factory.mktemp("sanitized") / "libvgpu.so"
    sources = [str(path.relative_to(NATIVE)) for path in NATIVE.glob("*/*.c")]
    flags = ["-DVGPU_TEST_BUILD", "-U_FORTIFY_SOURCE", "-fvisibility=hidden", "-fPIC", "-shared", "-pthread"]
    script = f"-Wl,--version-script={NATIVE / 'vgpu.map'}"
    command = ["cc", *STRICT, *SANITIZE, *flags, f"-I{SOURCES / 'include'}", *own(*sources), script]
    subprocess.run([*command, "-ldl", "-o", target], check=True)
    return target, runtimes


@pytest.fixture
def container(sanitized: tuple[Path, tuple[Path, ...]], built: Path, tmp_path: Path) -> Slice:
    """On the build with sanitizers: what the library does wrong with memory ends the program."""
    library, runtimes = sanitized
    return Slice(tmp_path, library, built / "libstubkfd.so", runtimes)
