"""`hack/gpu-check`, without a card and over the simulated driver with the real HIP."""

import ast
import contextlib
import fcntl
import json
import os
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from hack.gpu_check import cards, checks, dmem, hygon, running, slices, vdev
from hack.gpu_check.__main__ import FAIL, IMPOSSIBLE, PASS
from hack.gpu_check.checks import Bench
from hack.gpu_check.running import FailedError, ImpossibleError
from tests.namespaces import with_own_mounts
from tests.requirement import require
from tests.runtime.slices import SHAPES
from vgpu_runtime import region, rocm
from vgpu_runtime.config import CardLimit
from vgpu_runtime.paths import SOURCES
from vgpu_runtime.sim import Kernel, SimCard, number, processes, records, tree
from vgpu_runtime.vdev import render

SCRIPT = SOURCES.parent / "hack/gpu-check"
# Of a simulated card: its requests never reach a kernel, and it runs no kernels.
NOT_SIMULATED = {
    "memory limit, PyTorch", "masks by HW_ID", "two slices disjoint", "kernel's figures", "render node's text",
    "cu_occupancy", "ioctl path", *dmem.CHECKS,
}  # fmt: skip
CARD = cards.Card(14290, "0000:19:00.0", "1d94:54b7", "Z100", 90006, 60, 1, 128)
PIPES_LOCK = 1 << 40  # of the first pipe's record in the simulated driver's file
BUSY_UNITS = 15


@dataclass
class Machine:
    """A simulated machine whose kernel shows the driver's records and the figures of processes."""

    folder: Path
    cards: list[SimCard]
    environment: Mapping[str, str]
    busy_units: int = BUSY_UNITS
    ended: threading.Event = field(default_factory=threading.Event)

    def show(self) -> None:
        """Write the kernel's files until `ended`."""
        log = self.folder / "driver.log"
        while not self.ended.wait(0.02):
            records.refresh(self.folder)
            lines = log.read_text().splitlines() if log.exists() else []
            for process in {int(line.split()[0].partition("=")[2]) for line in lines}:
                for card in self.cards:
                    uuid = f"GPU-{card.unique_id:x}"
                    processes.set_process(self.folder, process, uuid, 0, busy_units=self.busy_units)

    @contextlib.contextmanager
    def taken(self, card: int, pipe: int) -> Iterator[None]:
        """Another slice has the pipe."""
        with (self.folder / "state/pipes").open("r+b") as file:
            lock = struct.pack(
                "hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, PIPES_LOCK + card * records.PIPES + pipe, 1, 0
            )
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, lock)
            yield


def rows(environment: Mapping[str, str], *options: str | Path) -> tuple[int, list[dict[str, str]]]:
    """The exit status, and the rows."""
    command = [str(SCRIPT), "--json", *map(str, options)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=240)
    answer = json.loads(done.stdout)
    assert (done.stderr, done.returncode) == ("", answer["status"])
    return done.returncode, answer["rows"]


def table(environment: Mapping[str, str], *options: str | Path) -> tuple[int, dict[str, str]]:
    """The exit status, and the result of each check."""
    status, found = rows(environment, *options)
    return status, {row["check"]: row["result"] for row in found}


@pytest.fixture
def simulated(native: Path, hip_libraries: Path, tmp_path: Path) -> Mapping[str, str]:
    """Variables under which a program sees a simulated card."""
    tree.build(number([SHAPES["amd-rdna-80cu-16gib"]]), tmp_path / "sim", Kernel.EQUAL)
    return os.environ | {
        "LD_LIBRARY_PATH": str(hip_libraries),
        "LD_PRELOAD": str(native / "libsimkfd.so"),
        "SIMKFD_DIR": str(tmp_path / "sim"),
    }


@pytest.fixture
def machine(simulated: Mapping[str, str], tmp_path: Path) -> Iterator[Callable[[int], Machine]]:
    """A function that makes the machine, with this number of Hygon's cards."""
    folder = tmp_path / "hygon"
    made: list[tuple[Machine, threading.Thread]] = []

    def make(count: int) -> Machine:
        sim = number([SHAPES["hygon-60cu-16gib"]] * count)
        tree.build(sim, folder, Kernel.EQUAL)
        records.refresh(folder)
        variables = {name: str(folder) for name in ("SIMKFD_DIR", "SIMKFD_ROOT")}
        machine = Machine(folder, sim, {**simulated, **variables, "SIMKFD_LOG": str(folder / "driver.log")})
        made.append((machine, threading.Thread(target=machine.show)))
        made[-1][1].start()
        return machine

    yield make
    for machine, thread in made:
        machine.ended.set()
        thread.join()


Benches = Callable[[Machine], Bench]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, native: Path, tmp_path: Path) -> Benches:
    """A function that makes two slices of a machine's first card, for checks in this process."""

    def make(machine: Machine) -> Bench:
        for name, value in {**machine.environment, "PYTHONPATH": str(SOURCES.parent)}.items():
            monkeypatch.setenv(name, value)
        found = [
            cards.Card(card.gpu_id, card.pci, "1d94:54b7", card.name, 90006, 60, 1, 128 + index)
            for index, card in enumerate(machine.cards)
        ]
        for module in (running, vdev, hygon):
            monkeypatch.setattr(module, "cards", lambda: found)
        kfd = machine.folder / "sys/devices/virtual/kfd/kfd"
        monkeypatch.setattr(hygon, "RECORDS", str(kfd / "vgpu"))
        monkeypatch.setattr(checks, "PROCESSES", str(kfd / "proc"))
        library = native / "libvgpu-test.so"
        one, other = (
            slices.make_slice(found[0], library, tmp_path / name, first)
            for name, first in (("one", 0), ("other", 15))
        )
        return Bench(found[0], one, other)

    return make


def reason(check: Callable[[Bench], str], bench: Bench) -> str:
    """The reason why a check fails."""
    with pytest.raises(FailedError) as raised:
        check(bench)
    return str(raised.value)


def test_without_a_card_nothing_is_possible_and_the_status_says_so() -> None:
    require(not Path("/dev/kfd").exists(), "needs a machine without a card")
    status, results = table({"PATH": "/usr/bin:/bin"})
    assert status == 1
    assert results.pop("kernel, driver") == PASS
    assert results == {"all others": IMPOSSIBLE}


def test_what_can_be_seen_over_a_simulated_driver_passes(simulated: Mapping[str, str]) -> None:
    status, results = table(simulated)
    assert status == 0
    assert {name for name, result in results.items() if result != PASS} <= NOT_SIMULATED


def test_a_library_that_holds_nothing_fails(simulated: Mapping[str, str], native: Path) -> None:
    check = "memory limit, HIP"
    status, results = table(simulated, check, "--library", native / "libsimkfd.so")
    assert (status, results[check]) == (1, FAIL)


@pytest.mark.parametrize("mask", [0x7FFF, 0x7FFF << 15])
@pytest.mark.parametrize("vendor", [False, True])
def test_the_slices_files_are_the_agents(tmp_path: Path, mask: int, vendor: bool) -> None:
    first = 15 if mask & 1 == 0 else 0
    root = tmp_path if vendor else None
    made = slices.make_slice(CARD, Path("libvgpu.so"), tmp_path / "slice", first, root)
    (limit,) = rocm.parse((made.folder / "vgpu.conf").read_text()).cards
    assert limit.mem_bytes == slices.LIMIT_MIB << 20
    assert limit.family == rocm.RocmLimit(14290, 128, 60, 1, paired=False, mask=mask, vendor_masks=vendor)
    region.create(tmp_path / "usage")
    assert (made.folder / "usage").read_bytes() == (tmp_path / "usage").read_bytes()


@pytest.mark.parametrize("mask", [0x7FFF << 15, 0xFF << 60])
def test_the_vdev_files_are_the_agents(mask: int) -> None:
    limit = rocm.RocmLimit(14290, 128, 120, 1, paired=False, mask=mask)
    card = CardLimit("D", CARD.pci, "Z100", "hygon.com/dcu-mem:1", slices.LIMIT_MIB << 20, limit)
    expected = render(card, vdev_id=3, pipe_id=19, device_id=1)
    assert vdev.text(CARD, mask, number=3, device=1, pipe=19) == expected


def test_each_check_of_hygons_cards_answers_over_the_simulated_driver(
    machine: Callable[[int], Machine],
) -> None:
    status, found = rows(machine(1).environment, *hygon.CHECKS, "cu_occupancy")
    results = {row["check"]: (row["result"], row["detail"]) for row in found if row["card"]}
    assert status == 0, results
    assert results.pop("vdev: two cards") == (IMPOSSIBLE, "needs two cards of Hygon's")
    assert {result for result, _ in results.values()} == {PASS}, results
    details = {name: detail for name, (_, detail) in results.items()}
    assert details["vdev: masks"].endswith("all ones: HIP accepts it, ioctl refuses it (EINVAL)")
    assert "limit 1024 MiB; gone after" in details["vdev: record"]
    assert details["vdev: later pipes"] == "pipes 4, 5, 19 work"
    assert details["vdev: memory"].startswith("each process")
    assert "refused before (finds no device)" in details["vdev: restart"]
    assert details["cu_occupancy"] == "15 to 15 with 15 of 60 units"


def test_cards_of_amd_have_no_rows_of_hygons(simulated: Mapping[str, str]) -> None:
    _, results = table(simulated, "vdev: masks")
    assert results["vdev: masks"] == IMPOSSIBLE


def test_a_program_whose_own_mask_is_refused_fails(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source, target = Path(__file__).parent / "refusing.c", tmp_path / "refusing.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", target, source, "-ldl"], check=True)
    made = bench(machine(1))
    monkeypatch.setenv("LD_PRELOAD", f"{target}:{os.environ['LD_PRELOAD']}")
    assert "EPERM" in reason(hygon.masks, made)


def test_a_record_with_another_limit_fails(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(machine(1))
    monkeypatch.setattr(hygon, "LIMIT_MIB", 77)  # the slice's file still has 1 GiB
    assert reason(hygon.record, made).endswith(f"limit {1 << 30}, the file has {77 << 20}")


def test_a_slice_without_a_record_fails(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = bench(machine(1))
    (tmp_path / "vgpu").mkdir()
    monkeypatch.setattr(hygon, "RECORDS", str(tmp_path / "vgpu"))
    assert reason(hygon.record, made).endswith("there are: none")


def test_a_driver_without_records_cannot_be_asked_for_one(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = bench(machine(1))
    monkeypatch.setattr(hygon, "RECORDS", str(tmp_path / "vgpu"))
    with pytest.raises(ImpossibleError, match="the driver has no"):
        hygon.record(made)


def test_a_pipe_that_the_driver_refuses_fails(machine: Callable[[int], Machine], bench: Benches) -> None:
    card = machine(1)
    made = bench(card)
    with card.taken(0, 5):
        assert reason(hygon.later_pipes, made) == "with pipe 5 HIP finds no device"


def test_a_limit_of_memory_that_does_not_hold_fails(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(machine(1))
    monkeypatch.setattr(vdev, "LIMIT_MIB", 4096)
    assert reason(hygon.memory, made) == "a process got 1025 MiB, the file has 1024"


def test_a_pipe_that_rests_longer_than_the_agent_waits_fails(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIMKFD_REST_SECONDS", "600")
    made = bench(machine(1))
    monkeypatch.setattr(hygon, "REST_SECONDS", 0)
    assert reason(hygon.restart, made) == "another slice with the pipe, 0 s later, finds no device"


def test_slices_of_two_cards_in_a_container(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = machine(2)
    made = bench(two)
    assert hygon.several_cards(made) == "0000:19:00.0: 15 units, 1024 MiB, 0000:21:00.0: 15 units, 1024 MiB"
    monkeypatch.setattr(hygon, "_CARDS_PIPE", 7)
    with two.taken(1, 7):
        assert (
            reason(hygon.several_cards, Bench(made.card, made.other, made.one))
            == "0000:21:00.0 finds no device"
        )


def test_a_figure_of_busy_units_that_is_always_0_fails(
    machine: Callable[[int], Machine], bench: Benches
) -> None:
    card = machine(1)
    card.busy_units = 0
    assert reason(checks.occupancy, bench(card)).startswith("always 0")


def test_masks_that_hold_up_another_slice_fail(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(machine(1))
    monkeypatch.setattr(checks, "SHORT_KERNELS", 50)
    monkeypatch.setattr(checks, "MASK_CHANGES", 30)
    monkeypatch.setattr(checks, "STALLED", 0)
    assert "times as long (of 3 pairs" in reason(checks.changed_masks, made)


def test_vdev_files_need_the_makers_folder_a_card_of_its_own_and_root(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = machine(1)
    made = bench(card)
    stranger = card.folder / "etc/vdev/vdev3.conf"
    stranger.parent.mkdir(parents=True)
    stranger.write_text(f"PciBusId: {made.card.pci}\n")
    with pytest.raises(ImpossibleError, match=r"vdev3\.conf has a part of the card"):
        vdev.check(made.card)
    (card.folder / "opt").rename(card.folder / "gone")
    with pytest.raises(ImpossibleError, match="no /opt/hyhal"):
        vdev.check(made.card)
    monkeypatch.setattr(vdev, "MAKERS_FOLDERS", ("usr",))
    monkeypatch.delenv("SIMKFD_ROOT")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ImpossibleError, match="needs root"):
        vdev.check(made.card)


def test_on_a_real_machine_the_vdev_file_is_mounted_for_the_program(
    machine: Callable[[int], Machine], bench: Benches, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(machine(1))
    monkeypatch.delenv("SIMKFD_ROOT")

    def body() -> None:
        for folder in ("/opt", "/etc"):
            subprocess.run(["mount", "-t", "tmpfs", "none", folder], check=True)
        Path("/opt/hyhal").mkdir()
        assert hygon.later_pipes(made) == "pipes 4, 5, 19 work"
        assert not Path("/etc/vdev").exists()

    with_own_mounts(body)


@pytest.fixture
def cgroup(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dmem.Group:
    """A folder that stands for a cgroup with dmem."""
    made = dmem.Group(tmp_path, "card")
    monkeypatch.setattr(dmem, "group", lambda _card: contextlib.nullcontext(made))
    monkeypatch.setattr(dmem, "RECLAIM_SECONDS", 0)
    return made


@pytest.mark.parametrize("check", [dmem.limit, dmem.pool])
def test_a_limit_of_the_kernels_holds_where_the_card_holds_no_more(
    machine: Callable[[int], Machine], bench: Benches, cgroup: dmem.Group, check: Callable[[Bench], str]
) -> None:
    made = bench(machine(1))
    (cgroup.path / "dmem.current").write_text(f"other 1\ncard {200 << 20}\n")
    assert check(made).startswith("512 MiB beyond 256 given, 200 of them in the card")
    assert (cgroup.path / "dmem.max").read_text() == f"card {256 << 20}"
    (cgroup.path / "dmem.current").write_text(f"card {512 << 20}\n")
    assert reason(check, made) == "512 MiB are held, 256 allowed"


def test_a_limit_below_the_use_keeps_or_takes_memory_but_gives_no_more(
    machine: Callable[[int], Machine], bench: Benches, cgroup: dmem.Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench(machine(1))
    for held, text in ((512, "512 MiB stay in the card"), (250, "taken back to 250 MiB")):
        (cgroup.path / "dmem.current").write_text(f"card {held << 20}\n")
        assert text in dmem.lowered(made)
    seen = iter([512, 512, 576])
    monkeypatch.setattr(dmem.Group, "held_mib", lambda _: next(seen))
    assert reason(dmem.lowered, made).endswith("64 MiB more were given in the card")


@pytest.mark.parametrize(
    "module", sorted(Path(slices.__file__).parent.glob("*.py")), ids=lambda path: path.name
)
def test_it_is_python_3_8(module: Path) -> None:
    ast.parse(module.read_text(), feature_version=(3, 8))
