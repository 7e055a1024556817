"""The library goes into strangers' processes: what it needs of them and shows to them."""

import re
import shutil
import subprocess
from pathlib import Path

from tests.requirement import require
from vgpu_runtime import paths
from vgpu_runtime.paths import SOURCES

EXPORTS = {
    "ioctl", "open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2", "__openat64_2",
    "fopen", "fopen64", "dlopen", "dlmopen",
}  # fmt: skip


def symbols(library: Path) -> list[str]:
    require(shutil.which("objdump"), "needs objdump: apt-get install binutils")
    done = subprocess.run(["objdump", "-T", library], text=True, capture_output=True, check=True)
    return [line for line in done.stdout.splitlines() if re.match("[0-9a-f]{16} ", line)]


def test_glibc_floor_is_2_17(native: Path) -> None:
    found = re.findall(r"GLIBC_([\d.]+)", "\n".join(symbols(native / "libvgpu.so")))
    versions = {tuple(map(int, version.split("."))) for version in found}
    assert versions
    assert max(versions) <= (2, 17)


def test_dlsym_is_found_on_old_and_new_libcs(native: Path) -> None:
    require(shutil.which("readelf"), "needs readelf: apt-get install binutils")
    done = subprocess.run(
        ["readelf", "-d", native / "libvgpu.so"], text=True, capture_output=True, check=True
    )
    assert "[libdl.so.2]" in done.stdout


def test_exports_are_the_interposed_functions_only(native: Path) -> None:
    defined = {line.split()[-1] for line in symbols(native / "libvgpu.so") if "*UND*" not in line}
    assert defined == EXPORTS


def test_production_build_reads_no_environment(native: Path) -> None:
    assert not [line for line in symbols(native / "libvgpu.so") if "getenv" in line]
    assert b"VGPU_TEST" not in (native / "libvgpu.so").read_bytes()


def test_programs_outside_a_slice_do_not_notice(native: Path) -> None:
    command = ["bash", "-c", "echo text | cat - /proc/self/comm; ls / >/dev/null"]
    environment = {"LD_PRELOAD": str(native / "libvgpu.so"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == ("text\ncat\n", "")


def test_both_halves_name_the_same_paths() -> None:
    text = (SOURCES / "include" / "vgpu_paths.h").read_text()
    assert re.findall('"(.*)"', text) == [paths.CONTAINER_CONFIG, paths.CONTAINER_REGION]


def test_up_to_date_build_is_silent(native: Path) -> None:
    command = ["make", "--no-print-directory", "-C", str(SOURCES)]
    done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, text=True, capture_output=True, check=True)
    assert (native.name, done.stdout, done.stderr) == ("build", "", "")
