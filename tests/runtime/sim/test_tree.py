from pathlib import Path

import pytest

from vgpu_runtime import sim

NODES = Path("sys/devices/virtual/kfd/kfd/topology/nodes")


def built(folder: Path, cards: str) -> list[sim.SimCard]:
    described = sim.parse(f"version: v1\ncards: {cards}")
    sim.build(described, folder)
    return described


def properties(path: Path) -> dict[str, int]:
    return {name: int(value) for name, value in map(str.split, path.read_text().splitlines())}


def test_gpu_nodes_follow_the_cpu_node_and_name_their_card(tmp_path: Path) -> None:
    cards = built(tmp_path, "[{preset: amd-304cu-192gib, numa: 1}, {preset: hygon-60cu-16gib}]")
    assert sorted(path.name for path in (tmp_path / NODES).iterdir()) == ["0", "1", "2"]
    assert (tmp_path / NODES / "0/gpu_id").read_text() == "0\n"
    for node, card in enumerate(cards, start=1):
        shown = properties(tmp_path / NODES / str(node) / "properties")
        bank = properties(tmp_path / NODES / str(node) / "mem_banks/0/properties")
        assert (tmp_path / NODES / str(node) / "gpu_id").read_text() == f"{card.gpu_id}\n"
        assert shown["simd_count"] // shown["simd_per_cu"] == card.compute_units
        assert (shown["num_xcc"], shown["unique_id"]) == (card.xcc, card.unique_id)
        assert shown["array_count"] * shown["cu_per_simd_array"] >= card.compute_units
        assert (shown["vendor_id"], shown["drm_render_minor"]) == (card.vendor, 127 + node)
        assert bank["size_in_bytes"] == card.memory_mib << 20


def test_location_is_bus_slot_and_function(tmp_path: Path) -> None:
    built(tmp_path, "[{preset: amd-60cu-16gib, pci: '0002:1a:1f.3'}]")
    shown = properties(tmp_path / NODES / "1/properties")
    assert (shown["domain"], shown["location_id"]) == (2, 0x1A << 8 | 0x1F << 3 | 3)


def test_rdna_counts_units_by_two_simds(tmp_path: Path) -> None:
    built(tmp_path, "[{preset: amd-rdna-80cu-16gib}]")
    shown = properties(tmp_path / NODES / "1/properties")
    assert (shown["simd_count"], shown["simd_per_cu"], shown["wave_front_size"]) == (160, 2, 32)
    assert shown["gfx_target_version"] == 100300


@pytest.mark.parametrize("kernel", sim.Kernel)
def test_only_the_newest_kernel_shows_how_large_a_save_area_is(tmp_path: Path, kernel: sim.Kernel) -> None:
    sim.build(sim.parse("version: v1\ncards: [{preset: amd-104cu-64gib}]"), tmp_path, kernel)
    shown = properties(tmp_path / NODES / "1/properties")
    shows = {name: shown[name] for name in ("cwsr_size", "ctl_stack_size") if name in shown}
    expected = {"cwsr_size": 0x3C91000, "ctl_stack_size": 0x9000}
    assert shows == (expected if kernel is sim.Kernel.EXPORTED else {})


def test_links_go_both_ways_between_the_cpu_and_each_card(tmp_path: Path) -> None:
    built(tmp_path, "[{preset: hygon-60cu-16gib, count: 3}]")
    links = [properties(path) for path in (tmp_path / NODES).glob("*/io_links/*/properties")]
    ends = {(link["node_from"], link["node_to"]) for link in links}
    assert ends == {(0, 1), (0, 2), (0, 3), (1, 0), (2, 0), (3, 0)}
    assert properties(tmp_path / NODES / "0/properties")["io_links_count"] == 3


def test_drm_leads_from_a_render_node_to_the_pci_device(tmp_path: Path) -> None:
    foreign, card = built(tmp_path, "[{preset: nvidia}, {preset: hygon-60cu-16gib}]")
    device = tmp_path / "sys/class/drm/renderD129/device"
    assert device.resolve().name == card.pci
    assert device.resolve() == (tmp_path / "sys/class/drm/card1/device").resolve()
    assert device.resolve() == (tmp_path / "sys/bus/pci/devices" / card.pci).resolve()
    assert (device / "vendor").read_text() == "0x1d94\n"
    assert (device / "unique_id").read_text() == f"{card.unique_id:016x}\n"
    assert int((device / "mem_info_vram_total").read_text()) == card.memory_mib << 20
    assert int((device / "mem_info_vram_used").read_text()) == 0
    assert foreign.vendor == 0x10DE


def test_a_foreign_card_is_in_drm_and_not_in_kfd(tmp_path: Path) -> None:
    foreign, card = built(tmp_path, "[{preset: nvidia}, {preset: hygon-60cu-16gib}]")
    assert (tmp_path / "sys/class/drm/card0/device/vendor").read_text() == "0x10de\n"
    ids = {(node / "gpu_id").read_text() for node in (tmp_path / NODES).iterdir()}
    assert ids == {"0\n", f"{card.gpu_id}\n"}
    assert str(foreign.gpu_id) not in (tmp_path / "driver.conf").read_text()


def test_health_is_the_count_of_uncorrectable_errors(tmp_path: Path) -> None:
    first, second = built(tmp_path, "[{preset: hygon-60cu-16gib, count: 2}]")
    counts = [tmp_path / f"sys/class/drm/card{index}/device/ras/umc_err_count" for index in (0, 1)]
    sim.set_health(tmp_path, f"GPU-{second.unique_id:016x}", ok=False)
    assert [count.read_text() for count in counts] == ["ue: 0\nce: 0\n", "ue: 1\nce: 0\n"]
    sim.set_health(tmp_path, f"{second.unique_id:016X}", ok=True)
    assert counts[1].read_text() == "ue: 0\nce: 0\n"
    with pytest.raises(LookupError, match="ffff"):
        sim.set_health(tmp_path, "ffff", ok=False)
    assert first.unique_id != second.unique_id
