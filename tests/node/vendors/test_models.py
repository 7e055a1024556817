"""The model that a card of a driver's tree gets."""

from pathlib import Path

import pytest

from device_plugin.node.vendors import models
from device_plugin.node.vendors.families import FAMILIES, Family
from device_plugin.node.vendors.rocm import PCI_DEVICES, TOPOLOGY
from tests.node.vendors.test_kfd import scan
from vgpu_runtime import sim
from vgpu_runtime.sim.cards import PRESETS


def model(folder: Path, card: str, *, chip: str, revision: str = "", product: str = "") -> str:
    """The model of the only card, a preset's with these keys changed, whose driver says these names."""
    sim.build(sim.parse(f"version: v1\ncards:\n  - {{{card}}}\n"), folder)
    (folder / TOPOLOGY / "1/name").write_text(f"{chip}\n")
    device = folder / PCI_DEVICES / "0000:19:00.0"
    for name, text in (("revision", revision), ("product_name", product)):
        if text:
            (device / name).write_text(f"{text}\n")
    (found,) = scan(folder).cards
    return found.model


MI300X = "preset: amd-304cu-192gib"
UNKNOWN = "preset: amd-304cu-192gib, device: 1, gfx: 9.4.2"


@pytest.mark.parametrize(
    ("card", "chip", "revision", "product", "expected"),
    [
        (MI300X, "ip discovery", "", "", "MI300X"),
        (MI300X, "ip discovery", "0x00", "AMD Instinct MI300X OAM", "MI300X"),
        ("preset: amd-60cu-16gib", "vega20", "0x02", "", "MI50/MI60"),
        ("preset: amd-60cu-16gib", "vega20", "0x06", "", "Radeon Pro VII"),
        ("preset: amd-rdna-80cu-16gib, device: 0x744c", "ip discovery", "0xc8", "", "RX 7900 XTX"),
        ("preset: amd-rdna-80cu-16gib, device: 0x744c", "ip discovery", "what", "", "RX 7900 XT/RX 7900 XTX"),
        (UNKNOWN, "new_chip", "", "", "new_chip"),
        (UNKNOWN, "ip discovery", "", "AMD Instinct MI999", "AMD Instinct MI999"),
        (UNKNOWN, "ip discovery", "", "MI999,MI998", "gfx942"),
        (UNKNOWN, "ip discovery", "", "x" * 64, "gfx942"),
        (UNKNOWN, "ip discovery", "", "", "gfx942"),
        ("preset: hygon-60cu-16gib", "ip discovery", "", "", "Z100"),
        ("preset: hygon-60cu-16gib, device: 0x6210", "", "", "", "K100_AI"),
        ("preset: hygon-60cu-16gib, device: 1, gfx: 9.3.6", "ip discovery", "", "", "BW"),
        ("preset: hygon-60cu-16gib, device: 1, gfx: 9.5.0", "ip discovery", "", "", "gfx950"),
    ],
)
def test_the_model_is_named_as_people_know_it(
    tmp_path: Path, card: str, chip: str, revision: str, product: str, expected: str
) -> None:
    assert model(tmp_path, card, chip=chip, revision=revision, product=product) == expected


def test_a_card_that_nothing_names_is_its_device_id() -> None:
    assert (models.AMD.known(1, None), models.AMD.of_target(0)) == ("", "")


@pytest.mark.parametrize("family", FAMILIES)
def test_each_listed_model_is_known_by_its_ids(family: Family) -> None:
    found = list(family.MODELS.listed())
    assert found
    assert all(family.MODELS.known(device, revision) == name for device, revision, name in found)


def test_a_target_is_written_as_the_compiler_writes_it() -> None:
    assert [models.AMD.of_target(v) for v in (90010, 90402, 110000)] == [
        "gfx90a",
        "gfx942",
        "gfx1100",
    ]


@pytest.mark.parametrize("preset", [name for name, card in PRESETS.items() if card.kfd])
def test_simulated_cards_have_ids_of_the_tables(preset: str) -> None:
    card = PRESETS[preset]
    (family,) = [family for family in FAMILIES if card.vendor == family.PCI_VENDOR]
    assert family.MODELS.known(card.device, None)
