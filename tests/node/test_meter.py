"""Samples, and their absence."""

from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.node.meter import Meter
from tests.exposed import values
from tests.node.parts import Parts, Peer
from vgpu_runtime import region, sim

USED, LIMIT = "vgpu_slice_memory_used_bytes", "vgpu_slice_memory_limit_bytes"


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    made = Parts(tmp_path, Peer())
    made.start()
    made.run(4092, (0, 1, 2))
    return made


def samples(parts: Parts) -> dict[tuple[str, ...], float]:
    meter = Meter("n1", parts.records, parts.shared, tuple)
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
    info = ("vgpu_card_info", "n1", card.uuid, "hygon.com/dcu", "Z100", card.pci, str(card.numa))
    assert found[info] == 1
    assert ("vgpu_card_memory_used_bytes", "n1", card.uuid) not in found, "the driver says nothing"


def test_how_busy_a_card_is_is_told_where_its_driver_says(parts: Parts) -> None:
    first, second = parts.shared().values()
    sim.set_busy(parts.machine, first.card.uuid, 25)
    found = samples(parts)
    assert found["vgpu_card_busy_ratio", "n1", first.card.uuid] == 0.25
    assert ("vgpu_card_busy_ratio", "n1", second.card.uuid) not in found
    assert found["vgpu_card_memory_used_bytes", "n1", first.card.uuid] == 0


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
    ruin(parts.records.folder(*record.key) / "region" / "usage")
    names = {name for name, *_ in samples(parts)}
    assert LIMIT in names
    assert not {USED, "vgpu_slice_processes", "vgpu_slice_denied_allocations_total"} & names


def test_a_region_that_the_tenant_has_grown_is_cut_back(parts: Parts) -> None:
    (record,) = parts.records.all()
    path = parts.records.folder(*record.key) / "region" / "usage"
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    parts.reclaimer.trim()
    assert USED in {name for name, *_ in samples(parts)}
    assert path.stat().st_size == region.SIZE
