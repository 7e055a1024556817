"""Cards without a unique id have other names on other nodes; what an older agent left goes on under the new ones."""

from pathlib import Path

import pytest

from device_plugin.core.contract.grants import Grant, Slice
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from device_plugin.node.slices.claims import NotNowError
from device_plugin.node.vendors.rocm import TOPOLOGY
from tests.builders.cards import CARDS, MEM
from tests.node.parts import Parts, Peer, config_of, discovered
from vgpu_runtime import rocm, sim

ADDRESSES = ["0000:19:00.0", "0000:21:00.0"]
OLD, NEW = [[f"GPU-{node}{pci}" for pci in ADDRESSES] for node in ("", "n1-")]


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


@pytest.mark.parametrize("name", [ADDRESSES[0], OLD[0], NEW[0]])
def test_a_card_is_excluded_by_either_name_and_by_its_address(folder: Path, name: str) -> None:
    assert uuids(folder, "n1", name) == NEW[1:]


def upgraded(folder: Path) -> tuple[Parts, Pod]:
    """An agent that follows one which had carried a pod's slice under the old name, on disk and in the grant."""
    peer = Peer()
    before = Parts(folder, peer)
    before.start()
    pod = before.bind("a", [Slice(NEW[0], 4092, (0, 1, 2))], {MEM: "4"})
    before.hold(pod, {MEM: ["dcu-mem-0"]})
    before.starts.pre_start(MEM, ["dcu-mem-0"])
    (record,) = before.records.all()
    path = before.records.folder(*record.key) / "record.json"
    assert NEW[0] in path.read_text()
    path.write_text(path.read_text().replace(NEW[0], OLD[0]))
    pod = before.bind("a", [Slice(OLD[0], 4092, (0, 1, 2))], {MEM: "4"})
    peer.living.add(pod.uid)
    after = Parts(folder, peer)
    after.start()
    return after, pod


def test_the_container_of_an_old_grant_starts_again_on_its_card(folder: Path) -> None:
    after, _ = upgraded(folder)
    assert [s.card for record in after.records.all() for s in record.slices] == NEW[:1]
    after.starts.pre_start(MEM, ["dcu-mem-0"])
    (limit,) = rocm.parse(config_of(after.spec(MEM, ["dcu-mem-0"]))).cards
    assert (limit.uuid, limit.pci) == (NEW[0], ADDRESSES[0])
    (record,) = after.records.all()
    assert record.vendor_ids.keys() == {NEW[0]}


def test_it_starts_again_while_the_api_server_is_silent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    after, _ = upgraded(folder)

    def silent(namespace: str, name: str) -> Pod:
        raise UnknownError(f"{namespace}/{name}")

    monkeypatch.setattr(after.peer, "pod", silent)
    after.starts.pre_start(MEM, ["dcu-mem-0"])


def test_a_successor_waits_for_the_container_of_an_old_record(folder: Path) -> None:
    after, pod = upgraded(folder)
    after.peer.holders.clear()
    successor = after.bind("b", [Slice(NEW[0], 4092, (2, 3))], {MEM: "4"})
    assert Grant.decode(successor.annotation("vgpu.io/grant")).containers["main"][0].card == NEW[0]
    after.hold(successor, {MEM: ["dcu-mem-1"]})
    after.starts.stop()
    with pytest.raises(NotNowError, match=f"container main of pod default/{pod.name}"):
        after.starts.pre_start(MEM, ["dcu-mem-1"])
