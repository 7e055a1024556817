import random
from collections.abc import Collection
from pathlib import Path

import pytest

from device_plugin.adapters.cards.host import HostMachine
from device_plugin.node.vendors.hygon import DRIVER_SLICES, REST_SECONDS, Hygon, Pipes
from device_plugin.node.vendors.port import NoVendorIdError
from hack.simulated.cards import SimulatedMachine
from tests.node.vendors.test_kfd import scan
from vgpu_runtime import sim


def refused(pipes: Pipes, taken: Collection[int], before: int | None = None) -> bool:
    """True if card c has no pipe now."""
    with pytest.raises(NoVendorIdError, match="card c has no free pipe"):
        pipes.claim("c", taken, before)
    return True


def test_a_pipe_rests_for_a_second_after_its_slice_is_gone() -> None:
    clock = [100.0]
    pipes = Pipes(lambda: clock[0])
    assert [pipes.claim("c", live) for live in ((), (0,), (0, 1), (0, 1, 2))] == [0, 1, 2, 3]
    assert refused(pipes, range(20))
    others = set(range(20)) - {2}
    pipes.release("c", 2)
    clock[0] += REST_SECONDS / 2
    assert refused(pipes, others)
    clock[0] += REST_SECONDS / 2
    assert pipes.claim("c", others) == 2


def test_while_one_of_the_first_pipes_rests_another_pipe_serves() -> None:
    pipes = Pipes(lambda: 0.0)
    pipes.release("c", 2)
    assert pipes.claim("c", (0, 1, 3)) == 4


def test_a_restarted_container_gets_another_pipe() -> None:
    pipes = Pipes(lambda: 100.0)  # a new life of the agent: only the record knows the pipe
    assert pipes.claim("c", (0, 1, 2), before=3) == 4


def test_cards_have_pipes_of_their_own() -> None:
    pipes = Pipes(lambda: 0.0)
    assert pipes.claim("a", ()) == 0
    assert pipes.claim("b", ()) == 0


def test_no_two_live_slices_share_a_pipe_and_none_is_warm() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng, clock = random.Random(seed), [0.0]
    pipes, live, left = Pipes(lambda: clock[0]), set[int](), dict[int, float]()
    for _ in range(5000):
        clock[0] += rng.random()
        if live and rng.random() < 0.5:
            pipe = rng.choice(sorted(live))
            live.remove(pipe)
            pipes.release("c", pipe)
            left[pipe] = clock[0]
            continue
        try:
            taken = pipes.claim("c", live)
        except NoVendorIdError:
            continue
        assert taken not in live
        assert clock[0] - left.get(taken, -2.0) >= REST_SECONDS or taken not in left
        live.add(taken)


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A machine with two cards of Hygon."""
    sim.build(sim.parse("version: v1\ncards: [{preset: hygon-80cu-64gib, count: 2}]"), tmp_path)
    return tmp_path


def unfit(machine: Path) -> list[str]:
    return [card.unfit for card in scan(machine).cards]


def write(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_cards_are_fit_with_the_makers_folder_in_either_place(machine: Path) -> None:
    assert unfit(machine) == ["", ""]
    (machine / "opt/hyhal").rename(machine / "opt/away")
    assert all(
        "without /opt/hyhal or /usr/local/hyhal containers find no card" in why for why in unfit(machine)
    )
    write(machine / "usr/local/hyhal/lib/libhydmi.so")
    assert unfit(machine) == ["", ""]


def test_a_card_that_another_program_has_cut_is_unfit(machine: Path) -> None:
    write(machine / "etc/vdev/vdev3.conf", "PciBusId: 0000:21:00.0\ncu_mask: 0xff\npipe_id: 0\n")
    first, second = unfit(machine)
    assert first == ""
    assert second == (
        "another program has cut it (vdev3 of `hy-smi virtual`): destroy vdev3, or exclude the card"
    )


def test_in_mig_mode_no_card_is_fit(machine: Path) -> None:
    write(machine / "etc/dmi_mig_config/ci/dev0gi1ci0.conf")
    assert all("MIG mode (/etc/dmi_mig_config/ci/dev0gi1ci0.conf)" in why for why in unfit(machine))


@pytest.mark.parametrize(
    ("table", "model"),
    [
        ('declare -A map\nmap["6320"]="BW999"\n', "BW999"),
        ("map['6320']='BW 999_X'", "BW 999_X"),
        ('map["6321"]="BW999"', "BW150"),
        ('map["6320"]="BW,999"', "BW150"),
        ('map["6320"]="!BW"', "BW150"),
        ("\x00\xff" * 100, "BW150"),
    ],
)
def test_models_are_those_of_the_drivers_package_on_the_node(machine: Path, table: str, model: str) -> None:
    write(machine / "opt/hyhal/bin/update_ids", table)
    assert [card.model for card in scan(machine).cards] == [model, model]


def test_the_drivers_records_of_a_card(machine: Path) -> None:
    hygon = Hygon(SimulatedMachine(machine))
    first, second = (card.payload for card in hygon.scan().cards)
    shown = machine / DRIVER_SLICES
    assert hygon.driver_slices(first) == {}
    write(shown / f"0x{first.gpu_id:x}@5/entry", "Indentifier:17\nVgpu device:a\nVram limit:1073741824\n")
    write(shown / f"0x{first.gpu_id:x}@6/entry", "Indentifier:18\n")
    write(shown / "0xzz@1/entry", "Vram limit:1\n")
    records = Hygon(HostMachine(machine))
    assert records.driver_slices(first) == {5: 1 << 30, 6: 0}
    assert records.driver_slices(second) == {}


def test_a_driver_without_records_holds_no_slices(tmp_path: Path) -> None:
    sim.build(sim.parse("version: v1\ncards: [{preset: hygon-80cu-64gib}]"), tmp_path)
    hygon = Hygon(HostMachine(tmp_path))
    (card,) = hygon.scan().cards
    assert hygon.driver_slices(card.payload) is None
