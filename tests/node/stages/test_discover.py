"""A card that says nonsense of itself, or is nobody's, costs nobody else anything."""

import logging
from pathlib import Path

import pytest

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.core.cards import Inventory
from device_plugin.node.slices.tickets import resources
from device_plugin.node.stages.discover import Discovery
from device_plugin.node.vendors.rocm import TOPOLOGY
from tests.builders.cards import CARDS
from tests.node.parts import PREFIXES, discovered, vendors
from vgpu_runtime import sim


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("properties", "simd_count 240", "simd_count ²"),
        ("properties", "simd_count 240", f"simd_count {'9' * 5000}"),
        ("properties", "simd_count 240", "simd_count 99999999"),
        ("properties", "simd_per_cu 4", "simd_per_cu 0"),
        ("properties", "num_xcc 1", "num_xcc 4000000000"),
        ("properties", "drm_render_minor 128", "drm_render_minor 99999999"),
        ("name", "", "\x01\x02"),
        ("name", "", "x" * 300),
        ("gpu_id", "", "9999999"),
        ("mem_banks/0/properties", "size_in_bytes 17163091968", f"size_in_bytes {1 << 62}"),
    ],
)
def test_one_absurd_file_costs_one_card(tmp_path: Path, file: str, old: str, new: str) -> None:
    sim.build(sim.parse(CARDS), tmp_path / "machine")
    path = tmp_path / "machine" / TOPOLOGY / "1" / file
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new) if old else new + text)
    cards = tuple(discovered(tmp_path / "machine"))
    assert [card.pci for card in cards] == ["0000:21:00.0"]
    assert resources(cards)
    assert Inventory.decode(Inventory(cards).encode()).cards == cards


def test_a_driver_that_names_no_domain_has_one(tmp_path: Path) -> None:
    sim.build(sim.parse(CARDS), tmp_path / "machine")
    path = tmp_path / "machine" / TOPOLOGY / "1/properties"
    path.write_text(path.read_text().replace("domain 0\n", ""))
    assert discovered(tmp_path / "machine")[0].pci == "0000:19:00.0"


def test_a_card_of_a_vendor_that_we_do_not_know_is_named_at_first_sight(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sim.build(sim.parse("version: v1\ncards: [{preset: amd-304cu-192gib}, {preset: nvidia}]"), tmp_path)
    file = tmp_path / TOPOLOGY / "1/properties"
    file.write_text(file.read_text().replace(f"vendor_id {0x1002}", f"vendor_id {0x1E3E}"))
    families = vendors(HostMachine(tmp_path))
    discovery = Discovery("n1", families, {**PREFIXES, "1e3e": "example.com/gpu"}, 1024, ())
    assert [discovery.scan() for _ in range(3)] == [()] * 3
    assert caplog.messages == ["card 0000:19:00.0 is of vendor 1e3e: not shared"]
