"""/bind: one write, fenced; and what happens when nobody knows whether it happened."""

import threading
from collections.abc import Mapping
from dataclasses import replace

import pytest
from msgspec import structs

from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import CardSize, Grant
from device_plugin.core.ledger import ReservationStage
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from tests.builders.cards import inventory
from tests.builders.pods import HALF, grant, with_grant
from tests.cluster.world import RESERVATION_SECONDS, Apart, Replica, World, refuse

HELD = [16368 - HALF, 16368]
ALL = [16368, 16368]


def lost(*_: object) -> None:
    raise UnknownError("read timed out")


def test_the_binding_carries_the_reserved_grant_and_is_the_only_write(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    assert one.bind(made) == ""
    bound = world.api.by_name["default", "p"]
    assert bound.node == "n1"
    assert bound.grant() == Grant(
        "uid-p",
        "n1",
        {"main": bound.grant().containers["main"]},  # type: ignore[union-attr]
        cards={"n1-0": CardSize(16368, 4)},
    )
    assert one.view.ledger.grant("uid-p") == bound.grant()
    assert world.api.written == [("bind", "p")]
    assert one.view.ledger.reservations() == []
    assert one.counts.outcomes == {"bound": 1}


def test_without_a_reservation_it_places_again_on_the_named_node(world: World, one: Replica) -> None:
    made = world.pod("p")
    assert one.bind(made) == ""
    assert world.api.by_name["default", "p"].node == "n1"
    assert one.free() == HELD


def test_a_second_call_that_read_the_pod_before_the_first_one_bound_it_changes_nothing(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world.pod("p")
    node = one.ask(made)
    claimed = one.allocator.claim(made.uid, node)
    assert claimed is not None
    read = world.api.get

    def late(*args: object) -> object:
        unbound = read(*args)  # type: ignore[arg-type]
        monkeypatch.undo()
        world.api.land(made, node, {annotations.GRANT: claimed.grant.encode()})
        return unbound

    # The best place is another one now.
    taken = world.pod("q")
    world.api.put(with_grant(taken, grant(taken, "n1-1").encode()))
    monkeypatch.setattr(world.api, "get", late)
    assert one.bind(made, node) == ""
    assert one.view.ledger.grant(made.uid) == world.api.by_name["default", "p"].grant()
    assert one.view.ledger.reservations() == []


def test_a_reservation_on_another_node_moves_to_the_named_one(world: World, one: Replica) -> None:
    world.node("n2", inventory("n2"))
    one.view.node_news.sync(world.api.nodes())
    made = world.pod("p")
    assert one.ask(made, "n1") == "n1"
    assert one.bind(made, "n2") == ""
    assert (one.free("n1"), one.free("n2")) == (ALL, HELD)


def test_no_room_on_the_named_node_is_told_in_words(world: World, one: Replica) -> None:
    for name in ("a", "b", "c"):
        world.placed(name)
    text = one.bind(world.pod("p", mem=16, cores=60), "n1")
    assert text.startswith("2 cards: 2 lack memory (largest free 8 GiB); ")
    assert one.counts.outcomes["unplaced"] == 1


def test_a_pod_of_another_uid_is_not_bound(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.end(made)
    world.pod("p", uid="another")
    assert one.bind(made) == "another pod has the name default/p now"
    assert world.api.by_name["default", "p"].node == ""
    assert one.free() == ALL


def test_a_pod_that_is_bound_there_already_is_fine(world: World, one: Replica) -> None:
    placed = world.placed("p")
    assert one.bind(placed) == ""
    assert world.api.written == [("bind", "p")]


def test_a_pod_that_is_bound_elsewhere_is_not(world: World, one: Replica) -> None:
    made = world.pod("p")
    world.api.put(structs.replace(made, node="n2"))
    assert one.bind(made) == "pod default/p is bound to n2 already"


def test_a_refused_binding_frees_the_slice(world: World, one: Replica) -> None:
    world.api.on_bind = refuse
    made = world.pod("p")
    one.ask(made)
    assert "only the allocator" in one.bind(made)
    assert one.free() == ALL
    assert one.counts.outcomes == {"refused": 1}


def test_a_pod_that_vanished_meanwhile_frees_the_slice(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.watchers.clear()
    world.api.end(made)
    assert "not found" in one.bind(made)
    assert one.free() == ALL
    assert one.counts.outcomes == {"gone": 1}


def test_a_lost_answer_is_looked_up(world: World, one: Replica) -> None:
    def happens_unheard(pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        world.api.land(pod, node, annotations)
        raise UnknownError("read timed out")

    world.api.watchers.clear()
    world.api.on_bind = happens_unheard
    made = world.pod("p")
    one.ask(made)
    assert one.bind(made) == ""
    assert one.free() == HELD
    assert one.counts.outcomes == {"bound": 1}


def test_what_nobody_knows_stays_reserved_until_it_is_known(world: World, one: Replica) -> None:
    late: list[tuple[Pod, str, Mapping[str, str]]] = []

    def happens_later(*call: object) -> None:
        late.append(call)  # type: ignore[arg-type]
        raise UnknownError("read timed out")

    world.api.watchers.clear()
    world.api.on_bind = happens_later
    made = world.pod("p")
    one.ask(made)
    assert one.bind(made)
    # Asked again meanwhile, it says so and keeps the slice.
    assert "not known yet" in one.filter(made, ["n1"]).error
    assert one.bind(made)
    assert one.free() == HELD
    world.api.land(*late[0])
    world.clock.now += 5.0
    one.housekeeping.step()
    assert (one.free(), one.view.ledger.reservations()) == (HELD, [])
    assert len(late) == 1


def test_after_the_servers_own_timeout_it_did_not_happen(world: World, one: Replica) -> None:
    world.api.on_bind = lost
    made = world.pod("p")
    one.ask(made)
    assert "read timed out" in one.bind(made)
    world.clock.now += 5.9
    one.housekeeping.step()
    assert one.free() == HELD
    world.clock.now += 0.1
    one.housekeeping.step()
    assert one.free() == ALL
    one.lead()
    world.api.on_bind = None
    assert one.ask(made) == "n1"
    assert one.bind(made) == ""


def test_it_is_not_given_up_while_the_api_server_is_away(world: World, one: Replica) -> None:
    world.api.on_bind = lost
    made = world.pod("p")
    one.ask(made)
    world.api.away = True
    assert one.bind(made)
    world.clock.now += 10 * RESERVATION_SECONDS
    one.housekeeping.step()
    assert one.free() == HELD
    world.api.away = False
    one.housekeeping.step()
    assert one.free() == ALL


def test_a_binding_under_way_does_not_expire(world: World, one: Replica) -> None:
    def slow(pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        world.clock.now += 2 * RESERVATION_SECONDS
        one.housekeeping.step()
        assert one.free() == HELD
        world.api.land(pod, node, annotations)

    world.api.on_bind = slow
    made = world.pod("p")
    one.ask(made)
    assert one.bind(made) == ""
    assert one.free() == HELD


def test_an_old_lease_sends_no_binding(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.clock.now += 10.0
    assert "was not renewed" in one.bind(made)
    assert world.api.written == []
    assert one.counts.outcomes == {"fenced": 1}


def test_a_lease_that_grew_old_while_the_pod_was_read_sends_no_binding(world: World, one: Replica) -> None:
    made = world.pod("p")
    read = world.api.pod

    def slowly(namespace: str, name: str) -> Pod:
        world.clock.now += 10.0
        return read(namespace, name)

    world.api.pod = slowly  # type: ignore[method-assign]
    assert "was not renewed" in one.bind(made)
    assert world.api.written == []
    assert one.free() == ALL


def test_a_watch_that_shows_the_pod_unbound_after_its_binding_frees_nothing(
    world: World, one: Replica
) -> None:
    made = world.pod("p")
    one.ask(made)
    one.bind(made)
    one.hear(made)
    assert one.free() == HELD


def test_bindings_of_different_pods_run_at_the_same_time(world: World, one: Replica) -> None:
    together, apart, errors = threading.Barrier(4, timeout=60.0), Apart(), []

    def slow(pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        together.wait()
        world.api.land(pod, node, annotations)

    world.api.on_bind = slow
    pods = [world.pod(f"p{i}", mem=4, cores=15) for i in range(4)]
    for made in pods:
        one.ask(made)
        apart.run(lambda made=made: errors.append(one.bind(made)))  # type: ignore[misc]
    apart.join()
    assert errors == [""] * 4


def test_of_two_binds_of_one_pod_one_is_sent(world: World, one: Replica) -> None:
    sent, go, apart, errors = threading.Event(), threading.Event(), Apart(), []

    def slow(pod: Pod, node: str, annotations: Mapping[str, str]) -> None:
        sent.set()
        assert go.wait(60.0)
        world.api.land(pod, node, annotations)

    world.api.on_bind = slow
    made = world.pod("p")
    one.ask(made)
    apart.run(lambda: errors.append(one.bind(made)))
    assert sent.wait(60.0)
    assert [r.stage for r in one.view.ledger.reservations()] == [ReservationStage.BINDING]
    assert one.bind(made) == "another Binding of the pod is under way: try again"
    go.set()
    apart.join()
    assert errors == [""]
    assert world.api.written == [("bind", "p")]


@pytest.mark.parametrize("gone", [True, False])
def test_a_binding_that_overtakes_a_reservation_wins(world: World, one: Replica, *, gone: bool) -> None:
    # What a former leader bound in its last moment: a waiting reservation gives way, a live grant is left to judge.
    mine, theirs = world.pod("mine"), world.pod("theirs")
    one.ask(mine)
    world.api.put(with_grant(theirs, grant(theirs).encode()))
    assert one.view.ledger.grant("uid-mine") is None
    if gone:
        world.api.end(mine)
        assert "not found" in one.bind(mine)
    else:
        assert one.bind(mine) == ""
    assert one.view.suspects() == set()


def test_a_card_that_was_cordoned_since_it_was_chosen_gets_nothing_new(world: World, one: Replica) -> None:
    """`vgpu drain` says that a card is empty when no pod that is bound holds any of it."""
    made = world.pod("p")
    assert one.ask(made) == "n1"
    first = one.view.ledger.reservation("uid-p")
    assert first is not None
    (chosen,) = {s.card for s in first.grant.slices()}
    one.view.node_news.see(replace(world.api.by_node["n1"], cordoned=chosen))
    assert one.bind(made) == ""
    bound = world.api.by_name["default", "p"].grant()
    assert bound is not None
    assert chosen not in {s.card for s in bound.slices()}
