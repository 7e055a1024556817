"""Gangs: all of a group's pods get their slices, or none holds any."""

import random
import threading

import pytest
from msgspec.structs import replace

from device_plugin.core.gang import BINDING_SECONDS, MOST_CLASSES
from device_plugin.core.pods import Pod
from tests.builders.pods import HALF, pod
from tests.cluster.gang_pods import gang, member, placed, said
from tests.cluster.world import RESERVATION_SECONDS, Apart, Replica, World

ALL = [16368, 16368]
WAITS = "group train waits until all of its 3 pods exist"


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
    grants = dict(one.view.ledger.grants())
    assert grants.keys() == {"uid-a", "uid-b", "uid-c"}
    for made in (first, second, third):
        assert one.ask(made) == "n1"
        assert one.bind(made) == ""
    assert one.view.ledger.grants() == grants


def test_a_gang_that_does_not_fit_holds_nothing(world: World, one: Replica) -> None:
    pods = gang(world, 5)
    assert placed(one, pods) == [""] * 5
    assert one.free() == ALL
    assert said(one, pods[0]) == "group train: no room for all 5 pods at once"
    other = world.pod("other", mem=16, cores=60)
    assert one.ask(other) == "n1"


def test_a_gang_of_which_no_pod_fits_says_what_every_pod_is_told(world: World, one: Replica) -> None:
    (only, _) = gang(world, 2, mem=17)
    assert said(one, only).startswith("group train: too small for the request")


def test_a_gang_whose_pods_ask_for_too_many_different_things_is_told_so_at_once(
    world: World, one: Replica
) -> None:
    """Each kind of pod is looked at over all cards while everybody else waits."""
    for i in range(MOST_CLASSES + 1):
        wanted = {"vgpu.io/card-model": f"!other-{i}"}
        last = world.api.put(member(f"p{i}", MOST_CLASSES + 1, mem=1, cores=None, annotations=wanted))
    assert (
        said(one, last)
        == "group train: its pods have more than 32 different requests: make their requests alike, or split the group"
    )


def test_two_gangs_that_each_fit_alone_never_block_each_other(world: World, one: Replica) -> None:
    red, blue = gang(world, 4, "red"), gang(world, 4, "blue")
    mixed = [made for pair in zip(red, blue, strict=True) for made in pair]
    assert placed(one, mixed) == ["n1", ""] * 4
    for made in red:
        assert one.bind(made) == ""
    for made in red:
        world.api.end(world.api.by_name["default", made.name])
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
    one.housekeeping.step()
    assert sum(one.free()) == HALF
    one.wait(1)
    one.housekeeping.step()
    assert one.free() == ALL


def test_after_a_binding_the_rest_stays_reserved_until_kube_scheduler_must_have_come(
    world: World, one: Replica
) -> None:
    pods = gang(world, 3)
    assert one.bind(pods[0], one.ask(pods[0])) == ""
    one.wait(BINDING_SECONDS - 1)
    one.housekeeping.step()
    assert len(one.view.ledger.grants()) == 3
    # Each Binding gives the others the full time again.
    assert one.bind(pods[1]) == ""
    one.wait(BINDING_SECONDS - 1)
    one.housekeeping.step()
    assert len(one.view.ledger.grants()) == 3
    one.wait(1)
    one.housekeeping.step()
    assert set(one.view.ledger.grants()) == {"uid-train-0", "uid-train-1"}


def test_a_member_that_goes_before_a_binding_takes_all_reservations_with_it(
    world: World, one: Replica
) -> None:
    pods = gang(world, 3)
    assert placed(one, pods) == ["n1"] * 3
    world.api.end(pods[1])
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
        world.api.end(bound)
    else:
        world.api.put(replace(bound, **fate))
    assert not {"uid-train-1", "uid-train-2"} & set(one.view.ledger.grants())


def test_a_replacement_takes_the_place_of_a_member_that_went(world: World, one: Replica) -> None:
    pods = gang(world, 3)
    for made in pods[:2]:
        assert one.bind(made, one.ask(made)) == ""
    world.api.end(pods[2])
    assert len(one.view.ledger.grants()) == 2
    assert one.ask(world.api.put(member("again", 3))) == "n1"
    assert len(one.view.ledger.grants()) == 3


@pytest.mark.parametrize("fate", [{"phase": "Failed"}, {"deleting": True}])
def test_a_member_that_failed_or_is_leaving_is_replaced(
    world: World, one: Replica, fate: dict[str, object]
) -> None:
    pods = gang(world, 3)
    for made in pods:
        assert one.bind(made, one.ask(made)) == ""
    world.api.put(replace(world.api.by_name["default", "train-0"], **fate))
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
    assert said(one, again) == "group train waits until all of its 3 pods exist"


def test_pods_beyond_the_size_are_placed_once_the_gang_has_its_place(world: World, one: Replica) -> None:
    pods = [world.api.put(member(f"p{i}", 2)) for i in range(3)]
    assert placed(one, pods) == ["n1"] * 3
    assert len(one.view.ledger.grants()) == 3


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
    assert said(one, pods[1]) == "group train waits until all of its 2 pods exist"


def test_another_namespaces_pods_are_another_gang(world: World, one: Replica) -> None:
    made = world.api.put(member("a", 2))
    world.api.put(replace(member("b", 2), namespace="elsewhere"))
    assert said(one, made) == "group train waits until all of its 2 pods exist"


def test_a_group_without_a_size_is_no_gang(world: World, one: Replica) -> None:
    assert one.ask(world.api.put(pod("a", labels={"vgpu.io/group": "train"}))) == "n1"
