"""Libraries that a program loads by itself are behind the library, whatever way they are loaded."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime import slices
from tests.runtime.conftest import HERE, MIB
from tests.runtime.slices import LIMIT_MIB, SHAPES, SimSlice
from vgpu_runtime import region
from vgpu_runtime.paths import SOURCES

WAYS = [
    "dlopen", "deepbind", "lazy deepbind", "by a plugin",
    "namespace", "namespace by a plugin", "from a namespace", "a namespace of before",
]  # fmt: skip
PROBE = SOURCES / "sim" / "probe"


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program `plugin_host`, and the plug-in that it loads."""
    return build(tmp_path_factory.mktemp("plugins"), "cc")


def build(folder: Path, compiler: str) -> Path:
    """Compile both into the folder, with the compiler of any architecture."""
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    shared = ["-D_GNU_SOURCE", "-shared", "-fPIC", "-Wl,-rpath,$ORIGIN,--enable-new-dtags"]
    plugin = [PROBE / "kfd.c", PROBE / "save_area.c", HERE / "load_beside.c"]
    subprocess.run([compiler, *flags, *shared, *plugin, "-o", folder / "plugin.so"], check=True)
    waiting, target = HERE / "waiting_plugin.c", folder / "waiting_plugin.so"
    subprocess.run([compiler, *flags, *shared, "-pthread", waiting, "-o", target], check=True)
    subprocess.run([compiler, *flags, HERE / "plugin_host.c", "-o", folder / "plugin_host"], check=True)
    return folder


@pytest.fixture
def slice_(native: Path, tmp_path: Path) -> SimSlice:
    """A slice whose driver is there in each namespace of a program."""
    made = slices.make(tmp_path, native, None, SHAPES["hygon-60cu-16gib"], 15)
    preload = made.environment["LD_PRELOAD"].replace("libvgpu-test", "libvgpu-sim")
    return replace(made, environment=made.environment | {"LD_PRELOAD": preload, "VGPU_QUIET": "1"})


def host(slice_: SimSlice, programs: Path, way: str, mib: int) -> str:
    done = slice_.run(programs / "plugin_host", way, programs / "plugin.so", str(mib))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout.strip()


@pytest.mark.parametrize("way", WAYS)
def test_a_plugin_is_held_to_the_slice(slice_: SimSlice, programs: Path, way: str) -> None:
    assert host(slice_, programs, way, LIMIT_MIB + 1) == "hipErrorOutOfMemory hipSuccess"
    assert list(slice_.queue_masks().values()) == [[slice_.grant]]
    assert not [call for call in slice_.calls("alloc") if int(call["bytes"]) > MIB * LIMIT_MIB]
    assert region.read(slice_.folder / "usage").denied[0] == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_plugin_gets_what_fits(slice_: SimSlice, programs: Path, way: str) -> None:
    assert host(slice_, programs, way, LIMIT_MIB) == "hipSuccess hipSuccess"


def test_namespaces_that_are_closed_can_be_opened_for_ever(slice_: SimSlice, programs: Path) -> None:
    """glibc has 16, and the library stays in each that it was loaded into."""
    done = slice_.run(programs / "plugin_host", "again", programs / "plugin.so")
    assert (done.stdout, done.stderr) == ("64\n", "")


def test_a_thread_that_uses_files_does_not_wait_for_the_loader(slice_: SimSlice, programs: Path) -> None:
    """What the library stands in front of is looked up before main: dlsym takes the loader's lock."""
    library = str(slice_.build / "libvgpu-test.so")
    done = slice_.run(programs / "plugin_host", "load", programs / "waiting_plugin.so", LD_PRELOAD=library)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("way", ["deepbind", "namespace"])
def test_without_a_config_nothing_is_changed(slice_: SimSlice, programs: Path, way: str) -> None:
    """Then neither way leads to what was preloaded: the driver is not there."""
    (slice_.folder / "vgpu.conf").unlink()
    assert host(slice_, programs, way, 1).startswith("hipErrorNoDevice")
