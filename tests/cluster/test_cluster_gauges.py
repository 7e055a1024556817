"""The cluster's metrics, read while others are placed."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from device_plugin.cluster.cluster_gauges import GRANTED_MEMORY, MIB, NODES, ClusterGauges
from device_plugin.core.cards import Inventory
from device_plugin.core.ledger import Ledger
from tests.cluster.world import HALF, Apart, Replica, World
from tests.core.clusters import inventory
from tests.exposed import values


def read(
    replica: Replica, pause: Callable[[], object] = bool
) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    return values(ClusterGauges(replica.state, replica.leader, replica.explainer, pause)())


def test_cards_and_who_waits(world: World, one: Replica) -> None:
    world.placed("p")
    world.pod("large", 17)
    found = read(one)
    assert found["vgpu_leader"] == found["vgpu_synced"] == {(): 1.0}
    assert sorted(found["vgpu_card_granted_memory_bytes"].values()) == [0.0, HALF * MIB]
    assert sorted(found["vgpu_card_granted_core_groups"].values()) == [0.0, 30.0]
    assert {reason for (reason,), count in found["vgpu_unplaced_pods"].items() if count} == {"too-large"}
    assert "vgpu_fragmentation_ratio" not in found, "nothing was learnt yet"


def test_nodes_are_counted_by_their_memory_unit(world: World, one: Replica) -> None:
    assert read(one)["vgpu_memory_unit_nodes"] == {("hygon.com/dcu", "1024"): 1.0}
    world.node("n2", Inventory((replace(inventory("n2", 1).cards[0], units=32, unit_mib=512),)))
    one.state.sync_nodes(world.api.nodes())
    found = read(one)["vgpu_memory_unit_nodes"]
    assert found == {("hygon.com/dcu", "512"): 1.0, ("hygon.com/dcu", "1024"): 1.0}


def test_a_standby_exports_its_own_health_and_nothing_of_the_cluster(world: World, one: Replica) -> None:
    standby = Replica(world.api, world.clock, "vgpu-1")
    own = {"vgpu_kept_entries", "vgpu_kept_entries_max", "vgpu_kept_entries_left_out_total"}
    assert read(standby).keys() == {"vgpu_synced"} | own, "the Lease was not read yet"
    standby.follow()
    standby.leadership.step()
    world.placed("p")
    found = read(standby)
    assert found.keys() == {"vgpu_synced", "vgpu_leader"} | own
    assert (found["vgpu_synced"], found["vgpu_leader"]) == ({(): 1.0}, {(): 0.0})
    assert read(one).keys() > {"vgpu_card_granted_memory_bytes", "vgpu_unplaced_pods"}


def test_between_a_few_nodes_others_are_placed(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape of ten thousand nodes in one go kept every /filter waiting for 48 ms."""
    names = [f"m{number:04}" for number in range(3 * NODES)]
    for name in names:
        world.node(name, inventory(name, 1))
    one.state.sync_nodes(world.api.nodes())
    looked, longest, placed = 0, 0, []
    node, scraping = Ledger.node, threading.current_thread()

    def look(ledger: Ledger, name: str) -> object:
        nonlocal looked, longest
        looked += threading.current_thread() is scraping
        longest = max(longest, looked)
        return node(ledger, name)

    def pause() -> None:
        nonlocal looked
        apart = Apart()
        apart.run(lambda: placed.append(one.ask(world.pod(f"p{len(placed)}"))))
        apart.join()
        looked = 0

    monkeypatch.setattr(Ledger, "node", look)
    found = read(one, pause)
    assert len(found["vgpu_card_granted_memory_bytes"]) == len(names) + 2
    assert longest <= NODES
    assert len(placed) >= 2 * 3, "two metrics of cards, at least three times each"
    assert all(placed)


def test_a_node_that_goes_meanwhile_is_left_out(world: World, one: Replica) -> None:
    name = "late"
    world.node(name, inventory(name, 1))
    one.state.sync_nodes(world.api.nodes())
    found = ClusterGauges(one.state, one.leader, one.explainer, lambda: None)()
    cards = next(each for each in found if each.metric is GRANTED_MEMORY)
    one.state.forget_node(name)
    assert {labels[0] for labels, _ in cards.samples} == {"n1"}
