"""Samples, and their absence."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import Slice
from device_plugin.node.checks.driver_slices import DriverSlices
from device_plugin.node.checks.kernel_figures import KernelFigures
from device_plugin.node.checks.slice_history import SliceHistory
from device_plugin.node.checks.unaccounted import UnaccountedMemory
from device_plugin.node.slices.writable import PROGRESS, USAGE
from device_plugin.node.stages.meter import Meter
from tests.builders.cards import MEM
from tests.exposed import values
from tests.node.kfd_tree import KfdTree
from tests.node.parts import Host, Parts, Peer
from vgpu_runtime import region, sim

USED, LIMIT = "vgpu_slice_memory_used_bytes", "vgpu_slice_memory_limit_bytes"


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    made = Parts(tmp_path, Peer())
    made.start()
    made.run(4092, (0, 1, 2))
    return made


def samples(parts: Parts, *processes: int) -> dict[tuple[str, ...], float]:
    """All samples, while the container `a` has these processes."""
    host = Host({"uid-a": dict.fromkeys(processes, "")})
    figures = KernelFigures(parts.records, parts.shared, host)
    figures.look()
    unaccounted = UnaccountedMemory(parts.records, parts.writable, parts.shared, figures, parts.peer, 64)
    unaccounted.step()
    driver = DriverSlices(parts.records, parts.shared, figures, parts.peer)
    driver.step()
    history = SliceHistory(parts.records, parts.writable, figures, lambda: parts.now)
    history.look()
    history.sample()
    meter = Meter(
        "n1",
        parts.records,
        parts.writable,
        parts.shared,
        parts.active,
        tuple,
        figures,
        unaccounted,
        driver,
        history,
        float,
    )
    return {
        (name, *labels): value for name, found in values(meter()).items() for labels, value in found.items()
    }


def test_a_slice_and_its_card_are_told_in_base_units(parts: Parts) -> None:
    first, _ = parts.shared().values()
    (parts.machine / f"sys/bus/pci/devices/{first.card.pci}/mem_info_vram_used").unlink()
    found = samples(parts)
    labels = ("n1", parts.uuids[0], "default", "a", "main")
    assert found[(LIMIT, *labels)] == 4092 << 20
    assert found[("vgpu_slice_core_groups", *labels)] == 3
    assert found[(USED, *labels)] == 0
    assert found[("vgpu_card_memory_bytes", "n1", parts.uuids[1])] == 16368 << 20
    card = parts.shared()[parts.uuids[0]].card
    info = ("vgpu_card_info", "n1", card.uuid, "hygon.com/dcu", "Z100", card.pci, str(card.numa), "observe")
    assert found[info] == 1
    assert ("vgpu_card_memory_used_bytes", "n1", card.uuid) not in found, "the driver says nothing"


def test_how_busy_a_card_is_is_told_where_its_driver_says(parts: Parts) -> None:
    first, second = parts.shared().values()
    sim.set_busy(parts.machine, first.card.uuid, 25)
    found = samples(parts)
    assert found["vgpu_card_busy_ratio", "n1", first.card.uuid] == 0.25
    assert ("vgpu_card_busy_ratio", "n1", second.card.uuid) not in found
    assert found["vgpu_card_memory_used_bytes", "n1", first.card.uuid] == 0


GRANTED = [f"vgpu_card_granted_{part}" for part in ("memory_bytes", "core_groups", "slices")]


def granted(parts: Parts, card: int) -> list[float | None]:
    found = samples(parts)
    return [found.get((name, "n1", parts.uuids[card])) for name in GRANTED]


def test_a_card_is_granted_to_bound_pods_whether_they_run_or_not(parts: Parts) -> None:
    assert granted(parts, 0) == [4092 << 20, 3, 1]
    parts.bind("waits", [Slice(parts.uuids[0], 2046, (7, 8)), Slice(parts.uuids[1], 1023, (0,))], {MEM: "3"})
    assert granted(parts, 0) == [6138 << 20, 5, 2]
    assert granted(parts, 1) == [1023 << 20, 1, 1]
    gone = parts.peer.pods["default", "waits"]
    parts.active.change(replace(gone, phase="Failed"), gone=False)
    assert granted(parts, 1) == [0, 0, 0], "it never had files here"


def test_a_card_stays_granted_while_processes_of_an_ended_pod_hold_it(parts: Parts) -> None:
    parts.peer.living.add("uid-a")
    parts.end(parts.peer.pods["default", "a"])
    assert granted(parts, 0) == [4092 << 20, 3, 1]
    parts.peer.living.clear()
    parts.reclaimer.sweep()
    assert granted(parts, 0) == [0, 0, 0]


def test_what_is_granted_is_not_known_before_the_pods_are_listed(parts: Parts) -> None:
    parts.active.synced.clear()
    assert granted(parts, 0) == [None, None, None]


def test_a_grant_that_cannot_be_read_counts_for_nothing(parts: Parts) -> None:
    pod = parts.bind("b", [Slice(parts.uuids[1], 1023, (0,))], {MEM: "1"})
    parts.active.change(replace(pod, annotations={annotations.GRANT: "{"}), gone=False)
    assert granted(parts, 1) == [0, 0, 0]
    assert parts.active.active(pod.uid)


@pytest.mark.parametrize(
    "ruin",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(b"\xff" * region.SIZE),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: path.unlink(),
    ],
)
def test_a_region_that_the_tenant_ruined_has_no_samples(parts: Parts, ruin: Callable[[Path], object]) -> None:
    (record,) = parts.records.all()
    ruin(parts.writable.path(record.key, USAGE))
    names = {name for name, *_ in samples(parts)}
    assert LIMIT in names
    assert not {USED, "vgpu_slice_processes", "vgpu_slice_denied_allocations_total"} & names


def test_progress_is_told_as_the_program_says_it(parts: Parts) -> None:
    labels = ("n1", "default", "a", "main")
    names = ("vgpu_progress_done", "vgpu_progress_goal", "vgpu_checkpoints_total")
    assert not {name for name, *_ in samples(parts)} & set(names), "no news is no sample, never 0"
    path = parts.writable.path(("uid-a", "main"), PROGRESS)
    with path.open("r+b") as file:
        file.write(f"{'120000 1281167':<63}\n{'2':<63}\n".encode())
    found = samples(parts)
    assert [found[(name, *labels)] for name in names] == [120000, 1281167, 2]
    path.write_bytes(b"\xff" * 4096)
    assert not {name for name, *_ in samples(parts)} & set(names)


def test_containers_without_a_place_on_the_tmpfs_are_told(parts: Parts) -> None:
    assert samples(parts)["vgpu_writable_spare_containers", "n1"] == 0


KERNEL, COMPUTE = "vgpu_slice_kernel_memory_bytes", "vgpu_slice_compute_ratio"
UNACCOUNTED = "vgpu_card_memory_unaccounted_bytes"


def test_the_kernels_figures_stand_beside_the_librarys(parts: Parts) -> None:
    first, _ = parts.shared().values()
    labels = ("n1", first.card.uuid, "default", "a", "main")
    found = samples(parts)
    assert not {KERNEL, COMPUTE} & {name for name, *_ in found}, "the driver says nothing"
    assert found[UNACCOUNTED, "n1", first.card.uuid] == 0
    tree = KfdTree(parts.machine)
    tree.use(7, first, mib=512, busy=2)
    found = samples(parts, 7)
    assert (found[(KERNEL, *labels)], found[(USED, *labels)]) == (512 << 20, 0)
    assert found[(COMPUTE, *labels)] == pytest.approx(2 / 3)
    tree.use(7, first, mib=512, busy=60)
    assert samples(parts, 7)[(COMPUTE, *labels)] == 1, "waves of a moment ago are counted as well"


IDLE, OBSERVED, PEAK = (
    "vgpu_slice_idle_seconds",
    "vgpu_slice_observed_seconds",
    "vgpu_slice_memory_peak_bytes",
)


def test_a_slice_is_idle_only_where_its_driver_counts_busy_units(parts: Parts) -> None:
    first, _ = parts.shared().values()
    labels = ("n1", first.card.uuid, "default", "a", "main")
    assert (IDLE, *labels) not in samples(parts), "the driver lists no processes"
    tree = KfdTree(parts.machine)
    tree.use(7, first, mib=512, busy=0)
    found = samples(parts, 7)
    assert [found[(name, *labels)] for name in (IDLE, OBSERVED, PEAK)] == [0, 0, 0]
