"""The library goes into strangers' processes: what it needs of them and shows to them."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import compiled
from tests.requirement import require
from tests.runtime.conftest import Slice
from vgpu_runtime import paths, region
from vgpu_runtime.paths import SOURCES

EXPORTS = {
    "ioctl", "close", "open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2", "__openat64_2",
    "fopen", "fopen64", "dlopen", "dlmopen",
}  # fmt: skip
# The loader is no library of a program's own: what asks for it by name is part of the same libc.
LIBRARIES = re.compile(r"libc\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux[-\w]*\.so\.\d")
# Functions that write to standard output, install a signal handler, or end the process with a status of its own.
FORBIDDEN = re.compile(
    r"v?printf|puts|putchar|putc|fwrite|fput[cs]|stdout|v?dprintf"
    r"|signal|(bsd|sysv|__sysv)_signal|sigaction|sigset|sigignore"
    r"|_?exit|_Exit|quick_exit|errx?|error|__assert_fail"
)


class Symbol(NamedTuple):
    name: str
    version: str
    defined: bool


@pytest.fixture(scope="module", params=compiled.ARCHITECTURES)
def shipped(request: pytest.FixtureRequest) -> Path:
    """The folder of a build: for this machine and for the other architecture."""
    return compiled.library(request.param)


def readelf(option: str, library: Path) -> str:
    """The output of readelf for a library of any architecture; objdump knows only this machine's."""
    require(shutil.which("readelf"), "needs readelf: apt-get install binutils")
    done = subprocess.run(["readelf", "--wide", option, library], text=True, capture_output=True, check=True)
    return done.stdout


def symbols(library: Path) -> list[Symbol]:
    """The dynamic symbols that have a name others can use."""
    found = re.findall(
        r"^ *\d+: [0-9a-f]+ +\d+ \w+ +(?:GLOBAL|WEAK) +\w+ +(\w+) ([\w.]+)(?:@+(\w[\w.]*))?",
        readelf("--dyn-syms", library),
        re.MULTILINE,
    )
    assert found
    return [Symbol(name, version, place != "UND") for place, name, version in found]


def test_glibc_floor_is_2_17(shipped: Path) -> None:
    needed = [symbol.version for symbol in symbols(shipped / "libvgpu.so") if not symbol.defined]
    versions = {tuple(map(int, name.removeprefix("GLIBC_").split("."))) for name in needed if name}
    assert versions
    assert max(versions) <= (2, 17)


def test_exports_are_the_interposed_functions_only(shipped: Path) -> None:
    assert {symbol.name for symbol in symbols(shipped / "libvgpu.so") if symbol.defined} == EXPORTS


def test_it_needs_no_library_but_libcs_own(shipped: Path) -> None:
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("--dynamic", shipped / "libvgpu.so"))
    # By name: before glibc 2.34 dlsym is in no other library.
    assert "libdl.so.2" in needed
    assert [name for name in needed if not LIBRARIES.fullmatch(name)] == []


def test_its_code_is_shared_by_all_processes(shipped: Path) -> None:
    dynamic = readelf("--dynamic", shipped / "libvgpu.so")
    assert "(NEEDED)" in dynamic
    assert "TEXTREL" not in dynamic


def test_it_calls_nothing_that_writes_to_stdout_handles_a_signal_or_exits(shipped: Path) -> None:
    needed = [symbol.name for symbol in symbols(shipped / "libvgpu.so") if not symbol.defined]
    assert [name for name in needed if FORBIDDEN.fullmatch(name.removesuffix("_unlocked"))] == []


@pytest.mark.parametrize("architecture", compiled.ARCHITECTURES)
def test_two_folders_build_the_same_bytes(architecture: str, tmp_path: Path) -> None:
    folder = compiled.library(architecture).relative_to(SOURCES.parent)
    built = []
    for name in ("one", "another/and/deeper"):
        shutil.copytree(SOURCES, tmp_path / name / "vgpu_runtime")
        target = tmp_path / name / folder
        files = [target / file for file in ("libvgpu.so", "vgpu-tell", "vgpu-smi")]
        # With debugging information, which names the folder where the compiler ran.
        make = ("make", "-s", "-C", tmp_path / name / "vgpu_runtime", f"ARCH={architecture}")
        subprocess.run([*make, "CFLAGS=-O2 -g", *files], check=True)
        built.append([file.read_bytes() for file in files])
    assert built[0] == built[1]
    assert not [content for content in built[0] if str(tmp_path).encode() in content]


def test_production_build_reads_no_environment(shipped: Path) -> None:
    assert not [symbol for symbol in symbols(shipped / "libvgpu.so") if "getenv" in symbol.name]
    assert b"VGPU_TEST" not in (shipped / "libvgpu.so").read_bytes()


def test_programs_outside_a_slice_do_not_notice(native: Path) -> None:
    command = ["bash", "-c", "echo text | cat - /proc/self/comm; ls / >/dev/null"]
    environment = {"LD_PRELOAD": str(native / "libvgpu.so"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == ("text\ncat\n", "")


def test_a_refusal_leaves_signals_and_stdout_alone(container: Slice, native: Path) -> None:
    container.library, container.sanitizers = native / "libvgpu-test.so", ()  # sanitizers install handlers
    container.configure()
    refused = "try: kfd.alloc(GPU, 1 << 40)\nexcept kfd.KfdError: pass\n"
    # Without SigQ, which counts the queued signals of all processes of the user.
    signals = (
        "print(*(line for line in open('/proc/self/status') if line[:3] == 'Sig' and line[:4] != 'SigQ'))"
    )
    seen = container.run(refused + signals).stdout
    assert region.read(container.region).denied[0] == 1
    assert "SigCgt" in seen
    assert seen == container.run(refused + signals, LD_PRELOAD="").stdout


def test_both_halves_name_the_same_paths() -> None:
    text = (SOURCES / "include" / "vgpu_paths.h").read_text()
    assert re.findall('"(.*)"', text) == [paths.CONTAINER_CONFIG, paths.CONTAINER_REGION]


def test_up_to_date_build_is_silent(native: Path) -> None:
    command = ["make", "--no-print-directory", "-C", str(SOURCES)]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, text=True, capture_output=True, check=True)
    assert (native.name, done.stdout, done.stderr) == ("build", "", "")
