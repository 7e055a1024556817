"""Cards as sysfs shows them, on simulated machines of every shape, whole and broken."""

from pathlib import Path

import pytest

from device_plugin.adapters.cards.kfd import TOPOLOGY, KfdCards
from device_plugin.adapters.cards.simulated import SimulatedCards
from vgpu_runtime import sim

CARDS = """
version: v1
cards:
  - preset: hygon-60cu-16gib
  - preset: amd-304cu-192gib
    numa: 1
  - preset: amd-rdna-80cu-16gib
  - preset: nvidia
"""


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    sim.build(sim.parse(CARDS), tmp_path)
    return tmp_path


def test_a_card_is_what_its_driver_says_of_it(machine: Path) -> None:
    scan = KfdCards(machine).scan()
    assert not scan.problems
    shapes = [(c.vendor, c.compute_units, c.xcc, c.paired, c.mem_mib, c.numa) for c in scan.cards]
    assert shapes == [
        (0x1D94, 60, 1, False, 16368, 0),
        (0x1002, 304, 8, False, 196592, 1),
        (0x1002, 80, 1, True, 16368, 0),
    ]
    assert [c.pci for c in scan.cards] == ["0000:19:00.0", "0000:21:00.0", "0000:29:00.0"]
    assert all(c.healthy for c in scan.cards)


def test_an_identity_survives_another_order_of_enumeration(machine: Path) -> None:
    before = {c.pci: c.uuid for c in KfdCards(machine).scan().cards}
    nodes = machine / TOPOLOGY
    (nodes / "1").rename(nodes / "7")
    assert {c.pci: c.uuid for c in KfdCards(machine).scan().cards} == before


def test_a_card_without_a_unique_id_is_named_by_its_pci_address(machine: Path) -> None:
    file = machine / TOPOLOGY / "1/properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("unique_id")]
    file.write_text("\n".join([*lines, "unique_id 0", ""]))
    assert KfdCards(machine).scan().cards[0].uuid.endswith("0000:19:00.0")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("properties", ""),
        ("properties", None),
        ("properties", "simd_count lots\n"),
        ("properties", "simd_count 240\nsimd_per_cu 4\n"),
        ("gpu_id", None),
        ("gpu_id", "what\n"),
        ("mem_banks/0/properties", ""),
        ("mem_banks/0/properties", "heap_type 0\nsize_in_bytes 17163091968\n"),
        ("mem_banks/0/properties", "\x00\xff"),
    ],
)
def test_a_broken_card_is_named_and_the_others_work(machine: Path, file: str, text: str | None) -> None:
    path = machine / TOPOLOGY / "1" / file
    path.unlink()
    if text is not None:
        path.write_bytes(text.encode("latin-1"))
    scan = KfdCards(machine).scan()
    assert [c.pci for c in scan.cards] == ["0000:21:00.0", "0000:29:00.0"]
    (problem,) = scan.problems
    assert str(machine / TOPOLOGY / "1") in problem


def test_a_card_with_an_uncorrectable_error_is_sick_until_it_is_gone(machine: Path) -> None:
    cards = KfdCards(machine)
    uuid = cards.scan().cards[0].uuid
    sim.set_health(machine, uuid, ok=False)
    assert [c.healthy for c in cards.scan().cards] == [False, True, True]
    sim.set_health(machine, uuid, ok=True)
    assert all(c.healthy for c in cards.scan().cards)


def test_a_card_that_fell_off_the_bus_is_sick(machine: Path) -> None:
    (machine / TOPOLOGY / "2/gpu_id").write_text("0\n")
    assert [c.healthy for c in KfdCards(machine).scan().cards] == [True, False, True]


@pytest.mark.parametrize("text", ["", "much\n"])
def test_memory_use_that_cannot_be_read_is_unknown_not_zero(machine: Path, text: str) -> None:
    cards = KfdCards(machine)
    card = cards.scan().cards[0]
    assert cards.used_bytes(card) == 0
    (machine / f"sys/bus/pci/devices/{card.pci}/mem_info_vram_used").write_text(text)
    assert cards.used_bytes(card) is None


@pytest.mark.parametrize(("text", "ratio"), [("37\n", 0.37), ("0\n", 0.0), ("101\n", 1.0), ("busy\n", None)])
def test_how_busy_a_card_is(machine: Path, text: str, ratio: float | None) -> None:
    cards = KfdCards(machine)
    card = cards.scan().cards[0]
    assert cards.busy_ratio(card) is None, "its driver does not say"
    (machine / f"sys/bus/pci/devices/{card.pci}/gpu_busy_percent").write_text(text)
    assert cards.busy_ratio(card) == ratio


def test_a_container_gets_the_device_nodes_of_its_own_card_only(machine: Path) -> None:
    cards = SimulatedCards(machine)
    second = cards.scan().cards[1]
    nodes = cards.devices([second])
    assert [node.path for node in nodes] == ["/dev/kfd", f"/dev/dri/renderD{second.render_minor}"]
    assert all(Path(node.host).exists() for node in nodes)


def test_no_topology_at_all_is_no_card_and_no_problem(tmp_path: Path) -> None:
    assert KfdCards(tmp_path).scan().cards == ()
