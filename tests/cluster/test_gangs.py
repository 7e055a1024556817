"""Gangs: all of a group's pods get their slices, or none holds any."""

import random
import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest
from pytest_mock import MockerFixture

from device_plugin.cluster import gangs
from device_plugin.cluster.gangs import BINDING_SECONDS
from device_plugin.core.pods import Pod
from tests.cluster.world import HALF, RESERVATION_SECONDS, Apart, Replica, World, pod, refuse
from tests.core.clusters import inventory

ALL = [16368, 16368]
WAITS = "group train waits for 1 more pod (2 of 3 exist)"


def member(name: str, size: int | str, group: str = "train", **more: object) -> Pod:
    """A pod of a gang that asks for half a card."""
    labels = {"vgpu.io/group": group, "vgpu.io/group-size": str(size)}
    return pod(name, **{"mem": 8, "labels": labels, **more})  # type: ignore[arg-type]


def gang(world: World, count: int, group: str = "train", **more: object) -> list[Pod]:
    """All pods of a gang, created."""
    return [world.api.put(member(f"{group}-{i}", count, group, **more)) for i in range(count)]


def placed(one: Replica, pods: Sequence[Pod]) -> list[str]:
    """Where each is to go, as /filter says."""
    return [one.ask(made) for made in pods]


def said(one: Replica, made: Pod, *nodes: str) -> str:
    """Why /filter refuses."""
    verdict = one.filter(made, nodes or ["n1"])
    (text,) = {*verdict.failed.values(), *verdict.hopeless.values()}
    return text


def more_nodes(world: World, *names: str, count: int = 2) -> None:
    for name in names:
        world.node(name, inventory(name, count))
    world.one.state.sync_nodes(world.api.nodes())


def test_a_partial_gang_holds_nothing_and_says_how_many_it_waits_for(world: World, one: Replica) -> None:
    pods = [world.api.put(member(name, 3)) for name in ("a", "b")]
    for made in pods:
        verdict = one.filter(made, ["n1"])
        assert verdict.nodes == ()
        assert verdict.hopeless == {"n1": WAITS}
    assert one.free() == ALL


def test_whoever_completes_the_gang_decides_for_all_and_the_others_find_their_slices(
    world: World, one: Replica
) -> None:
    first, second, third = (member(name, 3) for name in "abc")
    for made in (first, second):
        world.api.put(made)
        assert one.ask(made) == ""
    world.api.put(third)
    assert one.ask(third) == "n1"
    grants = dict(one.state.ledger.grants())
    assert grants.keys() == {"uid-a", "uid-b", "uid-c"}
    for made in (first, second, third):
        assert one.ask(made) == "n1"
        assert one.bind(made) == ""
    assert one.state.ledger.grants() == grants


def test_a_gang_that_does_not_fit_holds_nothing(world: World, one: Replica) -> None:
    pods = gang(world, 5)
    assert placed(one, pods) == [""] * 5
    assert one.free() == ALL
    assert said(one, pods[0]) == "group train: room for 4 of 5 pods"
    other = world.pod("other", mem=16, cores=60)
    assert one.ask(other) == "n1"


def test_a_gang_of_which_no_pod_fits_says_what_every_pod_is_told(world: World, one: Replica) -> None:
    (only, _) = gang(world, 2, mem=17)
    assert said(one, only).startswith("group train: 2 cards: 2 too small for the request")


def test_two_gangs_that_each_fit_alone_never_block_each_other(world: World, one: Replica) -> None:
    red, blue = gang(world, 4, "red"), gang(world, 4, "blue")
    mixed = [made for pair in zip(red, blue, strict=True) for made in pair]
    assert placed(one, mixed) == ["n1", ""] * 4
    for made in red:
        assert one.bind(made) == ""
    for made in red:
        world.api.remove(world.api.by_name["default", made.name])
    assert placed(one, blue) == ["n1"] * 4


def test_two_gangs_asked_for_at_once_leave_one_whole_and_one_with_nothing(
    world: World, one: Replica, rng: random.Random
) -> None:
    pods = [made for group in ("red", "blue", "green") for made in gang(world, 4, group)]
    rng.shuffle(pods)
    start, apart, granted = threading.Barrier(len(pods)), Apart(), []

    def ask(made: Pod) -> None:
        start.wait()
        if one.ask(made):
            granted.append(made.label("vgpu.io/group"))

    for made in pods:
        apart.run(lambda made=made: ask(made))  # type: ignore[misc]
    apart.join()
    assert len(granted) == 4
    assert len(set(granted)) == 1
    assert one.free() == [0, 0]


def test_before_a_binding_the_whole_gang_expires_together(world: World, one: Replica) -> None:
    pods = gang(world, 3)
    assert one.ask(pods[0]) == "n1"
    one.wait(RESERVATION_SECONDS - 1)
    # Asking gives all of it the full time again.
    assert one.ask(pods[1]) == "n1"
    one.wait(RESERVATION_SECONDS - 1)
    one.upkeep.step()
    assert sum(one.free()) == HALF
    one.wait(1)
    one.upkeep.step()
    assert one.free() == ALL


def test_after_a_binding_the_rest_stays_reserved_until_kube_scheduler_must_have_come(
    world: World, one: Replica
) -> None:
    pods = gang(world, 3)
    assert one.bind(pods[0], one.ask(pods[0])) == ""
    one.wait(BINDING_SECONDS - 1)
    one.upkeep.step()
    assert len(one.state.ledger.grants()) == 3
    # Each Binding gives the others the full time again.
    assert one.bind(pods[1]) == ""
    one.wait(BINDING_SECONDS - 1)
    one.upkeep.step()
    assert len(one.state.ledger.grants()) == 3
    one.wait(1)
    one.upkeep.step()
    assert set(one.state.ledger.grants()) == {"uid-train-0", "uid-train-1"}


def test_a_member_that_goes_before_a_binding_takes_all_reservations_with_it(
    world: World, one: Replica
) -> None:
    pods = gang(world, 3)
    assert placed(one, pods) == ["n1"] * 3
    world.api.remove(pods[1])
    assert one.free() == ALL
    assert "waits for 1 more pod (2 of 3 exist)" in one.bind(pods[0])
    assert one.free() == ALL


@pytest.mark.parametrize("fate", [{"phase": "Failed"}, {"deleting": True}, None])
def test_when_the_only_bound_member_goes_the_rest_gives_back_what_it_had(
    world: World, one: Replica, fate: dict[str, object] | None
) -> None:
    pods = gang(world, 3)
    assert one.bind(pods[0], one.ask(pods[0])) == ""
    bound = world.api.by_name["default", "train-0"]
    if fate is None:
        world.api.remove(bound)
    else:
        world.api.put(replace(bound, **fate))  # type: ignore[arg-type]
    assert not {"uid-train-1", "uid-train-2"} & set(one.state.ledger.grants())


def test_a_replacement_takes_the_place_of_a_member_that_went(world: World, one: Replica) -> None:
    pods = gang(world, 3)
    for made in pods[:2]:
        assert one.bind(made, one.ask(made)) == ""
    world.api.remove(pods[2])
    assert len(one.state.ledger.grants()) == 2
    assert one.ask(world.api.put(member("again", 3))) == "n1"
    assert len(one.state.ledger.grants()) == 3


@pytest.mark.parametrize("fate", [{"phase": "Failed"}, {"deleting": True}])
def test_a_member_that_failed_or_is_leaving_is_replaced(
    world: World, one: Replica, fate: dict[str, object]
) -> None:
    pods = gang(world, 3)
    for made in pods:
        assert one.bind(made, one.ask(made)) == ""
    world.api.put(replace(world.api.by_name["default", "train-0"], **fate))  # type: ignore[arg-type]
    assert one.ask(world.api.put(member("again", 3))) == "n1"


def test_members_that_finished_count_as_placed(world: World, one: Replica) -> None:
    pods = gang(world, 3, owner_uid="job-1")
    for made in pods:
        assert one.bind(made, one.ask(made)) == ""
    for name, phase in (("train-0", "Succeeded"), ("train-1", "Succeeded"), ("train-2", "Failed")):
        world.api.put(replace(world.api.by_name["default", name], phase=phase))
    assert one.ask(world.api.put(member("again", 3, owner_uid="job-1"))) == "n1"


def test_a_second_run_under_the_same_name_does_not_build_on_the_first(world: World, one: Replica) -> None:
    for made in gang(world, 3, owner_uid="job-1"):
        assert one.bind(made, one.ask(made)) == ""
        world.api.put(replace(world.api.by_name["default", made.name], phase="Succeeded"))
    again = world.api.put(member("again", 3, owner_uid="job-2"))
    assert said(one, again) == "group train waits for 2 more pods (1 of 3 exist)"


def test_pods_beyond_the_size_are_placed_once_the_gang_has_its_place(world: World, one: Replica) -> None:
    pods = [world.api.put(member(f"p{i}", 2)) for i in range(3)]
    assert placed(one, pods) == ["n1"] * 3
    assert len(one.state.ledger.grants()) == 3


def test_pods_beyond_the_size_do_not_keep_the_gang_from_its_place(world: World, one: Replica) -> None:
    pods = [world.api.put(member(f"p{i}", 4)) for i in range(6)]
    assert placed(one, pods) == ["n1"] * 4 + [""] * 2


@pytest.mark.parametrize("size", ["0", "-3", "three", "1025", "2.5", "03"])
def test_a_malformed_size_is_refused_with_what_to_write(world: World, one: Replica, size: str) -> None:
    made = world.api.put(member("a", size))
    assert said(one, made) == f"label vgpu.io/group-size is {size!r}: write a whole number from 1 to 1024"
    assert [entry.reason for entry in one.explainer.waiting()] == ["malformed"]


def test_a_size_without_a_group_is_refused(world: World, one: Replica) -> None:
    made = world.api.put(pod("a", labels={"vgpu.io/group-size": "2"}))
    assert said(one, made) == "label vgpu.io/group-size needs vgpu.io/group: write the group's name"


def test_sizes_that_differ_are_refused(world: World, one: Replica) -> None:
    made = world.api.put(member("a", 2))
    world.api.put(member("b", 3))
    expected = "group train: write one vgpu.io/group-size on all of its pods (found 2, 3)"
    assert said(one, made) == expected
    assert {entry.reason for entry in one.explainer.waiting()} == {"malformed"}


def test_labels_that_change_end_the_reservations_that_they_were_made_by(world: World, one: Replica) -> None:
    pods = gang(world, 2)
    assert placed(one, pods) == ["n1"] * 2
    world.api.put(replace(pods[0], labels={}))
    assert one.free() == ALL
    assert said(one, pods[1]) == "group train waits for 1 more pod (1 of 2 exist)"


def test_another_namespaces_pods_are_another_gang(world: World, one: Replica) -> None:
    made = world.api.put(member("a", 2))
    world.api.put(replace(member("b", 2), namespace="elsewhere"))
    assert said(one, made) == "group train waits for 1 more pod (1 of 2 exist)"


def test_a_group_without_a_size_is_no_gang(world: World, one: Replica) -> None:
    assert one.ask(world.api.put(pod("a", labels={"vgpu.io/group": "train"}))) == "n1"


def test_the_last_one_is_not_refused_because_our_watch_is_behind(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.api.watchers.remove(one)
    late = gang(world, 2)
    waiting = threading.Event()
    wait_for = one.state.gangs.mustered.wait_for

    def announced(*call: object) -> bool:
        waiting.set()
        return wait_for(*call)  # type: ignore[arg-type]

    monkeypatch.setattr(one.state.gangs.mustered, "wait_for", announced)
    monkeypatch.setattr("device_plugin.cluster.filter.NEWS_SECONDS", 10.0)
    apart, asked = Apart(), []
    apart.run(lambda: asked.append(one.ask(late[1])))
    assert waiting.wait(10)
    for made in late:
        one.hear(made)
    apart.join()
    assert asked == ["n1"]


def test_a_pod_that_our_watch_does_not_show_in_time_is_asked_for_again(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.api.watchers.remove(one)
    monkeypatch.setattr("device_plugin.cluster.filter.NEWS_SECONDS", 0.0)
    (made, _) = gang(world, 2)
    expected = "the watch has not shown pod default/train-0 yet as it is now: try again"
    assert one.filter(made, ["n1"]).error == expected


def test_a_slice_on_a_node_that_is_not_offered_is_moved_alone(world: World, one: Replica) -> None:
    more_nodes(world, "n2")
    pods = gang(world, 3)
    assert one.ask(pods[0]) == "n1"
    assert one.ask(pods[1], "n2") == "n2"
    nodes = {grant.pod: grant.node for grant in one.state.ledger.grants().values()}
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
    assert len(one.state.ledger.grants()) == 3


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
    world.api.remove(other)
    assert placed(one, pods) == [""] * 5
    assert tried.call_count == 2
    more_nodes(world, "n2")
    assert "" not in placed(one, pods)


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
    assert len(two.state.ledger.grants()) == 5
    assert all(two.ask(made, "n1", "n2") for made in pods[1:])


def test_losing_the_lease_frees_what_was_only_reserved(world: World, one: Replica) -> None:
    pods = gang(world, 4)
    assert placed(one, pods) == ["n1"] * 4
    one.state.drop_reservations()
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
    assert said(one, one_too_many[0], "n1", "n2", "n3") == "group larger: room for 3 of 4 pods"


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


def test_explain_says_what_a_refused_gang_lacks(world: World, one: Replica) -> None:
    pods = gang(world, 5)
    assert [w.text for w in one.explainer.waiting()] == [
        "all of its group exist, and kube-scheduler has not asked for it yet"
    ] * 5
    one.ask(pods[0])
    assert {(w.text, w.reason) for w in one.explainer.waiting()} == {
        ("group train: room for 4 of 5 pods", "gang-room")
    }


class Storm:
    """Gangs that come, are asked for, bound and end in random order, beside pods of their own."""

    def __init__(self, world: World, rng: random.Random) -> None:
        self.world, self.one, self.rng = world, world.one, rng
        self.sizes = {f"gang-{number}": rng.randint(1, 8) for number in range(12)}
        self.born = 0

    def live(self, group: str) -> list[Pod]:
        pods = self.world.api.by_name.values()
        return [made for made in pods if made.label("vgpu.io/group") == group and not made.ended]

    def create(self, group: str) -> None:
        """One more pod, while the gang lacks one."""
        if len(self.live(group)) < self.sizes[group]:
            self.born += 1
            size = self.sizes[group]
            self.world.api.put(member(f"p{self.born}", size, group, mem=self.rng.choice([4, 8]), cores=15))

    def attempt(self, made: Pod) -> None:
        """What kube-scheduler does with a pod: it asks, and binds most of those that have a node."""
        nodes = self.rng.sample(["n1", "n2"], self.rng.choice([1, 2, 2, 2]))
        node = self.one.ask(made, *nodes)
        if node and self.rng.random() < 0.7:
            self.world.api.on_bind = refuse if self.rng.random() < 0.1 else None
            self.one.bind(made, node)
            self.world.api.on_bind = None

    def event(self) -> None:
        kind, group = self.rng.random(), self.rng.choice(list(self.sizes))
        pods = self.live(group)
        unbound, bound = ([p for p in pods if bool(p.node) is placed] for placed in (False, True))
        if kind < 0.3:
            self.create(group)
        elif kind < 0.8 and unbound:
            self.attempt(self.rng.choice(unbound))
        elif kind < 0.9 and pods:
            self.world.api.remove(self.rng.choice(pods))
        elif kind < 0.97 and len(bound) == self.sizes[group]:
            for made in bound:
                self.world.api.remove(made)
        elif kind >= 0.97:
            self.one.wait(self.rng.choice([1.0, RESERVATION_SECONDS, BINDING_SECONDS]))
            self.one.upkeep.step()

    def check(self) -> None:
        """A gang of which nobody is bound holds slices for all of its size, or none."""
        held = self.one.state.ledger.grants()
        for group, size in self.sizes.items():
            pods = self.live(group)
            if not any(made.node for made in pods):
                assert sum(made.uid in held for made in pods) in (0, size), group
        assert {
            conflict for grant in held.values() for conflict in self.one.state.ledger.conflicts(grant)
        } == set()


def test_whatever_happens_a_gang_holds_all_or_nothing_until_it_is_bound(
    world: World, rng: random.Random
) -> None:
    more_nodes(world, "n2")
    storm = Storm(world, rng)
    for _ in range(2000):
        storm.event()
        storm.check()


def test_gangs_that_each_fit_alone_all_get_their_turn_whoever_leads(
    world: World, one: Replica, rng: random.Random
) -> None:
    more_nodes(world, "n2")
    storm = Storm(world, rng)
    for group in storm.sizes:
        for _ in range(storm.sizes[group]):
            storm.create(group)
    for _ in range(100 * storm.born):
        waiting = [made for made in world.api.by_name.values() if not made.node]
        if not waiting:
            break
        if rng.random() < 0.05:
            world.api.watchers.clear()
            one = Replica(world.api, world.clock)
            one.follow()
            one.lead()
        made = rng.choice(waiting)
        node = one.ask(made)
        if node:
            assert one.bind(made, node) == ""
        mates = storm.live(made.label("vgpu.io/group"))
        if all(mate.node for mate in mates):
            for mate in mates:
                world.api.remove(mate)
    assert not world.api.by_name
