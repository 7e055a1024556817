from pathlib import Path

import pytest

from vgpu_runtime import sim


def parse(cards: str) -> list[sim.SimCard]:
    return sim.parse(f"version: v1\ncards: {cards}")


def test_count_makes_cards_that_differ_only_in_identity() -> None:
    first, second = parse("[{preset: hygon-60cu-16gib, count: 2}]")
    assert (first.memory_mib, first.compute_units) == (second.memory_mib, second.compute_units) == (16368, 60)
    assert len({first.unique_id, second.unique_id}) == len({first.pci, second.pci}) == 2
    assert first.gpu_id != second.gpu_id


def test_machines_have_cards_of_their_own() -> None:
    text = "version: v1\ncards: [{preset: hygon-60cu-16gib, count: 16}]"
    ids = [{card.unique_id for card in sim.parse(text, machine)} for machine in range(3)]
    assert len(ids[0] | ids[1] | ids[2]) == 48


def test_any_key_of_a_preset_can_be_given() -> None:
    (card,) = parse(
        "[{preset: amd-60cu-16gib, memoryMiB: 100, numa: 1, uniqueId: 0xabc, pci: '0001:03:1f.2'}]"
    )
    assert (card.memory_mib, card.numa, card.unique_id, card.pci) == (100, 1, 0xABC, "0001:03:1f.2")


def test_a_card_keeps_its_id_when_another_is_added() -> None:
    alone = parse("[{preset: hygon-60cu-16gib}]")[0]
    with_another = parse("[{preset: hygon-60cu-16gib}, {preset: nvidia}]")[0]
    assert alone == with_another


@pytest.mark.parametrize("preset", sorted(sim.PRESETS))
def test_every_preset_makes_a_card(preset: str) -> None:
    assert len(parse(f"[{{preset: {preset}, count: 16}}]")) == 16


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "version: v1"),
        ("version: v2\ncards: []", "version: v1"),
        ("version: v1\ncards: [", "not YAML"),
        ("version: v1\ncards: []", "at least one card"),
        ("version: v1\ncards: {}", "at least one card"),
        ("version: v1\ncrads: []", "unknown key crads; known are version, cards"),
        ("version: v1\ncards: [60cu]", "card 0: must be a map"),
        ("version: v1\ncards: [{preset: gtx}]", "'preset' must be one of"),
        ("version: v1\ncards: [{preset: nvidia}, {preset: nvidia, memory: 1}]", "card 1: unknown key memory"),
        ("version: v1\ncards: [{preset: nvidia, count: 0}]", "'count' must be"),
        ("version: v1\ncards: [{preset: nvidia, count: 17}]", "'count' must be"),
        ("version: v1\ncards: [{preset: nvidia, count: 9}, {preset: nvidia, count: 9}]", "18 cards"),
        ("version: v1\ncards: [{preset: nvidia, count: 2, pci: '0000:01:00.0'}]", "name one card"),
        ("version: v1\ncards: [{preset: nvidia, memoryMiB: 16G}]", "memoryMiB must be of type int"),
        ("version: v1\ncards: [{preset: nvidia, memoryMiB: true}]", "memoryMiB must be of type int"),
        ("version: v1\ncards: [{preset: nvidia, memoryMiB: null}]", "memoryMiB must be of type int"),
        ("version: v1\ncards: [{preset: nvidia, memoryMiB: 0}]", "must be positive"),
        ("version: v1\ncards: [{preset: nvidia, computeUnits: 2000}]", "1 to 1024"),
        ("version: v1\ncards: [{preset: nvidia, xcc: 0}]", "xcc must be"),
        ("version: v1\ncards: [{preset: amd-304cu-192gib, computeUnits: 300}]", "do not divide"),
        ("version: v1\ncards: [{preset: amd-rdna-80cu-16gib, computeUnits: 81}]", "do not divide"),
        ("version: v1\ncards: [{preset: nvidia, gfx: gfx906}]", "gfx must look like"),
        ("version: v1\ncards: [{preset: nvidia, pci: '19:00.0'}]", "pci must look like"),
        ("version: v1\ncards: [{preset: nvidia, vendor: 0x10de0}]", "16-bit"),
        ("version: v1\ncards: [{preset: nvidia, uniqueId: 5}, {preset: nvidia, uniqueId: 5}]", "same unique_id"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_with_what_to_change(text: str, says: str) -> None:
    with pytest.raises(sim.SpecError) as caught:
        sim.parse(text)
    assert says in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(sim.SpecError, match=r"/cards\.yaml: No such file or directory$"):
        sim.load(tmp_path / "cards.yaml")
