"""The cluster's gauges, read while others are placed."""

import threading

import pytest

from device_plugin.cluster.measures import MIB, NODES, Measures
from device_plugin.core.ledger import Ledger
from tests.cluster.world import HALF, Apart, Replica, World
from tests.core.clusters import inventory


def read(measures: Measures) -> dict[str, dict[tuple[str, ...], float]]:
    return {gauge.name: {tuple(labels): value for labels, value in gauge.samples} for gauge in measures()}


def test_cards_and_who_waits(world: World, one: Replica) -> None:
    world.placed("p")
    world.pod("large", 17)
    found = read(Measures(one.state, one.leader, one.explainer, lambda: None))
    whole = 16368.0 * MIB
    assert found["vgpu_leader"] == {(): 1.0}
    assert found["vgpu_card_memory_bytes"] == {("n1", "n1-0"): whole, ("n1", "n1-1"): whole}
    assert sorted(found["vgpu_card_granted_memory_bytes"].values()) == [0.0, HALF * MIB]
    assert found["vgpu_card_core_groups"] == {("n1", "n1-0"): 60.0, ("n1", "n1-1"): 60.0}
    assert sorted(found["vgpu_card_granted_core_groups"].values()) == [0.0, 30.0]
    assert {reason for (reason,), count in found["vgpu_unplaced_pods"].items() if count} == {"too-large"}
    assert "vgpu_fragmentation_ratio" not in found, "nothing was learnt yet"


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
    found = read(Measures(one.state, one.leader, one.explainer, pause))
    assert len(found["vgpu_card_memory_bytes"]) == len(names) + 2
    assert longest <= NODES
    assert len(placed) >= 4 * 3
    assert all(placed)


def test_a_node_that_goes_meanwhile_is_left_out(world: World, one: Replica) -> None:
    name = "late"
    world.node(name, inventory(name, 1))
    one.state.sync_nodes(world.api.nodes())
    gauges = Measures(one.state, one.leader, one.explainer, lambda: None)()
    assert next(gauges).name == "vgpu_leader"
    cards = next(gauges)
    one.state.forget_node(name)
    assert {labels[0] for labels, _ in cards.samples} == {"n1"}
