"""Gangs between the first /filter and the last Binding: late news, other nodes and leaders, what /explain says."""

import itertools
import random
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_mock import MockerFixture

from device_plugin.allocator.gangs import gangs
from device_plugin.allocator.waiting.refusal_budget import BURST, SHARE
from device_plugin.core.gang import place_all
from device_plugin.core.pods import Pod
from tests.cluster.gang_pods import gang, member, more_nodes, placed, said
from tests.cluster.world import RESERVATION_SECONDS, Replica, World, refuse

ALL = [16368, 16368]
WAITS = "group train waits for 1 more pod (2 of 3 exist)"


def test_nobody_waits_for_what_our_watch_has_not_shown_yet(world: World, one: Replica) -> None:
    world.api.watchers.remove(one)
    late = gang(world, 2)
    expected = "group train waits until all of its 2 pods exist"
    assert one.filter(late[1], ["n1"]).hopeless == {"n1": expected}
    for made in late:
        one.hear(made)
    assert one.ask(late[1]) == "n1"


def test_a_slice_on_a_node_that_is_not_offered_is_moved_alone(world: World, one: Replica) -> None:
    more_nodes(world, "n2")
    pods = gang(world, 3)
    assert one.ask(pods[0]) == "n1"
    assert one.ask(pods[1], "n2") == "n2"
    nodes = {grant.pod: grant.node for grant in one.view.ledger.grants().values()}
    assert nodes == {"uid-train-0": "n1", "uid-train-1": "n2", "uid-train-2": "n1"}


def test_where_one_cannot_be_moved_the_gang_is_decided_again(world: World, one: Replica) -> None:
    more_nodes(world, "n2", count=1)
    assert one.ask(world.pod("other"), "n2") == "n2"
    flexible = world.api.put(member("flexible", 2, "pair", constraints=1))
    strict = world.api.put(member("strict", 2, "pair", constraints=2))
    # Until it is asked for, nobody knows that the strict one may not go where the flexible one may.
    assert one.ask(flexible, "n1", "n2") == "n2"
    assert one.ask(strict, "n2") == "n2"
    assert one.ask(flexible, "n1", "n2") == "n1"
    assert len(one.view.ledger.grants()) == 3


def test_pods_that_may_go_to_different_nodes_are_placed_on_theirs(world: World, one: Replica) -> None:
    more_nodes(world, "n2")
    here = [world.api.put(member(f"here-{i}", 8, constraints=1)) for i in range(4)]
    there = [world.api.put(member(f"there-{i}", 8, constraints=2)) for i in range(4)]
    assert one.ask(here[0], "n1") == ""
    assert one.ask(there[0], "n2") == "n2"
    assert [one.ask(made, "n1") for made in here] == ["n1"] * 4
    assert [one.ask(made, "n2") for made in there] == ["n2"] * 4


def test_a_refused_gang_is_not_tried_again_before_something_became_free(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    pods = gang(world, 5)
    tried = mocker.spy(gangs, "place_all")
    assert placed(one, pods) == [""] * 5
    other = world.pod("other", mem=1, cores=1)
    assert one.ask(other) == "n1"
    assert placed(one, pods) == [""] * 5
    assert tried.call_count == 1
    world.api.end(other)
    assert placed(one, pods) == [""] * 5
    assert tried.call_count == 2
    more_nodes(world, "n2")
    assert "" not in placed(one, pods)


@pytest.mark.no_cover
def test_a_gang_that_nothing_helps_takes_a_tenth_of_the_time_at_most(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    """Else whoever asks for a thousand pods too many stops all placing: each slice that is freed is a reason to try."""
    seconds = 1.0

    def slow(*args: Any) -> Any:
        world.clock.now += seconds
        return place_all(*args)

    mocker.patch.object(gangs, "place_all", slow)
    rng = random.Random(seed := 11)
    print("seed", seed)
    large = [*gang(world, 5, "one"), *gang(world, 6, "two")]
    started, busy, later = world.clock.now, 0.0, 0
    for number in itertools.count():
        if world.clock.now >= started + 1000:
            break
        world.api.end(world.placed(f"other-{number}"))
        before = world.clock.now
        verdict = one.filter(rng.choice(large), ["n1"])
        assert verdict.nodes == ()
        # kube-scheduler asks again by itself after an error, and after a refusal only when something happens.
        assert bool(verdict.hopeless) != bool(verdict.error)
        later += "waits for its turn to be tried" in verdict.error
        busy += world.clock.now - before
        world.clock.now += 0.5
        one.renew()
    assert 0.8 * SHARE <= busy / 1000 <= 1.2 * SHARE + BURST / 1000
    assert later > 1000
    seconds = 0.0
    more_nodes(world, "n2")
    one.wait(100)
    assert "" not in placed(one, large[:5]), "it is tried again once something helps"


def test_a_refused_binding_leaves_the_slice_with_its_pod(world: World, one: Replica) -> None:
    pods = gang(world, 4)
    assert placed(one, pods) == ["n1"] * 4
    world.api.on_bind = refuse
    assert "only the allocator" in one.bind(pods[0])
    world.api.on_bind = None
    assert one.ask(world.pod("thief", mem=8, cores=30)) == ""
    for made in pods:
        assert one.bind(made) == ""


def test_a_new_leader_completes_what_is_half_bound_before_anybody_else(world: World, one: Replica) -> None:
    pods = gang(world, 4)
    for made in pods[:2]:
        assert one.bind(made, one.ask(made)) == ""
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    two.lead()
    assert two.ask(world.pod("thief", mem=8, cores=30)) == ""
    for made in pods[2:]:
        assert two.bind(made, two.ask(made)) == ""


def test_a_new_leader_reserves_nothing_for_gangs_of_which_nobody_is_bound(world: World, one: Replica) -> None:
    pods = gang(world, 4)
    assert one.ask(pods[0]) == "n1"
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    two.lead()
    assert two.free() == ALL


def test_a_late_bind_at_a_new_leader_places_the_rest_elsewhere_or_nobody(world: World, one: Replica) -> None:
    pods = gang(world, 5)
    more_nodes(world, "n2")
    assert one.ask(pods[0], "n1", "n2")
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    two.lead()
    assert two.bind(pods[0], "n1") == ""
    assert len(two.view.ledger.grants()) == 5
    assert all(two.ask(made, "n1", "n2") for made in pods[1:])


def test_losing_the_lease_frees_what_was_only_reserved(world: World, one: Replica) -> None:
    pods = gang(world, 4)
    assert placed(one, pods) == ["n1"] * 4
    one.allocator.drop()
    assert one.free() == ALL


def test_with_node_score_each_goes_to_a_node_of_its_own_with_a_rank_of_its_own(
    world: World, one: Replica
) -> None:
    more_nodes(world, "n2", "n3")
    score = {"vgpu.io/policy": "node-score"}
    pods = gang(world, 3, annotations=score)
    nodes = placed(one, pods)
    assert sorted(nodes) == ["n1", "n2", "n3"]
    for made, node in zip(pods, nodes, strict=True):
        assert one.bind(made, node) == ""
    bound = [world.api.by_name["default", made.name] for made in pods]
    assert [made.label("vgpu.io/rank") for made in bound] == ["0", "1", "2"]
    one_too_many = gang(world, 4, "larger", annotations=score)
    assert said(one, one_too_many[0], "n1", "n2", "n3") == "group larger: no room for all 4 pods at once"


def test_explain_shows_gangs_and_why_they_wait(world: World, one: Replica) -> None:
    pods = [world.api.put(member(name, 3)) for name in ("a", "b")]
    view = one.explainer.view()
    (entry,) = view["gangs"]
    assert entry == {
        "namespace": "default", "group": "train", "sizes": [3], "pods": ["a", "b"], "reserved": 0, "bound": 0,
        "finished": 0, "why": WAITS,
    }  # fmt: skip
    assert [(w["text"], w["reason"]) for w in view["waiting"]] == [(WAITS, "gang")] * 2
    pods.append(world.api.put(member("c", 3)))
    assert one.bind(pods[0], one.ask(pods[0])) == ""
    (entry,) = one.explainer.view("default/b")["gangs"]
    assert (entry["reserved"], entry["bound"], entry["why"]) == (2, 1, "")
    assert one.explainer.view("default/elsewhere")["gangs"] == []


def test_explain_shows_no_gang_whose_last_pods_are_ending(world: World, one: Replica) -> None:
    (alone,) = gang(world, 1)
    assert one.bind(alone, one.ask(alone)) == ""
    world.api.put(replace(world.api.by_name["default", alone.name], deleting=True))
    view = one.explainer.view()
    assert view["gangs"] == []
    assert view["nodes"][0]["cards"][0]["slices"]


def test_explain_says_what_a_refused_gang_lacks(world: World, one: Replica) -> None:
    pods = gang(world, 5)
    assert [w.text for w in one.explainer.waiting()] == [
        "all pods of its group exist; kube-scheduler has not tried it yet"
    ] * 5
    one.ask(pods[0])
    assert {(w.text, w.reason) for w in one.explainer.waiting()} == {
        ("group train: room for 4 of 5 pods", "gang-room")
    }


def test_a_pod_that_left_its_gang_while_its_binding_was_on_its_way_keeps_nothing_when_that_fails(
    world: World, one: Replica
) -> None:
    """Its reservation would have ended with those of the gang, and it is in none: nothing would ever end it."""
    first, _ = gang(world, 2)
    assert one.ask(first) == "n1"

    def leaves_and_fails(pod: Pod, *_: object) -> None:
        world.api.put(replace(pod, labels=None))
        refuse()

    world.api.on_bind = leaves_and_fails
    assert one.bind(first) != ""
    one.wait(RESERVATION_SECONDS + 2)
    one.housekeeping.step()
    assert one.free() == ALL


def test_what_a_gang_gives_back_because_it_may_not_go_there_is_heard_of_by_those_that_wait(
    world: World, one: Replica
) -> None:
    red, blue = gang(world, 4, "red"), gang(world, 4, "blue")
    assert one.filter(red[0], ["n1"]).nodes == ("n1",)
    assert one.filter(blue[0], ["n1"]).nodes == ()
    assert one.filter(red[0], ["without-cards"]).nodes == ()
    assert one.free() == ALL
    assert one.filter(blue[0], ["n1"]).nodes == ("n1",)


def test_of_gangs_that_are_no_more_nothing_is_remembered(world: World, one: Replica) -> None:
    """Whoever makes and unmakes gangs for days must not fill the memory."""
    (moved,) = gang(world, 1, "moved", mem=17)
    (left, alone) = gang(world, 1, "left", mem=17), world.pod("alone", labels={"vgpu.io/group": "left"})
    assert placed(one, [moved, *left]) == ["", ""]
    world.api.put(replace(moved, labels=None))
    world.api.end(left[0])
    world.api.end(alone)
    assert one.allocator.groups.gangs() == []
    assert len(one.allocator.gangs.offered) == 0


def test_of_pods_that_came_and_went_in_a_gang_nothing_is_remembered(world: World, one: Replica) -> None:
    """Whoever keeps one pod of a gang, and makes and unmakes others that all differ, must not fill the memory."""
    stays = world.api.put(member("stays", 3))
    for cores in range(1, 60):
        passing = world.api.put(member(f"p{cores}", 3, cores=cores))
        assert placed(one, [stays, passing]) == ["", ""]
        world.api.end(passing)
    assert placed(one, [stays]) == [""]
    assert len(one.allocator.gangs.offered) == 1
    assert len(one.allocator.groups.group(("default", "train")).classes) == 1


def test_a_pod_that_is_deleted_before_it_is_bound_holds_nothing_though_a_finalizer_keeps_it(
    world: World, one: Replica
) -> None:
    first, second = gang(world, 2)
    assert placed(one, [first, second]) == ["n1", "n1"]
    for made in (first, second):
        world.api.put(replace(made, deleting=True))
    assert one.free() == ALL
    assert one.ask(first) == ""
    assert one.free() == ALL


def test_a_pod_that_is_deleted_while_its_binding_is_on_its_way_holds_nothing_when_that_fails(
    world: World, one: Replica
) -> None:
    first, second = gang(world, 2)
    assert one.ask(first) == "n1"

    def deleted(pod: Pod, *_: object) -> None:
        world.api.put(replace(pod, deleting=True))
        refuse()

    world.api.on_bind = deleted
    assert one.bind(first) != ""
    world.api.put(replace(second, deleting=True))
    assert one.free() == ALL
