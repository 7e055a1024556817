"""Cards without a unique id have other names on other nodes."""

from pathlib import Path

import pytest

from device_plugin.node.vendors.rocm import TOPOLOGY
from tests.builders.cards import CARDS
from tests.node.parts import discovered
from vgpu_runtime import sim

ADDRESSES = ["0000:19:00.0", "0000:21:00.0"]
DRIVERS, NEW = [[f"GPU-{node}{pci}" for pci in ADDRESSES] for node in ("", "n1-")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A machine with two cards whose driver knows no unique id."""
    machine = tmp_path / "machine"
    sim.build(sim.parse(CARDS), machine)
    sim.add_driver(machine)
    for path in machine.glob(f"{TOPOLOGY}/*/properties"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("unique_id")]
        path.write_text("\n".join([*lines, "unique_id 0", ""]))
    return tmp_path


def uuids(folder: Path, node: str, *exclude: str) -> list[str]:
    return [card.uuid for card in discovered(folder / "machine", node, *exclude)]


def test_two_nodes_with_equal_cards_name_them_differently_and_always_alike(folder: Path) -> None:
    assert uuids(folder, "n1") == uuids(folder, "n1") == NEW
    assert not set(uuids(folder, "n2")) & set(NEW)


@pytest.mark.parametrize("name", [ADDRESSES[0], DRIVERS[0], NEW[0]])
def test_a_card_is_excluded_by_the_drivers_name_and_ours_and_by_its_address(folder: Path, name: str) -> None:
    assert uuids(folder, "n1", name) == NEW[1:]
