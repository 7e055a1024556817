"""A slice's limit and masks hold in the userlands of other machines, over the simulated driver.

The program is vgpu-kfd-probe, which knows the driver's interface only, or vgpu-probe with a release's own HIP.
"""

import errno
import json
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

from device_plugin.core.jobs.progress import BYTES, Progress, checkpoints_of, progress_of
from hack.testbed.images import cache
from tests import compiled
from tests.requirement import require
from tests.runtime import slices, test_loader
from tests.runtime.conftest import HERE, STRICT, Slice, hip_of
from tests.runtime.slices import LIMIT_MIB, SHAPES, SimSlice
from tests.runtime.test_preload import user_namespaces
from vgpu_runtime import paths, region
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim import hip
from vgpu_runtime.sim.debian import Apt, DebianUnavailableError
from vgpu_runtime.sim.userlands import Root

# Where Debian's cross compiler has the libc of programs for the other machine.
AARCH64 = Path("/usr/aarch64-linux-gnu")


def assert_held(slice_: SimSlice, usage: Path, *probe: str | Path, **environment: str) -> None:
    """The command `probe` gets the slice's memory, no more, and a queue with the slice's mask; `usage` says so."""

    def error(*words: str) -> str:
        done = slice_.run(*probe, *words, **{"LD_PRELOAD": "", "LD_LIBRARY_PATH": ""} | environment)
        require(
            "version `GLIBC_" not in done.stderr,
            "needs programs built on Debian 12: later libcs run them too",
        )
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
        return str(json.loads(done.stdout)["error"])

    assert error("alloc", str(LIMIT_MIB)) == "hipSuccess"
    assert error("alloc", str(LIMIT_MIB + 1)) == "hipErrorOutOfMemory"
    assert region.read(usage).denied[0] == 1
    assert error("queue") == "hipSuccess"
    assert list(slice_.queue_masks().values()) == [[slice_.grant]]


def userland(release: str, libc: str = "libc6") -> Path:
    """A folder that stands for / with a libc of a release of Debian, fetched once into the cache."""

    def make(root: Path) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            Apt(Path(scratch), libc, release).unpack([libc], root)
        for name in ("lib", "lib64"):  # links of another package since Debian 13
            if not (root / name).exists():
                (root / name).symlink_to(f"usr/{name}")

    try:
        return cache.keep(
            cache.folder() / "userlands" / f"{release}-{cache.fingerprint(release, libc)}", make
        )
    except DebianUnavailableError as error:
        require(False, str(error))  # noqa: FBT003 - it is what require asks
        raise


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_in_a_userland_of_debian(release: str, native: Path, tmp_path: Path) -> None:
    """As in a container: the library as shipped, from /etc/ld.so.preload, and its files at their places."""
    require(user_namespaces(), "needs user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    root = tmp_path / "root"
    shutil.copytree(userland(release), root, symlinks=True)
    slice_ = slices.make(root, native, None, SHAPES["hygon-60cu-16gib"], 15)
    usage = put_files(slice_, native / "vgpu-kfd-probe")
    enter = entering('mount --rbind /proc "$0/proc"', root)
    assert_held(slice_, usage, *enter, SIMKFD_DIR="/sim", SIMKFD_LOG="/driver.log")


def put_files(slice_: SimSlice, probe: Path) -> Path:
    """Put what a container has of a slice at its places in the slice's folder; returns the usage region there."""
    root, build = slice_.folder, slice_.build
    for place, file in {
        paths.CONTAINER_CONFIG: root / "vgpu.conf",
        paths.CONTAINER_REGION: root / "usage",
        "/opt/libvgpu.so": build / "libvgpu.so",
        "/opt/libsimkfd.so": build / "libsimkfd.so",
        "/opt/probe": probe,
    }.items():
        target = root / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    (root / "etc/ld.so.preload").write_text("/opt/libvgpu.so\n/opt/libsimkfd.so\n")
    (root / "proc").mkdir()  # through which the simulated driver opens its files again
    return root / paths.CONTAINER_REGION.lstrip("/")


def entering(mount: str, root: Path, *folders: Path) -> tuple[str | Path, ...]:
    """The command that runs /opt/probe with `root` as its root, after the shell's words `mount` have mounted there.

    They have `root` as $0 and `folders` as $1 and so on, of which they leave none.
    """
    run = f'set -e; {mount}; exec /usr/sbin/chroot "$0" /opt/probe "$@"'
    return ("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", run, root, *folders)


# Of a newer HIP the whole suites run in hack/nightly.
@pytest.mark.parametrize("version", sorted({hip.VERSION, "5.7.1", slices.CHOSEN}))
def test_hip_with_the_library_as_shipped(version: str, native: Path, tmp_path: Path) -> None:
    """As in a container of that release, whose own libc finds HIP."""
    require(user_namespaces(), "needs user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    found, root = hip_of(version), tmp_path / "root"
    slice_ = slices.make(root, native, found, SHAPES["hygon-60cu-16gib"], 15)
    usage = put_files(slice_, native / "vgpu-probe")
    for name in ("usr", "dev", "sys", "tmp", "opt/rocm/lib"):
        (root / name).mkdir(parents=True)
    for name in ("lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    # Debian 12's own HIP runs on this machine's libc.
    folders = (found.folder / "usr", found.libraries) if isinstance(found, Root) else (Path("/usr"), found)
    mounts = ('/proc "$0/proc"', '/dev "$0/dev"', '/sys "$0/sys"', '"$1" "$0/usr"', '"$2" "$0/opt/rocm/lib"')
    enter = entering("; ".join(f"mount --rbind {what}" for what in mounts) + "; shift 2", root, *folders)
    environment = slice_.environment | {
        "LD_PRELOAD": "",
        "LD_LIBRARY_PATH": "/opt/rocm/lib",
        "SIMKFD_DIR": "/sim",
        "SIMKFD_LOG": "/driver.log",
    }

    def probe(*words: str) -> dict[str, Any]:
        done = slice_.run(*enter, *words, **environment)
        require(
            "version `GLIBC_" not in done.stderr,
            "needs programs built on Debian 12: later libcs run them too",
        )
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 1), done.stderr
        return dict(json.loads(done.stdout))

    seen = probe("info")
    assert (seen["total_mib"], seen["units"]) == (LIMIT_MIB, slice_.hip_units)
    assert probe("queue")["error"] == "hipSuccess"
    masks = list(slice_.queue_masks().values())
    assert masks
    assert all(set(queue) == {slice_.grant} for queue in masks)
    with slices.holding((*enter, "hold", "1500"), environment):
        assert probe("alloc", "600")["error"] == "hipErrorOutOfMemory"
        assert region.read(usage).denied[0] > 0, "the library refused, not HIP"
        assert probe("alloc", "500")["error"] == "hipSuccess"


def test_hip_of_debian_13_on_its_own_loader(native: Path, tmp_path: Path) -> None:
    """One card that Debian 12's HIP does not know; hack/nightly has the others, and newer HIP."""
    card = slices.shapes("5.7.1")["amd-gfx942-304cu-192gib"]
    slice_ = slices.make(tmp_path, native, hip_of("5.7.1"), card, 9)
    outcome = slice_.outcome()
    assert outcome == slices.Outcome("hipSuccess", slice_.units, outcome.queues, 0)
    assert outcome.queues > 0
    assert slice_.probe("copy", "9") == {"mib": 9, "intact": True, "error": "hipSuccess"}


@pytest.fixture(scope="session")
def musl_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    require(shutil.which("musl-gcc"), "needs musl: apt-get install musl-tools")
    program = tmp_path_factory.mktemp("musl") / "program"
    include = f"-I{SOURCES / 'include'}"
    subprocess.run(["musl-gcc", *STRICT, include, HERE / "null_device.c", "-o", program], check=True)
    return program


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_on_musl(release: str, native: Path, musl_program: Path, tmp_path: Path) -> None:
    """By LD_PRELOAD: musl reads no /etc/ld.so.preload. Before 1.2.4, in bookworm, it has `open64` and the like."""
    slice_ = Slice(tmp_path, native / "libvgpu-test.so", Path())
    slice_.configure()
    loader = userland(release, "musl") / f"lib/{platform.machine()}-linux-musl/libc.so"
    environment = {"LD_PRELOAD": str(slice_.library), "VGPU_TEST_FOLDER": str(tmp_path), "VGPU_QUIET": "1"}
    done = subprocess.run(
        [loader, musl_program], env=environment, text=True, capture_output=True, timeout=60, check=False
    )
    assert (done.stdout, done.stderr) == (f"{errno.ENOMEM} 0 {errno.ENOMEM} 111\n", "")
    assert region.read(slice_.region).denied[0] == 2


@pytest.fixture
def aarch64() -> str:
    """An emulator of its processor."""
    found = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    require(found, "needs qemu-aarch64: apt-get install qemu-user")
    return str(found)


def test_on_aarch64(aarch64: str, tmp_path: Path) -> None:
    build = compiled.library("aarch64")
    slice_ = slices.make(tmp_path, build, None, SHAPES["hygon-60cu-16gib"], 15)
    run = (
        aarch64,
        "-L",
        AARCH64,
        "-E",
        f"LD_PRELOAD={slice_.environment['LD_PRELOAD']}",
        build / "vgpu-kfd-probe",
    )
    assert_held(slice_, slice_.folder / "usage", *run)


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program of aarch64 and the plug-in that it loads."""
    compiled.library("aarch64")  # or there is no compiler
    return test_loader.build(tmp_path_factory.mktemp("plugins"), "aarch64-linux-gnu-gcc")


@pytest.mark.parametrize("way", test_loader.WAYS)
def test_a_plugin_on_aarch64(aarch64: str, plugins: Path, tmp_path: Path, way: str) -> None:
    """The library's dlopen and dlmopen are a few instructions of each processor."""
    slice_ = slices.make(tmp_path, compiled.library("aarch64"), None, SHAPES["hygon-60cu-16gib"], 15)
    preload = slice_.environment["LD_PRELOAD"].replace("libvgpu-test", "libvgpu-sim")
    command = (aarch64, "-L", AARCH64, "-E", f"LD_PRELOAD={preload}", plugins / "plugin_host")
    done = slice_.run(*command, way, plugins / "plugin.so", str(LIMIT_MIB + 1), LD_PRELOAD="", VGPU_QUIET="1")
    assert (done.stdout, done.stderr) == ("hipErrorOutOfMemory hipSuccess\n", "")
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
