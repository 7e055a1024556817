"""A process keeps its slot, and the limit its figure, whatever is done to descriptors, cells and libc's functions."""

import dataclasses
import errno
import subprocess
from pathlib import Path

import pytest

from tests.requirement import require
from tests.runtime.conftest import HERE, MIB, STRICT, Slice
from tests.runtime.test_memory import REFUSED, TRY
from tests.runtime.test_preload import user_namespaces
from vgpu_runtime import region
from vgpu_runtime.paths import SOURCES

ALLOCATE = "import sys; from tests.runtime import kfd; kfd.alloc(13261, int(sys.argv[1]) << 20)"
NEIGHBOUR = (
    "import subprocess, sys\n"
    "def neighbour(mib):\n"
    f"    command = [sys.executable, '-S', '-c', {ALLOCATE!r}, str(mib)]\n"
    "    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0\n"
)


@pytest.fixture
def container(container: Slice) -> Slice:
    container.configure()
    return container


@pytest.mark.parametrize(
    "reuse", ["", "for fd in range(3, 600): os.open('/proc/self/status', os.O_RDONLY)\n"]
)
def test_program_that_closes_our_descriptors(container: Slice, reuse: str) -> None:
    script = (
        f"a = kfd.alloc(GPU, 600 * MIB); os.closerange(3, 4096)\n{reuse}"
        "print(neighbour(500), neighbour(400))\n"
        "print(attempt(500 * MIB), attempt(400 * MIB) > 0, kfd.available(GPU) // MIB); os.closerange(3, 4096)\n"
        "kfd.free(a); print(neighbour(700), neighbour(600), flush=True); os.closerange(3, 4096); input()"
    )
    with container.start(TRY + NEIGHBOUR + script) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(3)]
        assert lines == ["False True\n", f"{REFUSED} True 24\n", "False True\n"]
        usage = region.read(container.region)
        assert (usage.used_bytes[0], usage.live_slots) == (400 * MIB, 1), (
            "one slot, though it was lost three times"
        )
        process.communicate("\n", timeout=60)
    assert region.read(container.region).live_slots == 0


def test_a_region_on_a_file_system_that_maps_other_files(container: Slice, tmp_path: Path) -> None:
    """Overlayfs, as of containers in which these tests may run: there a mapping does not hold a lock."""
    require(user_namespaces(), "needs user namespaces: sysctl kernel.unprivileged_userns_clone=1")
    for name in ("merged", "upper", "work"):
        (tmp_path / name).mkdir()
    options = f"lowerdir={container.folder},upperdir={tmp_path}/upper,workdir={tmp_path}/work,userxattr"
    enter = f'mount -t overlay overlay -o {options} {tmp_path}/merged && exec "$@"'
    overlaid = dataclasses.replace(container, runner=("unshare", "-Urm", "sh", "-c", enter, "sh"))
    script = (
        "kfd.alloc(GPU, 600 * MIB); print(neighbour(500), neighbour(400))\n"
        "os.closerange(3, 4096); print(attempt(500 * MIB), attempt(300 * MIB) > 0, neighbour(200), neighbour(100))"
    )
    environment = {"VGPU_TEST_FOLDER": str(tmp_path / "merged")}
    assert overlaid.output(TRY + NEIGHBOUR + script, **environment) == [
        "False True",
        f"{REFUSED} True False True",
    ]


def test_program_that_has_no_descriptor_left_for_us(container: Slice) -> None:
    """Its memory is refused, until it closes two."""
    script = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); mine = []\n"
        "try:\n    while True: mine.append(os.dup(0))\n"
        "except OSError: pass\n"
        "print(attempt(MIB)); os.close(mine.pop()); os.close(mine.pop()); print(attempt(MIB) > 0)"
    )
    done = container.run(TRY + script)
    assert (done.returncode, done.stdout.splitlines()) == (0, [REFUSED, "True"])
    assert done.stderr == (
        "vgpu: card memory is refused: no file descriptor is left to open the usage region /var/run/vgpu/usage with\n"
    )


@pytest.mark.parametrize(
    ("harm", "trouble"),
    [
        ("os.unlink(path)", "is missing"),
        ("os.truncate(path, 100)", "is damaged"),
        (f"fcntl.fcntl(other, 37, struct.pack('hhqqi4x', 1, 0, {region.LOCK_SLOT}, 0, 0))",
         "is full: 128 processes use cards"),
    ],
    ids=["missing", "damaged", "full"],
)  # fmt: skip
def test_what_is_wrong_with_the_region_is_said(container: Slice, harm: str, trouble: str) -> None:
    script = f"import fcntl, struct; path = {str(container.region)!r}; other = open(path, 'r+b')\n{harm}\n"
    done = container.run(TRY + script + "print(attempt(MIB))")
    assert done.stdout == f"{REFUSED}\n"
    assert done.stderr == f"vgpu: card memory is refused: the usage region /var/run/vgpu/usage {trouble}\n"


@pytest.mark.parametrize("admission", ["attempt(4096)", "attempt(500 * MIB)", "kfd.available(GPU)"])
def test_zeroes_in_the_region_count_until_the_next_admission(container: Slice, admission: str) -> None:
    script = (
        "kfd.alloc(GPU, 900 * MIB)\n"
        f"with open({str(container.region)!r}, 'r+b') as file:\n"
        f"    file.seek({region.USED_OFFSET}); file.write(bytes({region.SIZE - region.USED_OFFSET}))\n"
        f"print(attempt(500 * MIB)); {admission}; print(neighbour(500), neighbour(100))"
    )
    assert container.output(TRY + NEIGHBOUR + script) == [REFUSED, "False True"]


@pytest.mark.parametrize("first", [True, False])
def test_a_preload_that_changes_file_functions_changes_nothing(
    container: Slice, tmp_path: Path, first: bool
) -> None:
    meddler = tmp_path / "meddler.so"
    subprocess.run(["cc", *STRICT, "-shared", "-fPIC", HERE / "meddler.c", "-o", meddler], check=True)
    preload = (meddler, container.library) if first else (container.library, meddler)
    container = dataclasses.replace(
        container, sanitizers=(*container.sanitizers, *preload[:-1]), library=preload[-1]
    )
    script = "kfd.alloc(GPU, 600 * MIB); print(attempt(500 * MIB), neighbour(500), neighbour(400))"
    assert container.output(TRY + NEIGHBOUR + script) == [f"{REFUSED} False True"]


def test_a_preload_that_calls_devices_files_hides_none(
    container: Slice, native: Path, tmp_path: Path
) -> None:
    source, liar, program = tmp_path / "liar.c", tmp_path / "liar.so", tmp_path / "program"
    source.write_text(
        "#include <sys/stat.h>\n"
        "int fstat(int fd, struct stat *status) { (void)fd; status->st_mode = S_IFREG; return 0; }\n"
    )
    subprocess.run(["cc", *STRICT, "-shared", "-fPIC", source, "-o", liar], check=True)
    include = f"-I{SOURCES / 'include'}"
    subprocess.run(["cc", *STRICT, include, HERE / "null_device.c", "-o", program, "-ldl"], check=True)
    environment = container.environment(LD_PRELOAD=f"{native / 'libvgpu-test.so'}:{liar}")
    done = subprocess.run([program], env=environment, text=True, capture_output=True, timeout=60, check=False)
    assert (done.stdout, done.returncode) == (f"{errno.ENOMEM} 0 {errno.ENOMEM} 111\n", 0)
