"""Allocations that a crash left behind are cleared; those of bound pods never."""

from typing import Any

import pytest
from msgspec import structs

from device_plugin.core.contract.claims import read_claim
from device_plugin.kube.errors import ConflictError, UnknownError
from tests.builders.cards import inventory
from tests.builders.claims import CLASS, claim, claim_pod
from tests.cluster.test_claim_writes import CrashError, another_leader, consistent, crashing, placed
from tests.cluster.world import Replica, World


@pytest.fixture
def world() -> World:
    made = World(claims=True)
    made.api.put_claim(claim())
    return made


def devices(world: World) -> int:
    return len(read_claim(world.api.claims["default", "slice"]).devices)


def turns(world: World, one: Replica, seconds: float = 10.0) -> None:
    """Run the periodic work of the replica once for each of these seconds."""
    for _ in range(int(seconds)):
        world.clock.now += 1.0
        one.renew()
        one.turn()


def given(**status: Any) -> dict[str, Any]:
    """The claim with a device of ours that no grant names."""
    results = [{"request": "card", "driver": CLASS, "pool": "n1", "device": "card-0000-1a-00-0"}]
    return {**claim(), "status": {"allocation": {"devices": {"results": results}}, **status}}


def test_after_a_crash_the_claim_of_a_pod_that_is_not_bound_is_cleared(world: World, one: Replica) -> None:
    made = placed(world)
    world.api.after_claim = crashing("status")
    with pytest.raises(CrashError):
        one.bind(made)
    two = another_leader(world)
    turns(world, two, 10.0)
    assert devices(world) == 0
    assert two.ask(made) == "n1"
    assert two.bind(made) == ""
    consistent(world)


def test_the_claim_of_a_bound_pod_stays(world: World, one: Replica) -> None:
    assert one.bind(placed(world)) == ""
    world.api.written.clear()
    turns(world, one, 30.0)
    assert world.api.written == []
    consistent(world)


def test_a_claim_whose_binding_is_under_way_stays_until_that_is_settled(world: World, one: Replica) -> None:
    made = placed(world)

    def lost(*_: object) -> None:
        raise UnknownError("read timed out")

    world.api.on_bind = lost
    assert one.bind(made)
    turns(world, one, 4.0)
    assert devices(world) == 1
    turns(world, one, 10.0)
    assert devices(world) == 0, "the Binding has not happened, and cannot happen any more"


def test_a_claim_that_contradicts_the_grant_of_a_bound_pod_is_left_and_seldom_read(
    world: World, one: Replica
) -> None:
    made = placed(world)
    assert one.bind(made) == ""
    other = given(reservedFor=[{"resource": "pods", "name": "p", "uid": "uid-p"}])
    world.api.put_claim(other)
    world.api.written.clear()
    turns(world, one, 10.0)
    reads = world.api.reads
    one.turn()
    before = world.api.reads - reads
    turns(world, one, 10.0)
    assert world.api.written == []
    assert devices(world) == 1
    # A turn reads the Lease, and nothing of the claim.
    assert before == 0


def test_a_claim_of_a_bound_pod_without_a_grant_is_left(world: World, one: Replica) -> None:
    """A pod that is bound without us may have the claim: the kubelet reads it."""
    world.api.put(structs.replace(claim_pod("theirs", scheduler="default-scheduler"), node="n1"))
    world.api.put_claim(given(reservedFor=[{"resource": "pods", "name": "theirs", "uid": "uid-theirs"}]))
    turns(world, one)
    assert devices(world) == 1


def test_a_claim_reserved_for_a_pod_that_is_gone_is_cleared(world: World, one: Replica) -> None:
    world.api.put_claim(given(reservedFor=[{"resource": "pods", "name": "gone", "uid": "u"}]))
    turns(world, one)
    assert devices(world) == 0


def test_a_conflict_or_an_api_server_that_is_away_only_delays_it(world: World, one: Replica) -> None:
    conflicts = [ConflictError("the object has been modified")]

    def changed(_: str) -> None:
        if conflicts:
            raise conflicts.pop()

    world.api.put_claim(given())
    world.api.on_claim = changed
    turns(world, one)
    assert devices(world) == 0


def test_only_the_leader_clears(world: World) -> None:
    two = Replica(world.api, world.clock, "vgpu-1", claims=True)
    two.follow()
    world.api.put_claim(given())
    for _ in range(20):
        world.clock.now += 1.0
        two.turn()
    assert devices(world) == 1


def test_a_device_of_another_driver_is_not_ours_to_clear(world: World, one: Replica) -> None:
    other = given()
    other["status"]["allocation"]["devices"]["results"][0]["driver"] = "gpu.example.com"
    world.api.put_claim(other)
    turns(world, one)
    assert devices(world) == 1


def test_while_a_node_shows_no_cards_its_claims_stay(world: World, one: Replica) -> None:
    assert one.bind(placed(world)) == ""
    world.node("n1", None)
    one.view.node_news.sync(world.api.nodes())
    world.api.written.clear()
    turns(world, one)
    world.node("n1", inventory("n1"))
    one.view.node_news.sync(world.api.nodes())
    turns(world, one)
    assert world.api.written == []


def test_bind_waits_for_a_claim_that_is_being_cleared(world: World, one: Replica) -> None:
    made = placed(world)
    world.api.put_claim(given())
    answers: list[str] = []

    def meanwhile(_: str) -> None:
        if not answers:
            answers.append(one.bind(made))

    world.api.on_claim = meanwhile
    turns(world, one)
    assert answers == ["a claim of the pod is being cleared: try again"]
    one.ask(made)
    assert one.bind(made) == ""
    consistent(world)
