"""Cards as sysfs shows them, on simulated machines of every shape, whole and broken."""

from pathlib import Path

import pytest

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.core.contract.cards import Card
from device_plugin.core.contract.masks import unit_mask
from device_plugin.node.vendors.hygon import Hygon
from device_plugin.node.vendors.kfd_processes import KfdCard
from device_plugin.node.vendors.port import CardSlice, FoundCard, Scan
from device_plugin.node.vendors.rocm import KERNEL_QUEUES, TOPOLOGY, Rocm
from hack.simulated.cards import SimulatedMachine
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


def scan(machine: Path) -> Scan[KfdCard]:
    """What both vendors find, in the order of the PCI addresses."""
    scans = [vendor(HostMachine(machine)).scan() for vendor in (Hygon, Rocm)]
    cards = sorted((card for found in scans for card in found.cards), key=lambda card: card.pci)
    return Scan(tuple(cards), tuple(dict.fromkeys(problem for found in scans for problem in found.problems)))


def shared(found: FoundCard[KfdCard]) -> Card:
    """The card as discover would share it."""
    groups = found.compute_units // found.group_units
    return Card(
        found.uuid, "amd.com/gpu", found.model, found.pci, found.mem_mib, 16, found.compute_units, groups,
        found.group_units, found.max_slices, found.numa, healthy=True,
    )  # fmt: skip


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    sim.build(sim.parse(CARDS), tmp_path)
    return tmp_path


def test_cards_of_one_hive_are_told_from_those_without(tmp_path: Path) -> None:
    entry = "{preset: amd-304cu-192gib, count: 2"
    sim.build(sim.parse(f"version: v1\ncards: [{entry}, hive: 27}}, {entry}}}]"), tmp_path)
    assert [card.hive for card in scan(tmp_path).cards] == ["1b", "1b", "", ""]


def test_a_card_is_what_its_driver_says_of_it(machine: Path) -> None:
    found = scan(machine)
    assert not found.problems
    shapes = [(c.compute_units, c.group_units, c.max_slices, c.mem_mib, c.numa) for c in found.cards]
    assert shapes == [
        (60, 1, 4, 16368, 0),
        (304, 8, 16, 196592, 1),
        (80, 2, 16, 16368, 0),
    ]
    assert [(c.payload.xcc, c.payload.paired) for c in found.cards] == [(1, False), (8, False), (1, True)]
    assert not any(c.unfit for c in found.cards)
    assert [c.pci for c in found.cards] == ["0000:19:00.0", "0000:21:00.0", "0000:29:00.0"]
    assert not any(c.fault for c in found.cards)


@pytest.mark.parametrize(
    ("gfx", "kernel_queues", "slices"),
    [
        ("11.0.0", "-1", 16),
        ("12.0.0", "-1", 2),
        ("12.0.1", "8", 2),
        ("12.0.1", None, 2),
        ("12.0.1", "0", 16),
    ],
)
def test_a_card_with_few_queues_has_two_slices_unless_the_kernel_leaves_it_all_queues(
    tmp_path: Path, gfx: str, kernel_queues: str | None, slices: int
) -> None:
    sim.build(sim.parse(f"version: v1\ncards: [{{preset: amd-gfx1201-64cu-16gib, gfx: {gfx}}}]"), tmp_path)
    if kernel_queues is not None:
        file = tmp_path / KERNEL_QUEUES
        file.parent.mkdir(parents=True)
        file.write_text(f"{kernel_queues}\n")
    assert [card.max_slices for card in scan(tmp_path).cards] == [slices]


def test_an_identity_survives_another_order_of_enumeration(machine: Path) -> None:
    before = {c.pci: c.uuid for c in scan(machine).cards}
    nodes = machine / TOPOLOGY
    (nodes / "1").rename(nodes / "7")
    assert {c.pci: c.uuid for c in scan(machine).cards} == before


def test_a_card_without_a_unique_id_is_named_by_its_pci_address(machine: Path) -> None:
    file = machine / TOPOLOGY / "1/properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith("unique_id")]
    file.write_text("\n".join([*lines, "unique_id 0", ""]))
    assert scan(machine).cards[0].uuid.endswith("0000:19:00.0")


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
    found = scan(machine)
    assert [c.pci for c in found.cards] == ["0000:21:00.0", "0000:29:00.0"]
    (problem,) = found.problems
    assert f"/{TOPOLOGY}/1" in problem


def test_a_card_with_an_uncorrectable_error_is_sick_until_it_is_gone(machine: Path) -> None:
    uuid = scan(machine).cards[0].uuid
    sim.set_health(machine, uuid, ok=False)
    assert [c.fault for c in scan(machine).cards] == ["uncorrectable memory errors (RAS): 1", "", ""]
    sim.set_health(machine, uuid, ok=True)
    assert not any(c.fault for c in scan(machine).cards)


def test_a_card_without_a_pci_device_is_sick(machine: Path) -> None:
    (machine / "sys/bus/pci/devices/0000:21:00.0/vendor").unlink()
    assert [c.fault for c in scan(machine).cards] == ["", "its PCI device is gone", ""]


def test_a_card_that_fell_off_the_bus_is_sick(machine: Path) -> None:
    (machine / TOPOLOGY / "2/gpu_id").write_text("0\n")
    assert [c.fault for c in scan(machine).cards] == ["", "its driver gives it no gpu_id", ""]


@pytest.mark.parametrize("text", ["", "much\n"])
def test_memory_use_that_cannot_be_read_is_unknown_not_zero(machine: Path, text: str) -> None:
    hygon = Hygon(HostMachine(machine))
    (found,) = hygon.scan().cards
    card = shared(found)
    assert hygon.usage(card, found.payload).used_bytes == 0
    (machine / f"sys/bus/pci/devices/{card.pci}/mem_info_vram_used").write_text(text)
    assert hygon.usage(card, found.payload).used_bytes is None


@pytest.mark.parametrize(("text", "ratio"), [("37\n", 0.37), ("0\n", 0.0), ("101\n", 1.0), ("busy\n", None)])
def test_how_busy_a_card_is(machine: Path, text: str, ratio: float | None) -> None:
    hygon = Hygon(HostMachine(machine))
    (found,) = hygon.scan().cards
    card = shared(found)
    assert hygon.usage(card, found.payload).busy_ratio is None, "its driver does not say"
    (machine / f"sys/bus/pci/devices/{card.pci}/gpu_busy_percent").write_text(text)
    assert hygon.usage(card, found.payload).busy_ratio == ratio


def test_a_container_gets_the_device_nodes_of_its_own_card_only(machine: Path) -> None:
    rocm = Rocm(SimulatedMachine(machine))
    found = rocm.scan().cards[0]
    files = rocm.files([CardSlice(shared(found), found.payload, 1 << 30, (1, 2), None, "?")])
    minor = found.payload.render_minor
    assert [node.path for node in files.devices] == ["/dev/kfd", f"/dev/dri/renderD{minor}"]
    assert all(Path(node.host).exists() for node in files.devices)
    (limit,) = files.limits
    assert (limit.uuid, limit.mem_bytes) == (found.uuid, 1 << 30)
    assert limit.family.values()["mask"] == f"{unit_mask((1, 2), 8):#x}"


def test_a_slice_of_hygons_has_its_id_in_a_file_of_its_own(machine: Path) -> None:
    hygon = Hygon(SimulatedMachine(machine))
    (found,) = hygon.scan().cards
    files = hygon.files([CardSlice(shared(found), found.payload, 1 << 30, (0,), 3, "?")])
    assert [hygon.container_path(name) for name in files.texts] == ["/etc/vdev/docker/vdev0.conf"]
    assert hygon.container_path("vgpu.conf") is None
    assert hygon.ids.claimed([found.uuid], files.texts.get) == {found.uuid: 3}
    assert hygon.ids.claimed([found.uuid], {"vdev0.conf": "rubbish"}.get) == {}


@pytest.mark.parametrize(
    ("vendor", "shape", "why"),
    [
        (0x1D94, {"simd_count": 129 * 4, "simd_per_cu": 4}, "its vendor's slices hold at most 128"),
        (
            0x1002,
            {"simd_count": 1025 * 4, "simd_per_cu": 4},
            "1025 compute units are not between one core group's 1 and 1024",
        ),
        (
            0x1002,
            {"simd_count": 4, "simd_per_cu": 4, "num_xcc": 8},
            "1 compute units are not between one core group's 8",
        ),
        (0x1002, {"num_xcc": 4_000_000_000}, "one core group's 4000000000"),
        (0x1002, {"num_xcc": 17}, "is not between 1 and 16"),
        (0x1002, {"drm_render_minor": 99999999}, "is not between 0 and"),
    ],
)
def test_a_card_that_no_slice_can_express_says_so(
    machine: Path, vendor: int, shape: dict[str, int], why: str
) -> None:
    file = machine / TOPOLOGY / "1/properties"
    values = dict(line.split(" ") for line in file.read_text().splitlines())
    values |= {name: str(value) for name, value in {"vendor_id": vendor, **shape}.items()}
    file.write_text("".join(f"{name} {value}\n" for name, value in values.items()))
    assert why in scan(machine).cards[0].unfit


def test_no_topology_at_all_is_no_card_and_no_problem(tmp_path: Path) -> None:
    assert scan(tmp_path).cards == ()
