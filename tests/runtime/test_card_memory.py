"""DRM's figures of a card's memory, as rocm-smi and amd-smi read them."""

from pathlib import Path

import pytest

from tests.runtime.conftest import MIB, Slice, card
from vgpu_runtime import region

OURS, OTHER = "0000:19:00.0", "0000:21:00.0"
TOTAL, VISIBLE = 16368 * MIB, 256 * MIB


@pytest.fixture
def sys(container: Slice) -> Path:
    """The machine's two cards, of which the first is ours; its driver counts 9,000 MiB in use by all processes."""
    folder = container.folder / "sys"
    for index, pci in enumerate((OURS, OTHER)):
        device = folder / "devices/pci0000:00" / pci
        device.mkdir(parents=True)
        for name, value in (
            ("vram_total", TOTAL),
            ("vram_used", 9000 * MIB),
            ("vis_vram_total", VISIBLE),
            ("vis_vram_used", 200 * MIB),
            ("gtt_total", 7 * MIB),
        ):
            (device / f"mem_info_{name}").write_text(f"{value}\n")
        (device / "uevent").write_text(f"DRIVER=amdgpu\nPCI_SLOT_NAME={pci}\nMODALIAS=pci\n")
        for kind in ("class/drm/card", "class/drm/renderD12"):
            node = folder / f"{kind}{index}"
            node.mkdir(parents=True)
            (node / "device").symlink_to(device)
    return folder


def figures(container: Slice, sys: Path, *paths: str, before: str = "") -> list[int]:
    script = f"{before}\nfor path in {paths!r}: print(open(path).read(), end='')"
    return [int(line) for line in container.output(script, STUB_SYS=str(sys))]


def drm(*names: str, device: str = "/sys/class/drm/card0/device") -> list[str]:
    return [f"{device}/mem_info_{name}" for name in names]


def test_totals_are_the_slices(container: Slice, sys: Path) -> None:
    container.configure()
    assert figures(container, sys, *drm("vram_total", "vis_vram_total")) == [1024 * MIB, VISIBLE]
    container.configure(card(mem_bytes=64 * MIB))
    assert figures(container, sys, *drm("vram_total", "vis_vram_total")) == [64 * MIB, 64 * MIB]


@pytest.mark.parametrize(
    "device",
    ["/sys/class/drm/card0/device", "/sys/class/drm/renderD120/device", f"/sys/devices/pci0000:00/{OURS}"],
)
def test_use_is_what_all_processes_of_the_container_hold(container: Slice, sys: Path, device: str) -> None:
    container.configure()
    names = drm("vram_used", "vis_vram_used", device=device)
    assert figures(container, sys, *names) == [0, 0]
    with container.start("kfd.alloc(GPU, 300 * MIB); print('held', flush=True); input()") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        assert figures(container, sys, *names) == [300 * MIB, VISIBLE]
        assert figures(container, sys, *names, before="kfd.alloc(GPU, 9 * MIB)") == [309 * MIB, VISIBLE]
        process.kill()
    assert figures(container, sys, *names) == [0, 0]


def test_who_only_looks_claims_no_slot(container: Slice, sys: Path) -> None:
    container.configure()
    with container.start(
        f"open({drm('vram_used')[0]!r}).read(); print('read', flush=True); input()", STUB_SYS=str(sys)
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "read\n"
        assert region.read(container.region).live_slots == 0
        process.kill()


def test_use_is_never_more_than_the_total(container: Slice, sys: Path) -> None:
    container.configure(card(mem_bytes=64 * MIB))
    reserve = "kfd.alloc(GPU, 64 * MIB); kfd.alloc(GPU, 4096)"
    assert figures(container, sys, *drm("vram_used"), before=reserve) == [64 * MIB]


def test_streams_of_c_and_cpp_read_the_same(container: Slice, sys: Path) -> None:
    """libstdc++ opens its files with fopen64."""
    container.configure()
    script = (
        "import ctypes; libc = ctypes.CDLL(None); libc.fopen64.restype = ctypes.c_void_p\n"
        f"stream = libc.fopen64({drm('vram_total')[0]!r}.encode(), b'r'); line = ctypes.create_string_buffer(64)\n"
        "libc.fgets(line, 64, ctypes.c_void_p(stream)); print(line.value.decode(), end='')"
    )
    assert container.output(script, STUB_SYS=str(sys)) == [str(1024 * MIB)]


@pytest.mark.parametrize(
    "path", [*drm("gtt_total"), *drm("vram_total", "vram_used", device="/sys/class/drm/card1/device")]
)
def test_other_figures_and_other_cards_are_as_they_are(container: Slice, sys: Path, path: str) -> None:
    container.configure()
    assert figures(container, sys, path) == [int((sys / path.removeprefix("/sys/")).read_text())]


def test_without_a_config_all_is_as_it_is(container: Slice, sys: Path) -> None:
    assert figures(container, sys, *drm("vram_total", "vram_used")) == [TOTAL, 9000 * MIB]


def test_missing_files_stay_missing(container: Slice, sys: Path) -> None:
    container.configure()
    (sys / "devices/pci0000:00" / OURS / "mem_info_vram_total").unlink()
    for path in drm("vram_total", device="/sys/class/drm/card9/device") + drm("vram_total"):
        assert "FileNotFoundError" in container.run(f"open({path!r})", STUB_SYS=str(sys)).stderr


def test_a_ruined_region_is_no_use(container: Slice, sys: Path) -> None:
    container.configure()
    container.region.write_bytes(b"x")
    assert figures(container, sys, *drm("vram_used")) == [0]
