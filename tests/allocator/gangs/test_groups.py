"""Pods of one group with node-score: a node for each, the best to the first role, and role and rank as labels."""

import random
from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from pytest_mock import MockerFixture

from device_plugin.allocator.gangs import groups
from device_plugin.allocator.gangs.groups import Groups
from device_plugin.core.contract.reasons import Reason
from device_plugin.core.pods import Pod
from tests.builders.cards import inventory
from tests.builders.pods import pod
from tests.cluster.gang_pods import said
from tests.cluster.world import Replica, World

SCORED = {"vgpu.io/policy": "node-score"}


@pytest.fixture
def world(world: World) -> World:
    """Four nodes of 1, 2, 3 and 4 free cards of four: n4 is the best, n1 the worst."""
    for name in ("n1", "n2", "n3", "n4"):
        world.node(name, inventory(name, 4))
    world.one.view.node_news.sync(world.api.nodes())
    for name, taken in (("n1", 3), ("n2", 2), ("n3", 1)):
        for i in range(taken):
            selected = {"vgpu.io/card-uuid": f"{name}-{i}"}
            made = world.pod(f"on-{name}-{i}", 12, 30, annotations=selected)
            assert world.one.bind(made, world.one.ask(made, name)) == ""
    return world


def member(world: World, name: str, role: str, group: str = "train", **more: object) -> Pod:
    labels = {"vgpu.io/group": group, "vgpu.io/role": role}
    return world.pod(name, 2, 4, annotations=SCORED, labels=labels, **more)


def labels_of(world: World, names: Iterable[str]) -> dict[str, dict[str, str]]:
    found = {}
    for name in names:
        labels = world.api.by_name["default", name].labels or {}
        found[name] = {key.removeprefix("vgpu.io/"): value for key, value in labels.items()}
    return found


def test_the_best_nodes_go_to_the_first_roles_in_whatever_order_they_ask(
    world: World, one: Replica, rng: random.Random
) -> None:
    roles = {"chief": "chief", "w10": "worker-10", "w2": "worker-2"}
    pods = [member(world, name, role) for name, role in roles.items()]
    for made in rng.sample(pods, len(pods)):
        assert one.bind(made, one.ask(made)) == ""
    nodes = {name: world.api.by_name["default", name].node for name in roles}
    assert nodes == {"chief": "n4", "w2": "n3", "w10": "n2"}
    assert labels_of(world, roles) == {
        "chief": {"group": "train", "role": "chief", "rank": "0"},
        "w2": {"group": "train", "role": "worker-2", "rank": "1"},
        "w10": {"group": "train", "role": "worker-10", "rank": "2"},
    }


def test_the_best_nodes_go_to_the_first_roles_of_a_written_order(
    world: World, one: Replica, rng: random.Random
) -> None:
    ordered = {**SCORED, "vgpu.io/role-order": "worker,ps,chief"}
    roles = {"c": "chief", "p": "ps-0", "w": "worker-1"}
    pods = [replace(member(world, name, role), annotations=ordered) for name, role in roles.items()]
    for made in pods:
        world.api.put(made)
    for made in rng.sample(pods, len(pods)):
        assert one.bind(made, one.ask(made)) == ""
    assert {name: world.api.by_name["default", name].node for name in roles} == {
        "w": "n4",
        "p": "n3",
        "c": "n2",
    }
    assert {name: labels["rank"] for name, labels in labels_of(world, roles).items()} == {
        "w": "0", "p": "1", "c": "2",
    }  # fmt: skip


def test_a_group_with_two_orders_of_roles_waits_until_they_agree(world: World, one: Replica) -> None:
    ordered = {**SCORED, "vgpu.io/role-order": "b,a"}
    first = world.api.put(replace(member(world, "a", "a"), annotations=ordered))
    second = member(world, "b", "b")
    words = "the pods of group train have different annotations vgpu.io/role-order: write one order on all of them"
    assert said(one, first) == said(one, second) == words
    assert {entry.text for entry in one.explainer.waiting()} == {words}
    second = world.api.put(replace(second, annotations={**SCORED, "vgpu.io/role-order": " b, a"}))
    assert (one.ask(second), one.ask(first)) == ("n4", "n3")
    world.api.put(replace(first, phase="Succeeded", node="n3"))
    assert one.ask(world.api.put(replace(second, annotations=SCORED))) == "n4", "an ended pod does not matter"


def test_a_role_that_the_order_does_not_have_is_refused_with_the_list(world: World, one: Replica) -> None:
    ordered = {**SCORED, "vgpu.io/role-order": "master,worker"}
    odd = world.api.put(replace(member(world, "odd", "chief"), annotations=ordered))
    words = "role 'chief' is not in annotation vgpu.io/role-order: write one of master, worker"
    assert said(one, odd).startswith(words)


def test_reservations_count_before_they_are_bound(world: World, one: Replica) -> None:
    first, second = member(world, "a", "a"), member(world, "b", "b")
    assert (one.ask(second), one.ask(first), one.ask(second)) == ("n3", "n4", "n3")


def test_without_a_node_of_its_own_a_pod_waits_and_is_told_why(world: World, one: Replica) -> None:
    pods = [member(world, f"p{i}", f"r{i}") for i in range(5)]
    for made in pods[:4]:
        assert one.bind(made, one.ask(made)) == ""
    assert one.ask(pods[4]) == ""
    (waiting,) = one.explainer.waiting()
    assert (waiting.pod, waiting.reason) == ("p4", Reason.APART.value)
    assert "on nodes of other pods of its group" in waiting.text
    world.api.end(world.api.by_name["default", "p2"])
    assert one.ask(pods[4]) == "n2"


def test_pods_of_a_group_that_the_cards_refuse_are_refused_once_and_their_ranks_are_not_computed(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    large = [
        world.pod(
            f"p{number}", 17, None, annotations=SCORED,
            labels={"vgpu.io/group": f"g{number % 2}", "vgpu.io/role": f"w-{number}"},
        )
        for number in range(20)
    ]  # fmt: skip
    assert one.ask(large[0]) == ""
    decided, ranked = (
        mocker.spy(one.allocator.placer, "decide"),
        mocker.spy(one.allocator.groups, "ranks"),
    )
    assert [one.ask(made) for made in large for _ in range(2)] == [""] * 40
    assert (decided.call_count, ranked.call_count) == (0, 0)


def test_pods_that_find_no_node_of_their_own_are_decided_again_when_their_group_or_a_node_changes(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    placed = [member(world, f"p{i}", f"r{i}") for i in range(4)]
    for made in placed:
        assert one.bind(made, one.ask(made)) == ""
    late = [member(world, f"late{i}", f"w{i}") for i in range(3)]
    other = member(world, "other", "r", group="other")
    decided = mocker.spy(one.allocator.placer, "decide")
    assert [one.ask(made) for made in late * 2] == [""] * 6
    assert decided.call_count == 1
    assert one.ask(other), "nobody of its group is anywhere"
    assert [one.ask(made) for made in late] == [""] * 3
    assert decided.call_count == 2, "taking more makes nothing better"
    bound = world.api.by_name["default", "p0"]
    world.api.put(replace(bound, annotations={**(bound.annotations or {}), "vgpu.io/policy": "spread"}))
    assert one.ask(late[0]) == bound.node, "a pod of another policy is none of its group"


def test_a_replacement_gets_the_rank_that_is_free(world: World, one: Replica) -> None:
    for name in ("a", "b", "c"):
        made = member(world, name, "worker")
        assert one.bind(made, one.ask(made)) == ""
    assert [labels_of(world, "abc")[name]["rank"] for name in "abc"] == ["0", "1", "2"]
    world.api.end(world.api.by_name["default", "b"])
    late = member(world, "d", "worker")
    assert one.bind(late, one.ask(late)) == ""
    assert labels_of(world, ["d"])["d"]["rank"] == "1"


def test_groups_are_of_one_namespace_and_one_policy(world: World, one: Replica) -> None:
    alone = world.pod("alone", 2, 4, annotations=SCORED)
    packed = world.pod(
        "packed", 2, 4, labels={"vgpu.io/group": "train"}, annotations={"vgpu.io/policy": "spread"}
    )
    mine = member(world, "mine", "r")
    theirs = pod("theirs", 2, 4, annotations=SCORED, labels={"vgpu.io/group": "train"}, uid="other")
    for made in (alone, packed, mine):
        assert one.ask(made) == "n4", made.name
        one.allocator.release(made.uid)
    assert one.bind(mine, one.ask(mine)) == ""
    assert one.ask(world.api.put(theirs)) == "n3"
    other = pod("stranger", 2, 4, annotations=SCORED, labels={"vgpu.io/group": "train"})
    assert one.ask(world.api.put(replace(other, namespace="team-b", uid="b"))) == "n4"
    assert "rank" not in labels_of(world, ["alone"])["alone"]


def test_a_forged_rank_moves_only_ranks_of_its_own_group(world: World, one: Replica) -> None:
    forged = {"vgpu.io/group": "train", "vgpu.io/rank": "7"}
    made = world.pod("forged", 2, 4, annotations=SCORED, labels=forged)
    assert one.bind(made, one.ask(made)) == ""
    assert labels_of(world, ["forged"])["forged"]["rank"] == "0", "the allocator's own word counts"


@pytest.mark.parametrize("labels", [{}, {"vgpu.io/group-size": "2"}])
def test_a_group_of_too_many_pods_is_refused_before_they_are_looked_at(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch, labels: dict[str, str]
) -> None:
    """Each decision for one of them looks at all: five thousand took 30 ms of everybody's time."""
    monkeypatch.setattr(groups, "MOST", 3)
    notes = {"vgpu.io/policy": "node-score"}
    crowd = [
        world.pod(f"p{n}", 1, None, annotations=notes, labels={"vgpu.io/group": "crowd", **labels})
        for n in range(4)
    ]
    monkeypatch.setattr(Groups, "ranks", None)
    monkeypatch.setattr(Groups, "gang_view", None)
    words = "group crowd has more than 3 pods, ended ones included: delete ended pods, or use another vgpu.io/group"
    assert said(one, crowd[0]) == words
    assert {entry.text for entry in one.explainer.waiting()} == {words}
    monkeypatch.undo()
    assert one.ask(crowd[0])


def test_a_pod_that_leaves_its_group_counts_no_more(world: World, one: Replica) -> None:
    first = member(world, "a", "a")
    assert one.bind(first, one.ask(first)) == ""
    left = world.api.by_name["default", "a"]
    world.api.put(replace(left, labels=None))
    second = member(world, "b", "b")
    assert one.ask(second) == "n4"
