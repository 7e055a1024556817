"""Pods that ask by claims: /filter, and the claims that change under it."""

import pytest

from device_plugin.core.ledger import ReservationStage
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import pod_request
from device_plugin.state import pods
from tests.builders.cards import inventory, preparing
from tests.builders.claims import claim, claim_pod
from tests.builders.pods import HALF, pod
from tests.cluster.world import Replica, World

ALL, HELD = [16368, 16368], [16368 - HALF, 16368]


@pytest.fixture
def world() -> World:
    return World(claims=True)


def refused(one: Replica, asked: object) -> str:
    """The one text with which the pod is refused on all nodes."""
    verdict = one.filter(asked, ["n1"])  # type: ignore[arg-type]
    assert (verdict.nodes, verdict.error) == ((), "")
    (text,) = verdict.hopeless.nodes_by_text
    return text


def shows(world: World, *, claims: bool, node: str = "n1") -> None:
    """The agent of the node publishes whether the kubelet knows it as a driver."""
    world.node(node, preparing(node) if claims else inventory(node))
    world.one.view.node_news.see(world.api.by_node[node])


def touches(world: World, seconds: float = 2.0) -> list[str]:
    """The names of the pods that are touched within these seconds."""
    world.api.written.clear()
    end = world.clock.now + seconds
    while world.clock.now < end:
        world.clock.now += 0.25
        world.one.touch.step()
    return [name for what, name in world.api.written if what == "touch"]


def test_a_pod_is_placed_by_its_claim_and_its_grant_names_the_claim(world: World, one: Replica) -> None:
    world.api.put_claim(claim())
    assert one.ask(world.api.put(claim_pod("p"))) == "n1"
    grant = one.view.ledger.grant("uid-p")
    assert grant is not None
    assert grant.claims == {"main": "uid-slice"}
    assert one.free() == HELD


def test_an_unknown_claim_is_refused_without_a_call_and_touched_once_it_comes(
    world: World, one: Replica
) -> None:
    made = world.api.put(claim_pod("p"))
    reads = world.api.reads
    assert "waits for ResourceClaim slice: it does not exist yet" in refused(one, made)
    assert world.api.reads == reads
    assert touches(world) == []
    world.api.put_claim(claim())
    assert touches(world) == ["p"]
    assert one.ask(made) == "n1"
    assert touches(world) == []


def test_a_claim_that_many_pods_name_reads_no_request_when_it_changes(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [world.api.put(claim_pod(f"p{n}")) for n in range(100)]
    read: list[str] = []

    def counted(asked: Pod, *rest: object) -> object:
        read.append(asked.name)
        return pod_request(asked, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(pods, "pod_request", counted)
    for uid in ("first", "second"):
        world.api.put_claim(claim(uid=uid))
        world.api.remove_claim("slice")
    world.api.put_claim(claim(uid="third"))
    assert read == []
    assert one.ask(made[0]) == "n1"
    grant = one.view.ledger.grant("uid-p0")
    assert grant is not None
    assert grant.claims == {"main": "third"}


def test_a_claim_that_comes_before_its_pod_is_recorded_is_not_missed(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, known = world.api.put(claim_pod("p")), one.view.pod_news.known

    def late(asked: object) -> object:
        world.api.put_claim(claim())
        return known(asked)  # type: ignore[arg-type]

    monkeypatch.setattr(one.view.pod_news, "known", late)
    assert one.ask(made) == "n1"


def test_a_claim_that_its_template_makes_later_is_waited_for(world: World, one: Replica) -> None:
    made = world.api.put(claim_pod("p", ""))
    assert "waits for the ResourceClaim of its claim gpu" in refused(one, made)
    world.api.put_claim(claim(pod_uid="uid-p"))
    named = world.api.put(claim_pod("p"))
    assert touches(world) == ["p"]
    assert one.ask(named) == "n1"


def test_a_refusal_that_kube_scheduler_writes_to_the_pod_is_no_news(world: World, one: Replica) -> None:
    refused(one, world.api.put(claim_pod("p")))
    world.api.put(claim_pod("p", refused=7))
    assert touches(world) == []


def test_a_reservation_for_a_claim_that_is_made_again_ends(world: World, one: Replica) -> None:
    made = world.api.put(claim_pod("p"))
    world.api.put_claim(claim())
    one.ask(made)
    world.api.put_claim(claim(uid="again"))
    assert one.free() == ALL
    one.ask(made)
    grant = one.view.ledger.grant("uid-p")
    assert grant is not None
    assert grant.claims == {"main": "again"}
    world.api.remove_claim("slice")
    assert one.free() == ALL


def test_a_change_of_the_claims_status_alone_ends_no_reservation(world: World, one: Replica) -> None:
    made = world.api.put(claim_pod("p"))
    stored = world.api.put_claim(claim())
    one.ask(made)
    stored["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    world.api.put_claim(stored)
    assert one.free() == HELD


def test_of_two_pods_of_one_claim_the_first_keeps_it(world: World, one: Replica) -> None:
    world.api.put_claim(claim())
    first, second = (world.api.put(claim_pod(name)) for name in "ab")
    assert one.ask(second) == "n1"
    assert "ResourceClaim slice is used by pod b: give each pod a claim of its own" in refused(one, first)
    assert touches(world) == []
    world.api.end(second)
    assert touches(world) == ["a"]
    assert one.ask(first) == "n1"


def test_a_wrong_use_of_a_claim_is_refused_with_what_to_write(world: World, one: Replica) -> None:
    world.api.put_claim(claim(allocationMode="All"))
    assert "allocationMode All is not served: write `count`" in refused(one, world.api.put(claim_pod("p")))


def test_a_claim_for_another_driver_is_refused_beside_limits_too(world: World, one: Replica) -> None:
    world.api.put_claim(claim(deviceClassName="gpu.example.com"))
    main = Container("main", ContainerKind.MAIN, {"hygon.com/dcu-mem": "4"}, ("gpu",))
    text = refused(one, world.api.put(claim_pod("p", containers=(main,))))
    assert "or names no device class of dcu.vgpu.io or hcu.vgpu.io" in text


def test_a_pod_that_asks_for_nothing_may_go_to_every_node(one: Replica) -> None:
    assert one.filter(pod("plain", containers=()), ["n1", "n2"]).nodes == ["n1", "n2"]


def test_pods_with_claims_ask_for_nothing_where_claims_are_not_served() -> None:
    without = World()
    without.api.put_claim(claim())
    assert without.one.filter(claim_pod("p"), ["n1"]).nodes == ["n1"]
    assert without.one.view.ledger.reservations() == []


def test_a_claim_pod_that_fits_nowhere_waits_for_room_as_others_do(world: World, one: Replica) -> None:
    world.api.put_claim(claim(capacity={"memory": "16Gi"}))
    holders = [world.placed(name) for name in "abcd"]
    made = world.api.put(claim_pod("p"))
    assert "lack memory" in refused(one, made)
    for each in holders[:2]:
        world.api.end(each)
    assert touches(world) == ["p"]


def test_a_node_that_prepares_no_claims_gets_no_pod_with_claims(world: World, one: Replica) -> None:
    shows(world, claims=False)
    world.api.put_claim(claim())
    made = world.api.put(claim_pod("p"))
    assert refused(one, made) == "on nodes that prepare no ResourceClaims"
    assert one.ask(world.pod("limits", 16, 60)) == "n1"
    shows(world, claims=True, node="n2")
    assert one.ask(made) == "n2"


def test_a_pod_that_no_agent_prepares_is_touched_once_its_agent_is_registered(
    world: World, one: Replica
) -> None:
    shows(world, claims=False)
    world.api.put_claim(claim())
    made = world.api.put(claim_pod("p"))
    refused(one, made)
    world.api.end(world.placed("limits"))
    assert touches(world) == []
    shows(world, claims=True)
    assert touches(world) == ["p"]
    assert one.ask(made) == "n1"


def test_remembered_refusals_of_claims_and_of_limits_are_kept_apart(world: World, one: Replica) -> None:
    shows(world, claims=False)
    for name in "ab":
        world.api.put_claim(claim(name))
        refused(one, world.api.put(claim_pod(f"by-{name}", name)))
    assert one.ask(world.pod("limits")) == "n1"


def test_a_reservation_on_a_node_that_prepares_claims_no_more_ends_at_its_binding(
    world: World, one: Replica
) -> None:
    world.api.put_claim(claim())
    made = world.api.put(claim_pod("p"))
    assert one.ask(made) == "n1"
    shows(world, claims=False)
    assert "on nodes that prepare no ResourceClaims" in one.bind(made)
    assert world.api.written == []
    assert one.free() == ALL


def test_nobody_is_evicted_for_a_claim_where_no_claim_is_prepared(world: World, one: Replica) -> None:
    for name in "abcd":
        world.placed(name)
    shows(world, claims=False)
    world.api.put_claim(claim())
    made = world.api.put(claim_pod("high", priority=100))
    refused(one, made)
    one.preemption.step()
    assert [what for what, _ in world.api.written if what == "evict"] == []
    shows(world, claims=True)
    refused(one, made)
    one.preemption.step()
    assert [what for what, _ in world.api.written if what == "evict"] == ["evict"]
    found = one.view.ledger.reservation("uid-high")
    assert found is not None
    assert found.stage is ReservationStage.NOMINATED
