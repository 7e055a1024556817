"""Total memory, as programs read it from the KFD topology."""

import errno
import subprocess
from pathlib import Path

import pytest

from tests.runtime.conftest import MIB, Slice, card

NODES = "/sys/devices/virtual/kfd/kfd/topology/nodes"
CARD_BYTES = 16368 * MIB
PROPERTIES = f"cpu_cores_count 0\nsimd_count 240\nsimd_per_cu 4\nlocal_mem_size {CARD_BYTES}\nnum_xcc 1\n"
BANK = "heap_type {heap}\nsize_in_bytes {size}\nflags 0\nwidth 2048\n"


@pytest.fixture
def sys(container: Slice) -> Path:
    """A processor (node 0), our card (node 1) and a stranger's card (node 2)."""
    nodes = container.folder / "sys" / NODES.removeprefix("/sys/")
    for node, gpu_id, properties in ((0, 0, "simd_count 0\n"), (1, 13261, PROPERTIES), (2, 99, PROPERTIES)):
        bank = nodes / str(node) / "mem_banks" / "0"
        bank.mkdir(parents=True)
        (nodes / str(node) / "gpu_id").write_text(f"{gpu_id}\n")
        (nodes / str(node) / "properties").write_text(properties)
        (bank / "properties").write_text(BANK.format(heap=1 if gpu_id else 0, size=CARD_BYTES))
    return container.folder / "sys"


def read(container: Slice, sys: Path, path: str) -> str:
    return "\n".join(container.output(f"print(open({path!r}).read(), end='')", STUB_SYS=str(sys))) + "\n"


def test_memory_is_the_slices_and_units_are_the_cards(container: Slice, sys: Path) -> None:
    container.configure()
    expected = PROPERTIES.replace(str(CARD_BYTES), str(1024 * MIB))
    assert "simd_count 240\n" in expected
    assert read(container, sys, f"{NODES}/1/properties") == expected
    assert read(container, sys, f"{NODES}/1/mem_banks/0/properties") == BANK.format(heap=1, size=1024 * MIB)


def test_class_folder_tells_the_same(container: Slice, sys: Path) -> None:
    (sys / "class" / "kfd").mkdir(parents=True)
    (sys / "class" / "kfd" / "kfd").symlink_to(sys / "devices/virtual/kfd/kfd")
    container.configure()
    text = read(container, sys, NODES.replace("devices/virtual", "class") + "/1/properties")
    assert f"local_mem_size {1024 * MIB}\n" in text


def test_a_card_with_two_banks_has_one_limit(container: Slice, sys: Path) -> None:
    node = sys / NODES.removeprefix("/sys/") / "1"
    (node / "mem_banks" / "1").mkdir()
    (node / "mem_banks" / "0" / "properties").write_text(BANK.format(heap=1, size=256 * MIB))
    (node / "mem_banks" / "1" / "properties").write_text(BANK.format(heap=2, size=CARD_BYTES - 256 * MIB))
    container.configure()
    assert f"size_in_bytes {256 * MIB}\n" in read(container, sys, f"{NODES}/1/mem_banks/0/properties")
    assert f"size_in_bytes {768 * MIB}\n" in read(container, sys, f"{NODES}/1/mem_banks/1/properties")


@pytest.mark.parametrize("path", ["0/properties", "2/properties", "1/gpu_id", "0/mem_banks/0/properties"])
def test_other_files_are_as_they_are(container: Slice, sys: Path, path: str) -> None:
    container.configure()
    real = (sys / NODES.removeprefix("/sys/") / path).read_text()
    assert read(container, sys, f"{NODES}/{path}") == real


def test_limit_above_the_card_changes_nothing(container: Slice, sys: Path) -> None:
    container.configure(card(mem_bytes=64 << 30, mask=(1 << 60) - 1))
    assert read(container, sys, f"{NODES}/1/properties") == PROPERTIES


def test_without_a_config_all_is_as_it_is(container: Slice, sys: Path) -> None:
    assert read(container, sys, f"{NODES}/1/properties") == PROPERTIES


def test_missing_files_stay_missing(container: Slice, sys: Path) -> None:
    container.configure()
    done = container.run(f"open('{NODES}/9/properties')", STUB_SYS=str(sys))
    assert "FileNotFoundError" in done.stderr


def test_other_files_are_opened_on_a_small_stack(container: Slice, native: Path, built: Path) -> None:
    container.configure()
    preload = container.environment(LD_PRELOAD=str(native / "libvgpu-test.so"))
    assert subprocess.run([built / "small_stack"], env=preload, check=False).returncode == 0


@pytest.mark.parametrize("call", ["open(8, 0)", "open64(8, 0)", "openat(-100, 8, 0)", "fopen(8, b'r')"])
def test_a_path_that_cannot_be_read_is_answered(container: Slice, native: Path, call: str) -> None:
    """Without the stub driver, which reads paths itself."""
    container.configure()
    script = f"import ctypes; print(kfd.libc.{call}, ctypes.get_errno())"
    result = 0 if "fopen" in call else -1
    only = str(native / "libvgpu-test.so")
    assert container.output(script, LD_PRELOAD=only) == [f"{result} {errno.EFAULT}"]
