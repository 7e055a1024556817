"""Preemption: the fewest victims, and what they leave behind goes to nobody else."""

import threading
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from device_plugin.allocator import search
from device_plugin.cluster.preemption import SEARCHES, Preemption
from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.pods import Pod
from device_plugin.core.rearrange import Planner
from device_plugin.kube.errors import RefusedError
from tests.builders.cards import MEM, inventory
from tests.builders.pods import main
from tests.cluster.world import Apart, ClaimWorld, World


@pytest.fixture(params=[World, ClaimWorld], ids=["by limits", "by claims"])
def world(request: pytest.FixtureRequest) -> World:
    made: World = request.param()
    return made


def hold(world: World, name: str, mem: int, priority: int = 0) -> Pod:
    """A pod that is bound and holds a slice."""
    made = world.pod(name, mem, None, priority=priority)
    assert world.one.bind(made, world.one.ask(made)) == ""
    return world.api.by_name["default", name]


def full(world: World) -> None:
    """Cards n1-0 and n1-1 of 16 units hold 12 each: low and lower, with 8 units left in all."""
    hold(world, "low", 12, priority=-1)
    hold(world, "lower", 12, priority=-2)


def refused(world: World, name: str, mem: int = 8, priority: int = 10, **more: object) -> Pod:
    made = world.pod(name, mem, None, priority=priority, **more)
    assert world.one.ask(made) == ""
    return made


def evicted(world: World) -> list[str]:
    return [name for verb, name in world.api.written if verb == "evict"]


def gone(world: World, name: str) -> None:
    world.api.end(world.api.by_name["default", name])


def test_the_lowest_priority_is_evicted_and_its_slice_goes_to_the_pod_that_waited(world: World) -> None:
    full(world)
    vip = refused(world, "vip")
    world.one.turn()
    assert evicted(world) == ["lower"]
    assert [who for who, _ in world.api.warnings] == ["lower Preempted", "vip Preempting"]
    gone(world, "lower")
    assert world.one.bind(vip, world.one.ask(vip)) == ""
    held = world.one.view.ledger.grant(vip.uid)
    assert held is not None
    assert [s.card for s in held.slices()] == ["n1-1"]
    assert evicted(world) == ["lower"]


def test_no_eviction_waits_for_an_event_or_stops_at_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(world)

    def refuses(*_: object, **__: object) -> None:
        assert evicted(world) == ["low", "lower"]
        raise RefusedError("exceeded quota: team, requested: count/events=1")

    monkeypatch.setattr(world.api, "post_event", refuses)
    refused(world, "vip", containers=(main({MEM: "16"}), main({MEM: "16"}, "other")))
    world.one.turn()
    assert evicted(world) == ["low", "lower"]


def test_nobody_else_gets_what_is_left_before_during_and_after_the_victims_end(world: World) -> None:
    full(world)
    refused(world, "vip")
    world.one.turn()
    # 4 units of n1-1 are free, and vip needs them beside those of its victim.
    small = world.pod("small-0", 4, None)
    assert world.one.bind(small, world.one.ask(small)) == ""
    held = world.one.view.ledger.grant(small.uid)
    assert held is not None
    assert [s.card for s in held.slices()] == ["n1-0"]
    assert world.one.ask(world.pod("small-1", 4, None)) == ""
    gone(world, "lower")
    assert world.one.ask(world.pod("small-2", 12, None)) == ""
    assert world.one.ask(world.pod("small-3", 8, None)) == "n1", "vip needs only half of the card"


def test_a_pod_of_equal_priority_or_that_never_preempts_evicts_nobody(world: World) -> None:
    full(world)
    refused(world, "equal", priority=-2)
    refused(world, "polite", priority=10, preempts=False)
    world.one.turn()
    assert evicted(world) == []


def test_only_nodes_that_kube_scheduler_offered_are_looked_at(world: World) -> None:
    full(world)
    vip = world.pod("vip", 8, None, priority=10)
    assert world.one.filter(vip, ["elsewhere"]).nodes == ()
    world.one.turn()
    assert evicted(world) == []


def test_while_victims_are_sought_others_are_placed_and_what_they_took_is_seen(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 7):
        world.node(f"n{number}", inventory(f"n{number}"))
    world.one.view.node_news.sync(world.api.nodes())
    for number in range(12):
        hold(world, f"p{number}", 16)
    refused(world, "vip", 16)
    asked: list[str] = []
    option = Planner.option

    def meanwhile(planner: Planner, *args: Any) -> Any:
        if planner is not world.one.allocator.planner:
            apart = Apart()
            apart.run(lambda: asked.append(world.one.ask(world.pod(f"small-{len(asked)}", 1, 1))))
            apart.join()
        return option(planner, *args)

    monkeypatch.setattr(Planner, "option", meanwhile)
    world.one.turn()
    assert len(evicted(world)) == 1
    assert len(asked) == 6


def test_a_protected_victim_stays_and_the_next_one_goes(world: World) -> None:
    full(world)
    world.api.protected.add("lower")
    refused(world, "vip")
    world.one.turn()
    assert evicted(world) == ["low"]


@pytest.mark.parametrize("protected", ["one", "two"])
def test_beside_one_that_is_protected_nobody_goes_in_vain(world: World, protected: str) -> None:
    """Whichever is asked first: all of them are asked whether they may go before the first one does."""
    hold(world, "whole", 16, priority=50)
    for name in ("one", "two"):
        hold(world, name, 8, priority=-1)
    world.api.protected.add(protected)
    refused(world, "vip", 16)
    world.one.turn()
    assert evicted(world) == []
    world.api.protected.clear()
    world.one.wait(31)
    assert world.one.ask(world.api.by_name["default", "vip"]) == ""
    world.one.turn()
    assert sorted(evicted(world)) == ["one", "two"]


def test_beside_one_that_was_protected_before_nobody_goes_in_vain_again(world: World) -> None:
    """Whoever protects his own pods when it comes to it must not get others' evicted, again and again."""
    hold(world, "whole", 16, priority=50)
    for name in ("victim-0", "zero"):
        hold(world, name, 8, priority=-1)
    world.api.kept.add("zero")
    vip = refused(world, "vip", 16)
    world.one.turn()
    for round_ in range(1, 4):
        for name in set(evicted(world)) & {name for _, name in world.api.by_name}:
            gone(world, name)
            hold(world, f"victim-{round_}", 8, priority=-1)
        world.one.wait(31)
        assert world.one.ask(vip) == ""
        world.one.turn()
    assert evicted(world) in ([], ["victim-0"])


def test_one_that_is_leaving_anyway_is_waited_for_and_nobody_is_evicted(world: World) -> None:
    full(world)
    world.api.put(structs.replace(world.api.by_name["default", "low"], deleting=True))
    vip = refused(world, "vip")
    world.one.turn()
    assert evicted(world) == []
    assert world.one.ask(world.pod("small", 4, None)) == "n1"
    gone(world, "low")
    assert world.one.bind(vip, world.one.ask(vip)) == ""


def test_two_waiting_pods_do_not_share_a_victim(world: World) -> None:
    full(world)
    refused(world, "first", 9, priority=20)
    refused(world, "second", 9, priority=10)
    world.one.turn()
    assert evicted(world) == ["lower", "low"]
    assert world.one.free() == [0, 0]


def test_one_victim_is_enough_for_two_that_fit_its_place(world: World) -> None:
    full(world)
    refused(world, "first", priority=20)
    refused(world, "second", priority=10)
    world.one.turn()
    assert evicted(world) == ["lower"]


def test_what_is_held_for_a_pod_ends_with_it(world: World) -> None:
    full(world)
    vip = refused(world, "vip")
    world.one.turn()
    gone(world, "lower")
    world.api.end(vip)
    assert sorted(world.one.free()) == [4092, 16368]


def test_what_is_held_for_a_pod_ends_when_it_asks_for_something_else(world: World) -> None:
    full(world)
    vip = refused(world, "vip")
    world.one.turn()
    other = world.pod("other", 3, None)
    world.api.put(structs.replace(vip, containers=other.containers, claims=other.claims))
    gone(world, "lower")
    assert sorted(world.one.free()) == [4092, 16368]


def test_after_the_deadline_others_may_have_it_and_the_pod_may_preempt_again(world: World) -> None:
    full(world)
    vip = refused(world, "vip")
    world.one.turn()
    world.one.wait(301)
    world.one.turn()
    assert world.one.view.ledger.reservation(vip.uid) is None
    assert world.one.ask(vip) == ""
    world.one.turn()
    assert evicted(world) == ["lower"], "the victim is leaving already: nobody else must"
    gone(world, "lower")
    assert world.one.ask(vip) == "n1"


def test_a_victim_that_never_ends_is_not_waited_for_for_ever(world: World) -> None:
    """A pod says itself how long it takes to end: after a quarter of an hour the next one goes."""
    full(world)
    vip = refused(world, "vip")
    world.one.turn()
    for _ in range(4):
        world.one.wait(301)
        world.one.turn()
        assert world.one.ask(vip) == ""
        world.one.turn()
    assert evicted(world) == ["lower", "low"]
    gone(world, "low")
    assert world.one.bind(vip, world.one.ask(vip)) == ""


def test_a_replica_that_does_not_lead_evicts_nobody(world: World) -> None:
    full(world)
    refused(world, "vip")
    world.clock.now += 20
    world.one.turn()
    assert evicted(world) == []


def test_victims_are_no_conflict_of_grants(world: World) -> None:
    full(world)
    refused(world, "vip")
    world.one.turn()
    victim = world.api.by_name["default", "lower"]
    grant = world.one.view.ledger.grant(victim.uid)
    assert isinstance(grant, Grant)
    world.one.allocator.release(victim.uid)
    world.api.put(structs.replace(victim, created="2026-11-21T07:00:01Z"))
    world.one.turn()
    assert [verb for verb, _ in world.api.written if verb == "delete"] == []
    assert world.one.view.ledger.grant("uid-vip") is not None


def test_explain_says_for_what_a_preemptor_waits(world: World) -> None:
    full(world)
    refused(world, "vip")
    world.one.turn()
    (entry,) = world.one.explainer.waiting()
    assert (entry.pod, entry.reason) == ("vip", "preempting")
    assert entry.text == "card n1-1 of n1 is kept for it and still used by default/lower"


def advised(world: World, made: Pod, **candidates: list[str]) -> dict[str, list[str]]:
    return {node: list(uids) for node, uids in world.one.preemption.advise(made, candidates).items()}


def test_kube_scheduler_is_told_whose_leaving_makes_room_on_a_card(world: World) -> None:
    for name, mem in (("a", 8), ("b", 8), ("c", 8), ("d", 8)):
        hold(world, name, mem)
    vip = world.pod("vip", 16, None, priority=10)
    # By units any two pods would do; on a card it must be a and b, or c and d.
    assert advised(world, vip, n1=["uid-a", "uid-c"]) == {"n1": ["uid-a", "uid-b"]}
    assert evicted(world) == [], "kube-scheduler does it itself"
    assert world.one.ask(vip) == ""
    for name in ("a", "b"):
        gone(world, name)
    assert world.one.ask(world.pod("small", 4, None)) == "", "it is held for vip"
    assert world.one.bind(vip, world.one.ask(vip)) == ""


def test_a_pod_that_our_watch_has_not_shown_yet_is_advised_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler asks once, and then not before something changes."""
    full(world)
    monkeypatch.setattr(world.one, "hear", lambda _: None)
    vip = world.pod("vip", 16, None, priority=10)
    assert advised(world, vip, n1=["uid-low"]) == {"n1": ["uid-lower"]}


def test_kube_scheduler_does_not_wait_for_a_search_in_the_background(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for no other pod before it has its answer, and a search of thousands of nodes takes seconds."""
    one, paused, resume = world.one, threading.Event(), threading.Event()
    monkeypatch.setattr(search, "TURN_SECONDS", 0.0)

    def wait(_: float) -> None:
        paused.set()
        assert resume.wait(60.0)

    one.preemption = Preemption(one.shared, world.api, wait)
    full(world)
    refused(world, "slow")
    vip = world.pod("vip", 16, None, priority=10)
    answers: list[dict[str, list[str]]] = []
    background, asked = Apart(), Apart()
    background.run(one.preemption.step)
    assert paused.wait(60.0)
    asked.run(lambda: answers.append(advised(world, vip, n1=["uid-low"])))
    try:
        asked.join()
        assert answers == [{"n1": ["uid-lower"]}]
    finally:
        resume.set()
        background.join()
    assert evicted(world) == ["low"], "the search sees what was decided meanwhile"


def test_a_pod_refused_before_our_watch_has_shown_it_preempts_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(world)
    monkeypatch.setattr(world.one, "hear", lambda _: None)
    vip = refused(world, "vip")
    world.one.preemption.step()
    assert evicted(world) == ["lower"]
    assert world.one.view.ledger.reservation(vip.uid) is not None


def test_while_victims_are_leaving_kube_scheduler_gets_no_more(world: World) -> None:
    full(world)
    vip = world.pod("vip", 16, None, priority=10)
    assert advised(world, vip, n1=["uid-low"]) == {"n1": ["uid-lower"]}
    world.api.put(structs.replace(world.api.by_name["default", "lower"], deleting=True))
    assert advised(world, vip, n1=["uid-low"]) == {}


def test_an_eviction_that_did_not_happen_is_advised_again(world: World) -> None:
    full(world)
    vip = world.pod("vip", 16, None, priority=10)
    assert advised(world, vip, n1=["uid-low"]) == advised(world, vip, n1=["uid-low"]) == {"n1": ["uid-lower"]}


def test_no_node_is_advised_where_nobodys_leaving_makes_room(world: World) -> None:
    hold(world, "high", 12, priority=20)
    hold(world, "low", 4, priority=0)
    hold(world, "peer", 12, priority=10)
    vip = world.pod("vip", 16, None, priority=10)
    assert advised(world, vip, n1=["uid-low"]) == {}
    assert advised(world, world.pod("elsewhere", 16, None, priority=30), n2=["uid-x"]) == {}


def test_what_the_host_lacks_only_kube_scheduler_can_free(world: World) -> None:
    world.one.view.node_news.see(replace(world.api.by_node["n1"], room=HostAmounts(4000, 4096)))
    hog = world.api.put(Pod("default", "hog", "uid-hog", node="n1", host=HostAmounts(4000, 0)))
    vip = world.pod("vip", 16, None, priority=10, host=HostAmounts(1000, 0))
    assert advised(world, vip, n1=[hog.uid]) == {"n1": [hog.uid]}


def test_a_pod_without_slices_is_kube_schedulers_own_business(world: World) -> None:
    plain = Pod("default", "plain", "uid-plain", priority=10)
    assert advised(world, plain, n1=["uid-x"]) == {"n1": ["uid-x"]}


def test_older_pods_that_nothing_helps_do_not_keep_a_younger_one_from_its_turn(world: World) -> None:
    full(world)
    hopeless = [refused(world, f"hopeless-{i}", 17) for i in range(2 * SEARCHES)]
    refused(world, "vip", created="2026-11-21T07:30:00Z")
    for _ in range(3):
        world.one.turn()
        for made in hopeless:
            assert world.one.ask(made) == ""
    assert evicted(world) == ["lower"]


def test_namespaces_take_turns_within_a_priority(world: World) -> None:
    full(world)
    for number in range(30):
        refused(world, f"hopeless-{number}", 17, namespace="tenant", created="2026-11-21T06:00:00Z")
    refused(world, "vip")
    world.one.turn()
    assert evicted(world) == ["lower"]


def test_no_two_namespaces_fill_the_memory_of_those_that_may_preempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(world.one.allocator.waiting.preemption, "most", 8)
    monkeypatch.setattr(world.one.allocator.waiting.preemption, "most_of_namespace", 6)
    full(world)
    for number in range(20):
        refused(world, f"hopeless-{number}", 17, namespace=f"tenant-{number % 2}")
    assert len(world.one.allocator.waiting.preemption) == 8
    refused(world, "vip")
    assert len(world.one.allocator.waiting.preemption) == 8
    world.one.turn()
    assert evicted(world) == ["lower"]


def test_pods_in_the_queue_share_the_names_of_their_nodes(world: World) -> None:
    full(world)
    queue = world.one.allocator.waiting.preemption
    for name in ("first", "second"):
        made = world.pod(name, 16, None, priority=10)
        world.one.filter(made, [chr(code) for code in (110, 111)])
    first, second = queue.take(), queue.take()
    assert first is not None
    assert second is not None
    assert first.nodes is second.nodes
    assert list(first.nodes) == ["n", "o"]


def test_where_all_are_equal_nothing_is_remembered_of_the_refused(world: World) -> None:
    hold(world, "a", 16)
    hold(world, "b", 16)
    refused(world, "c", priority=0)
    assert world.one.allocator.waiting.preemption.take() is None
