"""The cluster's metrics, read while others are placed."""

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from device_plugin.cluster import cluster_gauges, ledger_gauges
from device_plugin.cluster.cluster_gauges import ClusterGauges
from device_plugin.cluster.ledger_gauges import FREE_CARDS, NAMESPACE_MEMORY
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.metrics import OTHERS
from device_plugin.core.contract.units import MIB
from device_plugin.core.pods import Agent
from tests.builders.cards import card, inventory
from tests.builders.pods import HALF, grant, pod, with_grant
from tests.cluster.world import Apart, Replica, World
from tests.exposed import values


def read(replica: Replica) -> Mapping[str, Mapping[tuple[str, ...], float]]:
    return values(replica.gauges())


def test_who_leads_and_who_waits(world: World, one: Replica) -> None:
    world.placed("p")
    world.pod("large", 17)
    found = read(one)
    assert found["vgpu_leader"] == found["vgpu_synced"] == {(): 1.0}
    assert {reason for (reason,), count in found["vgpu_unplaced_pods"].items() if count} == {"too-large"}
    assert "vgpu_fragmentation_ratio" not in found, "nothing was learnt yet"


def test_a_pod_waits_since_its_creation_and_is_counted_once_it_is_bound(world: World, one: Replica) -> None:
    world.clock.now = 1000.0  # of the creation of all pods
    world.pod("large", 17)
    world.pod("other", 17, namespace="team")
    made = world.pod("p")
    one.wait(40)
    assert read(one)["vgpu_unplaced_oldest_seconds"][("too-large",)] == 40.0
    assert read(one)["vgpu_unplaced_oldest_seconds"][("memory",)] == 0.0
    assert read(one)["vgpu_namespace_unplaced_pods"] == {("default",): 2.0, ("team",): 1.0}
    assert one.bind(made, one.ask(made)) == ""
    assert read(one)["vgpu_namespace_unplaced_pods"] == {("default",): 1.0, ("team",): 1.0}
    waits = read(one)["vgpu_pod_bind_wait_seconds"]
    assert (waits["30.0",], waits["60.0",], waits["+Inf",]) == (0.0, 1.0, 1.0)


def test_a_namespace_has_what_its_pods_are_granted_and_reserved(world: World, one: Replica) -> None:
    world.placed("p")
    waiting = world.pod("q", 4, 15, namespace="team")
    assert one.ask(waiting)
    found = read(one)
    family = "hygon.com/dcu"
    assert found["vgpu_namespace_granted_memory_bytes"] == {
        ("default", family): HALF * MIB, ("team", family): HALF // 2 * MIB,
    }  # fmt: skip
    assert found["vgpu_namespace_granted_core_groups"] == {("default", family): 30.0, ("team", family): 15.0}
    assert found["vgpu_namespace_granted_slices"] == {("default", family): 1.0, ("team", family): 1.0}


# What one card of two of each model has left: units, core groups, share, whole cards.
ROOM = [
    (Inventory(inventory("n1").cards), (16.0, 60.0, 1.0, 1.0)),
    (Inventory((card("n1-0"),)), (8.0, 30.0, 0.5, 0.0)),
    (Inventory((card("n1-0"), card("n1-1", healthy=False))), (8.0, 30.0, 0.5, 0.0)),
    (Inventory((card("n1-0", slices=1),)), (0.0, 0.0, 0.0, 0.0)),
    (Inventory(inventory("n1").cards, serving=False), (0.0, 0.0, 0.0, 0.0)),
]


@pytest.mark.parametrize(("cards", "room"), ROOM)
def test_the_largest_slice_that_a_model_can_give(
    world: World, one: Replica, cards: Inventory, room: tuple[float, ...]
) -> None:
    held = world.placed("p").grant()
    assert held
    assert [s.card for s in held.slices()] == ["n1-0"]
    world.node("n1", cards)
    one.view.node_news.sync(world.api.nodes())
    found = read(one)
    names = [f"vgpu_largest_free_slice_{part}" for part in ("memory_units", "core_groups", "ratio")]
    model = ("hygon.com/dcu", "Z100")
    assert tuple(found[name][model] for name in (*names, "vgpu_free_cards")) == room


def test_nodes_whose_agents_do_not_serve_are_named(world: World, one: Replica) -> None:
    for name, serving in (("n2", False), ("n3", True)):
        world.node(name, replace(inventory(name), serving=serving))
    one.view.node_news.sync(world.api.nodes())
    found = read(one)
    assert found["vgpu_node_not_serving"] == {("n2", "inventory"): 1.0}, "no agents were listed"
    one.view.agents.sync([Agent(f"agent-{name}", name, ready=True) for name in ("n1", "n2")])
    found = read(one)
    assert found["vgpu_node_not_serving"] == {("n2", "inventory"): 1.0, ("n3", "agent"): 1.0}
    assert found["vgpu_nodes"] == {("yes",): 1.0, ("no",): 2.0}


def test_what_is_kept_of_each_node_is_what_would_be_read_anew(world: World, one: Replica) -> None:
    def check() -> None:
        anew = ClusterGauges(one.shared, one.explainer, one.leader.unread, one.counts)
        assert read(one) == values(anew())

    check()
    world.node("n2", inventory("n2"))
    one.view.node_news.sync(world.api.nodes())
    for number in range(4):
        made = world.pod(f"p{number}", 4, 15, namespace=f"team-{number % 2}")
        assert one.bind(made, one.ask(made)) == ""
        check()
    assert len(read(one)["vgpu_namespace_granted_slices"]) == 2
    for number in range(3):
        one.view.pod_news.gone(f"uid-p{number}", ended=True)
        check()
    one.view.node_news.gone("n2")
    check()
    one.view.pod_news.gone("uid-p3", ended=True)
    check()
    assert read(one)["vgpu_namespace_granted_slices"] == {}


def test_a_leader_exports_a_bounded_number_of_samples(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_gauges, "MOST_NODES", 2)
    monkeypatch.setattr(ledger_gauges, "MOST_NAMESPACES", 2)
    monkeypatch.setattr(cluster_gauges, "MOST_NAMESPACES", 2)
    for number in range(4):
        world.node(f"down-{number}", replace(inventory(f"down-{number}"), serving=False))
        assert one.ask(world.pod(f"p{number}", 1 + number, 1, namespace=f"team-{number}"))
        world.pod(f"large{number}", 17, namespace=f"team-{number}")
    one.view.node_news.sync(world.api.nodes())
    found = read(one)
    assert found["vgpu_node_not_serving"].keys() == {("down-0", "inventory"), ("down-1", "inventory")}
    assert found["vgpu_nodes"]["no",] == 4.0
    slices = found["vgpu_namespace_granted_slices"]
    assert {name: count for (name, _), count in slices.items()} == {"team-0": 1.0, "team-1": 1.0, OTHERS: 2.0}
    memory = found["vgpu_namespace_granted_memory_bytes"]
    assert {name for name, _ in memory} == {"team-2", "team-3", OTHERS}, "the largest are named"
    assert found["vgpu_namespace_unplaced_pods"] == {("team-0",): 1.0, ("team-1",): 1.0, (OTHERS,): 2.0}


def test_two_grants_that_conflict_are_told_apart_from_a_card_that_shrank(world: World, one: Replica) -> None:
    assert read(one)["vgpu_crowded_cards"] == {("overlap",): 0.0, ("shrunk",): 0.0}
    for name in "ab":
        made = pod(name)
        one.view.pod_news.see(with_grant(made, grant(made).encode()), watched=True)
    assert read(one)["vgpu_crowded_cards"] == {("overlap",): 1.0, ("shrunk",): 0.0}
    one.view.pod_news.gone("uid-b", ended=True)
    world.node("n1", inventory("n1", groups=20))
    one.view.node_news.sync(world.api.nodes())
    assert read(one)["vgpu_crowded_cards"] == {("overlap",): 0.0, ("shrunk",): 1.0}


def test_nodes_are_counted_by_their_memory_unit(world: World, one: Replica) -> None:
    assert read(one)["vgpu_memory_unit_nodes"] == {("hygon.com/dcu", "1024"): 1.0}
    world.node(
        "n2", Inventory((msgspec.structs.replace(inventory("n2", 1).cards[0], units=32, unit_mib=512),))
    )
    one.view.node_news.sync(world.api.nodes())
    found = read(one)["vgpu_memory_unit_nodes"]
    assert found == {("hygon.com/dcu", "512"): 1.0, ("hygon.com/dcu", "1024"): 1.0}


def test_a_standby_exports_its_own_health_and_nothing_of_the_cluster(world: World, one: Replica) -> None:
    standby = Replica(world.api, world.clock, "vgpu-1")
    kept = {"vgpu_kept_entries", "vgpu_kept_entries_max", "vgpu_kept_entries_left_out_total"}
    own = {
        "vgpu_placement_seconds",
        "vgpu_pod_bind_wait_seconds",
        "vgpu_binds_total",
        "vgpu_idle_evictions_total",
    }
    own |= kept
    assert read(standby).keys() == {"vgpu_synced"} | own, "the Lease was not read yet"
    standby.follow()
    standby.leadership.step()
    world.placed("p")
    found = read(standby)
    assert found.keys() == {"vgpu_synced", "vgpu_leader"} | own
    assert (found["vgpu_synced"], found["vgpu_leader"]) == ({(): 1.0}, {(): 0.0})
    assert read(one).keys() > {"vgpu_free_cards", "vgpu_unplaced_pods"}


def test_the_figures_are_of_one_moment_and_others_are_placed_meanwhile(world: World, one: Replica) -> None:
    """A scrape of ten thousand nodes in one go kept every /filter waiting for 48 ms."""
    world.node("late", inventory("late", 1))
    one.view.node_news.sync(world.api.nodes())
    found = ClusterGauges(one.shared, one.explainer, one.leader.unread, one.counts)()
    next(reading for reading in found if reading.metric is NAMESPACE_MEMORY)
    one.view.node_news.gone("late")
    placed: list[str] = []
    apart = Apart()
    apart.run(lambda: placed.append(one.ask(world.pod("p", 1, 1))))
    apart.join()
    assert placed == ["n1"]
    free = next(reading for reading in found if reading.metric is FREE_CARDS)
    assert list(free.samples) == [(("hygon.com/dcu", "Z100"), 3.0)], "two of n1, one of late"
