"""The cluster's metrics, read while others are placed."""

from collections.abc import Mapping
from dataclasses import replace

from device_plugin.cluster.show.cluster_gauges import GRANTED_CORE_GROUPS, GRANTED_MEMORY, MIB, ClusterGauges
from device_plugin.core.cards import Inventory
from tests.builders.cards import inventory
from tests.builders.pods import HALF
from tests.cluster.world import Apart, Replica, World
from tests.exposed import values


def read(replica: Replica) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    return values(replica.gauges())


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
    one.view.sync_nodes(world.api.nodes())
    found = read(one)["vgpu_memory_unit_nodes"]
    assert found == {("hygon.com/dcu", "512"): 1.0, ("hygon.com/dcu", "1024"): 1.0}


def test_a_standby_exports_its_own_health_and_nothing_of_the_cluster(world: World, one: Replica) -> None:
    standby = Replica(world.api, world.clock, "vgpu-1")
    kept = {"vgpu_kept_entries", "vgpu_kept_entries_max", "vgpu_kept_entries_left_out_total"}
    own = {"vgpu_placement_seconds", "vgpu_binds_total"} | kept
    assert read(standby).keys() == {"vgpu_synced"} | own, "the Lease was not read yet"
    standby.follow()
    standby.leadership.step()
    world.placed("p")
    found = read(standby)
    assert found.keys() == {"vgpu_synced", "vgpu_leader"} | own
    assert (found["vgpu_synced"], found["vgpu_leader"]) == ({(): 1.0}, {(): 0.0})
    assert read(one).keys() > {"vgpu_card_granted_memory_bytes", "vgpu_unplaced_pods"}


def test_the_figures_are_of_one_moment_and_others_are_placed_meanwhile(world: World, one: Replica) -> None:
    """A scrape of ten thousand nodes in one go kept every /filter waiting for 48 ms."""
    world.node("late", inventory("late", 1))
    one.view.sync_nodes(world.api.nodes())
    found = ClusterGauges(one.shared, one.explainer)()
    memory, groups = (
        next(each for each in found if each.metric is metric)
        for metric in (GRANTED_MEMORY, GRANTED_CORE_GROUPS)
    )
    one.view.forget_node("late")
    placed: list[str] = []
    for reading in (memory, groups):
        samples = []
        for sample in reading.samples:
            samples.append(sample)
            apart = Apart()
            apart.run(lambda: placed.append(one.ask(world.pod(f"p{len(placed)}", 1, 1))))
            apart.join()
        assert {labels[0] for labels, _ in samples} == {"n1", "late"}
        assert not any(value for _, value in samples)
    assert placed == ["n1"] * 6
