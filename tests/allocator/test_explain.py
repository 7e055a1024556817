"""Who waits and why, found out while others are placed."""

from typing import Any

import pytest
from msgspec.structs import replace
from pytest_mock import MockerFixture

from device_plugin.allocator.explain import Explainer, as_text
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.ledger import Snapshot
from device_plugin.core.obstacles import Obstacles
from device_plugin.core.placement import Placer
from tests.builders.cards import inventory
from tests.builders.claims import claim, claim_pod
from tests.cluster.world import Apart, Replica, World


def test_while_reasons_are_found_others_are_placed(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With every scrape all that wait are tried: whoever makes a thousand pods that differ must not stop the rest."""
    for size in (17, 18, 19):
        world.pod(f"large-{size}", size)
    placed: list[str] = []
    place = Placer.place

    def meanwhile(*args: Any) -> Any:
        apart = Apart()
        apart.run(lambda: placed.append(one.ask(world.pod(f"p{len(placed)}"))))
        apart.join()
        return place(*args)

    monkeypatch.setattr(Placer, "place", meanwhile)
    waiting = one.explainer.waiting()
    assert placed == ["n1"] * 3
    assert [entry.pod for entry in waiting] == ["large-17", "large-18", "large-19"]


def test_what_is_shown_is_of_one_moment_and_others_are_placed_meanwhile(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        world.node(f"m{number}", inventory(f"m{number}"))
    one.view.node_news.sync(world.api.nodes())
    placed: list[str] = []
    node = Snapshot.node

    def meanwhile(snapshot: Snapshot, name: str) -> Any:
        apart = Apart()
        apart.run(lambda: placed.append(one.ask(world.pod(f"p{len(placed)}"))))
        apart.join()
        return node(snapshot, name)

    monkeypatch.setattr(Snapshot, "node", meanwhile)
    view = one.explainer.view()
    assert len(placed) == len(view["nodes"]) == 5
    assert all(placed)
    assert not any(card["slices"] for node in view["nodes"] for card in node["cards"])


def test_requests_that_are_equal_are_tried_once(world: World, one: Replica, mocker: MockerFixture) -> None:
    for number in range(5):
        world.pod(f"large-{number}", 17)
    placed = mocker.spy(Placer, "place")
    assert len(one.explainer.waiting()) == 5
    assert placed.call_count == 1


def test_pods_of_one_group_are_tried_once_whatever_their_rank(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    """Each looks at all the others of its group: two thousand took two minutes of every scrape."""
    for number in range(5):
        scored, grouped = {"vgpu.io/policy": "node-score"}, {"vgpu.io/group": "train"}
        world.pod(f"large-{number}", 17, annotations=scored, labels=grouped)
    world.pod("elsewhere", 17, annotations=scored, labels={"vgpu.io/group": "another"})
    placed = mocker.spy(Placer, "place")
    waiting = one.explainer.waiting()
    assert {entry.text for entry in waiting} == {
        "2 cards: 2 too small for the request (at most hygon.com/dcu-mem: 16, hygon.com/dcu-cores: 60)"
    }
    assert placed.call_count == 2


def test_families_of_which_a_request_means_another_amount_by_node_are_said(
    world: World, one: Replica
) -> None:
    assert one.explainer.view()["units"] == []
    assert "memory units" not in as_text(one.explainer.view())
    world.node("n2", Inventory((replace(inventory("n2", 1).cards[0], units=32, unit_mib=512),)))
    one.view.node_news.sync(world.api.nodes())
    said = "one hygon.com/dcu-mem is 512 MiB on n2; 1024 MiB on n1: use one memUnitMiB on all nodes"
    assert one.explainer.view()["units"] == [said]
    assert f"memory units differ\n  {said}\n" in as_text(one.explainer.view())
    assert [one.ask(world.pod(f"on-{node}", 4, None), node) for node in ("n1", "n2")] == ["n1", "n2"]


def explained(one: Replica) -> Explainer:
    return one.explainer


SELECTED = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."


@pytest.mark.parametrize(
    ("obstacles", "text", "reason"),
    [
        (Obstacles(gates=("x/y",)), "a card is free on n1; the pod is held by: scheduling gate x/y", "held"),
        (
            Obstacles(selector="nodeSelector a=b", said=SELECTED),
            f"a card is free on n1; the pod is held by: nodeSelector a=b: {SELECTED}", "held",
        ),
        (
            Obstacles(selector="nodeSelector a=b"),
            "fits on node n1; kube-scheduler has not tried it yet", "fits",
        ),
    ],
)  # fmt: skip
def test_what_keeps_a_pod_from_a_free_card_is_named(
    world: World, one: Replica, obstacles: Obstacles, text: str, reason: str
) -> None:
    world.pod("held", obstacles=obstacles)
    (entry,) = explained(one).waiting()
    assert (entry.text, entry.reason) == (text, reason)


def test_a_gate_is_named_where_there_is_no_card_either(world: World, one: Replica) -> None:
    world.pod("large", 17, obstacles=Obstacles(gates=("x/y",)))
    (entry,) = explained(one).waiting()
    assert entry.text.endswith("; held by scheduling gate x/y as well")


def test_a_card_says_how_many_slices_it_holds_and_has_room_for(world: World, one: Replica) -> None:
    world.placed("first")
    lines = as_text(explained(one).view()).splitlines()
    assert "  n1-0 Z100: 1 slice (room for 3 more), free 8184 of 16368 MiB, 30 of 60 core groups" in lines
    assert "  n1-1 Z100: 0 slices (room for 4 more), free 16368 of 16368 MiB, 60 of 60 core groups" in lines
    world.placed("second")
    lines = as_text(explained(one).view()).splitlines()
    assert "  n1-0 Z100: 2 slices, free 0 of 16368 MiB, 0 of 60 core groups" in lines


def test_pods_that_wait_for_a_claim_and_pods_whose_claim_another_has_are_told_apart() -> None:
    world = World(claims=True)
    world.api.put(claim_pod("early", "later"))
    world.api.put_claim(claim())
    world.one.ask(world.api.put(claim_pod("first")))
    world.api.put(claim_pod("second"))
    early, second = world.one.explainer.waiting()
    assert (early.pod, early.reason) == ("early", "claim")
    assert early.text.startswith("waits for its claim: container main waits for ResourceClaim later")
    assert (second.pod, second.reason) == ("second", "malformed")
    assert second.text == "ResourceClaim slice is used by pod first: give each pod a claim of its own"


def test_pods_by_claims_and_by_limits_of_one_size_have_answers_of_their_own() -> None:
    world = World(claims=True)
    world.node("n1", inventory("n1"))
    world.one.view.node_news.see(world.api.by_node["n1"])
    world.api.put_claim(claim())
    world.api.put(claim_pod("claimed"))
    world.pod("limits")
    claimed, limits = world.one.explainer.waiting()
    assert (claimed.reason, claimed.text) == ("claims", "2 cards: 2 on nodes that prepare no ResourceClaims")
    assert (limits.pod, limits.reason) == ("limits", "fits")
