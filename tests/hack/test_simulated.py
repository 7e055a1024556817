from pathlib import Path

import pytest

from device_plugin.node.stages.discover import Discovery
from device_plugin.node.vendors.hygon import Hygon
from device_plugin.node.vendors.local_card import LocalCard
from device_plugin.node.vendors.port import CardSlice
from device_plugin.wiring.commands import main
from hack.simulated.cards import SimulatedMachine
from tests.builders.cards import CARDS
from vgpu_runtime import sim


@pytest.fixture
def machine(tmp_path: Path, native: Path) -> Path:
    assert native
    (tmp_path / "cards.yaml").write_text(CARDS)
    return tmp_path / "machine"


def build(machine: Path, *options: str, name: str = "n1") -> int:
    where = ["--cards", str(machine.parent / "cards.yaml"), "--folder", str(machine), "--machine", name]
    return main(["simulate", "build", *where, *options])


def cards(machine: Path) -> dict[str, bool]:
    return {local.card.uuid: local.card.healthy for local in shared(machine)}


def shared(machine: Path) -> tuple[LocalCard, ...]:
    vendors = [Hygon(SimulatedMachine(machine))]
    return Discovery("n1", vendors, {"1d94": "hygon.com/dcu"}, 1024, ()).scan()


def busy(local: LocalCard) -> float | None:
    return local.vendor.usage(local.card, local.payload).busy_ratio


def test_each_machine_has_cards_of_its_own(machine: Path, tmp_path: Path) -> None:
    assert build(machine) == 0
    other = tmp_path / "other"
    assert (
        main(
            [
                "simulate",
                "build",
                "--cards",
                str(tmp_path / "cards.yaml"),
                "--folder",
                str(other),
                "--machine",
                "n2",
            ]
        )
        == 0
    )
    assert len(cards(machine).keys() | cards(other).keys()) == 4


def test_the_same_cards_again_leave_what_is_in_use(machine: Path) -> None:
    build(machine)
    account = machine / "state/vram"
    before = account.stat().st_ino
    assert build(machine) == 0
    assert account.stat().st_ino == before


def test_other_cards_replace_them(machine: Path) -> None:
    build(machine)
    (machine.parent / "cards.yaml").write_text(CARDS.replace("count: 2", "count: 3"))
    assert build(machine) == 0
    assert len(cards(machine)) == 3


def test_another_kernel_makes_the_machine_anew(machine: Path) -> None:
    build(machine)
    properties = machine / "sys/devices/virtual/kfd/kfd/topology/nodes/1/properties"
    assert "cwsr_size" not in properties.read_text()
    assert build(machine, "--kernel", "6.18.4") == 0
    assert "cwsr_size" in properties.read_text()


def test_a_kernel_that_is_not_simulated(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        build(machine, "--kernel", "5.4")
    assert "invalid" in capsys.readouterr().err


def test_a_card_gets_sick_and_well(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(machine)
    first, second = cards(machine)
    assert main(["simulate", "sick", first, "--folder", str(machine)]) == 0
    assert cards(machine) == {first: False, second: True}
    assert main(["simulate", "well", first, "--folder", str(machine)]) == 0
    assert cards(machine) == {first: True, second: True}
    assert f"{first} is well" in capsys.readouterr().out


def test_a_driver_says_how_busy_a_card_is_or_nothing(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(machine)
    first, second = shared(machine)
    uuid = first.card.uuid
    words = ["simulate", "busy", uuid, "--folder", str(machine)]
    assert main([*words, "--percent", "85"]) == 0
    assert (busy(first), busy(second)) == (0.85, None)
    assert main(words) == 0
    assert busy(first) is None
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"{uuid} is 85 % busy", f"{uuid} says no load",
    ]  # fmt: skip


def test_every_mount_of_a_container_is_there_and_the_devices_are_devices(machine: Path) -> None:
    build(machine)
    first, _ = shared(machine)
    files = first.vendor.files([CardSlice(first.card, first.payload, 1 << 30, (0,), 0, "?")])
    assert files.mounts
    assert all(Path(mount.host).exists() for mount in files.mounts)
    assert files.devices
    assert all(Path(node.host).is_char_device() for node in files.devices)


def test_a_card_that_is_not_there_is_an_error_that_names_it(
    machine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build(machine)
    assert main(["simulate", "sick", "GPU-1", "--folder", str(machine)]) == 2
    assert "GPU-1" in capsys.readouterr().err


def test_the_driver_says_of_a_process_what_the_operator_sets(machine: Path) -> None:
    build(machine)
    first, second = shared(machine)
    assert first.vendor.figures.processes() is None
    options = ["--mib", "512", "--queues", "1", "--busy-units", "5", "--folder", str(machine)]
    assert main(["simulate", "process", "4711", first.card.uuid, *options]) == 0
    figures = first.vendor.figures
    assert figures.processes() == [4711]
    assert (figures.memory(4711, first.payload), figures.busy_units(4711, first.payload)) == (512 << 20, 5)
    assert figures.has_queue(4711, first.payload)
    assert figures.memory(4711, second.payload) is None
    sim.end_process(machine, 4711)
    assert figures.processes() == []
    assert main(["simulate", "process", "4711", "GPU-0", "--folder", str(machine)]) != 0
