"""Slices of Hygon's cards, as the simulated driver makes them of vdev files, and the records that it keeps of them."""

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.runtime.sim.conftest import Machine
from vgpu_runtime import sim
from vgpu_runtime.config import CardLimit
from vgpu_runtime.rocm import RocmLimit
from vgpu_runtime.sim import records
from vgpu_runtime.vdev import file_name, render

ONE = "[{preset: hygon-60cu-16gib}]"
CARD = sim.parse(f"version: v1\ncards: {ONE}")[0]
MASK = 0xFF << 8


@dataclass(frozen=True)
class Container(Machine):
    """A container of a machine: a root with the maker's folder, and vdev files."""

    def write(self, text: str, name: str = file_name(0)) -> None:
        folder = self.root / "etc/vdev/docker"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

    def hold(self, mib: int) -> "subprocess.Popen[str]":
        """A process that has allocated so much and stays."""
        holder = self.start("hold", mib)
        assert holder.stdout
        assert "hipSuccess" in holder.stdout.readline()
        return holder


def text(pipe: int = 0, mib: int = 1024, mask: int = MASK) -> str:
    family = RocmLimit(CARD.gpu_id, 128, CARD.compute_units, xcc=1, paired=False, mask=mask)
    limit = CardLimit("D", CARD.pci, "Z100", "hygon.com/dcu-mem:1", mib << 20, family)
    return render(limit, vdev_id=0, pipe_id=pipe)


@pytest.fixture
def container(kfd_machine: Callable[[str], Machine], tmp_path: Path) -> Callable[..., Container]:
    machine = kfd_machine(ONE)

    def make(name: str, content: str = "") -> Container:
        root = tmp_path / name
        (root / "opt/hyhal").mkdir(parents=True)
        made = Container(machine.folder, machine.build, root=root)
        if content:
            made.write(content)
        return made

    return make


def test_a_slice_has_the_units_and_the_memory_of_its_file(container: Callable[..., Container]) -> None:
    one = container("one", text())
    assert one.ask("info") == {"devices": 1, "total_mib": 1024, "free_mib": 1024, "units": 8, "name": "Z100"}
    assert one.ask("alloc", 1024)["error"] == "hipSuccess"
    assert one.ask("alloc", 1025)["error"] == "hipErrorOutOfMemory"


def test_a_container_without_a_file_has_the_whole_card(container: Callable[..., Container]) -> None:
    seen = container("one").ask("info")
    assert (seen["total_mib"], seen["units"]) == (16368, 60)


NO_DEVICE = {"devices": 0, "error": "hipErrorNoDevice"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (("vdev_id: 0", "vdev_id: 1"), "id-is-not-the-name"),
        (("cu_count: 8", "cu_count: 9"), "count-is-not-the-mask"),
        (("cu_mask: 0x000000000000ff00", "cu_mask: 0xf00000000000000f"), "unit-beyond-the-card"),
        (("mem: 1024 MiB", "mem: 16369 MiB"), "more-memory-than-the-card"),
        (("pipe_id: 0", "pipe_id: 20"), "no-such-pipe"),
        (("enable: 1", "enable: 0"), "not-enabled"),
    ],
)
def test_a_file_that_the_runtime_refuses_costs_the_card(
    container: Callable[..., Container], change: tuple[str, str], reason: str
) -> None:
    made = text().replace(*change)
    assert made != text()
    one = container("one", made)
    assert one.ask("info") == NO_DEVICE
    assert one.logged("slice")[-1]["refused"] == reason


def test_without_the_makers_folder_there_is_no_device(container: Callable[..., Container]) -> None:
    one = container("one", text())
    (one.root / "opt/hyhal").rmdir()
    assert one.ask("info") == NO_DEVICE


def test_two_live_slices_cannot_have_one_pipe(container: Callable[..., Container]) -> None:
    first, second = container("first", text(pipe=5)), container("second", text(pipe=5))
    with first.hold(100) as holder:
        assert second.ask("info") == NO_DEVICE
        assert second.logged("slice")[-1]["refused"] == "pipe-is-taken"
        assert first.ask("info")["total_mib"] == 1024, "a second process of the slice"
        second.write(text(pipe=6))
        assert second.ask("info")["total_mib"] == 1024
        holder.communicate(timeout=60)


def test_a_pipe_rests_for_a_second_after_its_last_process(container: Callable[..., Container]) -> None:
    first, second = container("first", text()), container("second", text())
    with first.hold(100) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.communicate(timeout=60)
    ended = time.monotonic()
    while second.ask("info") == NO_DEVICE:
        assert second.logged("slice")[-1]["refused"] == "pipe-rests"
        assert time.monotonic() - ended < 30
    assert time.monotonic() - ended > 0.9


def test_a_record_is_shown_while_the_slice_has_a_process_and_a_second_longer(
    container: Callable[..., Container],
) -> None:
    one = container("one", text(pipe=3))
    folder = one.folder
    shown = folder / records.RECORDS
    records.refresh(folder)
    assert not list(shown.iterdir())
    with one.hold(100) as holder:
        records.refresh(folder)
        (entry,) = shown.iterdir()
        assert entry.name == f"0x{CARD.gpu_id:x}@3"
        lines = (entry / "entry").read_text().splitlines()
        assert lines[1:] == [f"Vgpu device:{entry.name}", f"Vram limit:{1 << 30}"]
        assert lines[0].startswith("Indentifier:")
        holder.communicate(timeout=60)
    records.refresh(folder)
    assert list(shown.iterdir())
    ended = time.monotonic()
    while list(shown.iterdir()):
        assert time.monotonic() - ended < 30
        records.refresh(folder)


def test_a_mask_that_names_a_unit_beyond_the_slice_is_refused(container: Callable[..., Container]) -> None:
    one = container("one", text())
    assert one.ask("queue", "--mask", "ff")["error"] == "hipSuccess"
    assert one.ask("queue", "--mask", "ff00")["error"] == "hipErrorInvalidValue"
    assert container("whole").ask("queue", "--mask", "ff00")["error"] == "hipSuccess"


def test_a_slice_of_another_makers_card_is_none(
    kfd_machine: Callable[[str], Machine], tmp_path: Path
) -> None:
    machine = kfd_machine("[{preset: amd-60cu-16gib}]")
    one = Container(machine.folder, machine.build, root=tmp_path / "root")
    one.write(text())
    assert one.ask("info")["total_mib"] == 16368


def test_kernels_of_a_slice_run_on_its_units(container: Callable[..., Container]) -> None:
    slow = container("one", text()).ask("run", 50)["seconds"]
    assert slow > 50 * 100e-6 * 60 / 8 * 0.9


def test_a_slice_of_the_whole_mask_has_all_units(container: Callable[..., Container]) -> None:
    one = container("one", text(mask=(1 << 60) - 1))
    assert replace(one).ask("info")["units"] == 60
