"""A card that says nonsense of itself, or is nobody's, costs nobody else anything."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.core.contract.cards import Inventory
from device_plugin.node.slices.tickets import resources
from device_plugin.node.stages.discover import Discovery
from device_plugin.node.vendors.kfd_processes import KfdCard
from device_plugin.node.vendors.port import FoundCard
from device_plugin.node.vendors.rocm import TOPOLOGY
from tests.builders.cards import CARDS
from tests.node.found import FOUND, Listed, ListedAmd, card, shared
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


def test_a_card_is_cut_as_its_vendor_says() -> None:
    assert (card().units, card().core_groups, card().max_slices, card().family) == (
        16,
        60,
        4,
        "hygon.com/dcu",
    )
    found = replace(FOUND, compute_units=81, group_units=2, max_slices=16)
    (rdna,) = shared(found, vendor=ListedAmd)
    assert (rdna.core_groups, rdna.group_units, rdna.max_slices, rdna.family) == (40, 2, 16, "amd.com/gpu")


@pytest.mark.parametrize(
    ("found", "exclude"),
    [
        (FOUND, ("GPU-1",)),
        (FOUND, ("0000:19:00.0",)),
        (replace(FOUND, unfit="it is too round"), ()),
        (replace(FOUND, mem_mib=1 << 60), ()),
        (replace(FOUND, model="\n"), ()),
    ],
)
def test_cards_that_are_excluded_or_unfit_are_left_out(
    found: FoundCard[KfdCard], exclude: tuple[str, ...]
) -> None:
    other = replace(FOUND, uuid="GPU-2", pci="0000:21:00.0")
    assert [each.uuid for each in shared(found, other, exclude=exclude)] == ["GPU-2"]


def test_an_excluded_card_stays_while_slices_of_it_are_held() -> None:
    discovery = Discovery("n1", [Listed(FOUND)], PREFIXES, 1024, ["0000:19:00.0"])
    (local,) = discovery.scan({"GPU-1"})
    assert (local.card.uuid, local.excluded, local.card.healthy) == ("GPU-1", True, True)
    assert not discovery.scan({"GPU-2"})


def test_cards_of_a_vendor_without_a_prefix_are_left_out_and_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    discovery = Discovery("n1", [Listed(FOUND)], {"1002": "amd.com/gpu"}, 1024, ())
    assert [discovery.scan() for _ in range(3)] == [()] * 3
    assert caplog.messages == ["card 0000:19:00.0 is of vendor 1d94: not shared"]


def test_what_the_cluster_would_not_believe_is_said_with_a_cure(caplog: pytest.LogCaptureFixture) -> None:
    assert not shared(replace(FOUND, pci="0000:21:00.0", model="\n"))
    assert "0000:21:00.0" in caplog.text
    assert "exclude it" in caplog.text


def test_a_card_that_is_sick_at_first_sight_is_shared_as_a_sick_one() -> None:
    assert not card(replace(FOUND, fault="it is hot")).healthy


def test_partitions_with_one_identity_are_not_taken_for_two_cards(caplog: pytest.LogCaptureFixture) -> None:
    discovery = Discovery(
        "n1", [Listed(FOUND, replace(FOUND, payload=replace(FOUND.payload, gpu_id=8)))], PREFIXES, 1024, ()
    )
    assert [local.payload.gpu_id for local in discovery.scan()] == [7]
    assert "SPX" in caplog.text


def test_cards_that_an_inventory_cannot_carry_do_not_take_the_others_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    many = [replace(FOUND, uuid=f"GPU-{i:03}") for i in range(70)]
    long = replace(FOUND, uuid="GPU-" + "x" * 99, model="m" * 250, pci="p" * 250)
    found = shared(long, *many[:3], prefixes={"1d94": "a.com/" + "d" * 240})
    assert [each.uuid for each in found] == ["GPU-000", "GPU-001", "GPU-002"]
    assert len(Inventory.decode(Inventory(tuple(shared(*many))).encode()).cards) == 64
    assert "card GPU-069 at 0000:19:00.0 is not shared: a node shares at most 64" in caplog.text
