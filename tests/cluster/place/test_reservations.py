"""What ends a reservation before it is bound, in virtual time."""

from dataclasses import replace

import pytest

from device_plugin.core.pods import Pod
from tests.builders.pods import HALF, pod
from tests.cluster.gang_pods import gang, member, placed
from tests.cluster.world import RESERVATION_SECONDS, Replica, World

ALL = [16368, 16368]


def test_it_expires_and_does_not_come_back(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.wait(RESERVATION_SECONDS - 0.1)
    one.housekeeping.step()
    assert one.free() == [16368 - HALF, 16368]
    one.wait(0.1)
    one.housekeeping.step()
    assert one.free() == ALL
    # News of the pod bring nothing back: only another /filter does.
    world.api.put(replace(made, annotations={"other.io/note": "x"}))
    assert one.free() == ALL


def test_what_expired_is_free_for_the_next_without_any_housekeeping(world: World, one: Replica) -> None:
    one.ask(world.pod("first", mem=16, cores=60))
    one.ask(world.pod("second", mem=16, cores=60))
    one.wait(RESERVATION_SECONDS)
    assert one.ask(world.pod("third", mem=16, cores=60)) == "n1"


def test_asking_again_gives_the_full_time_again(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.wait(RESERVATION_SECONDS - 1)
    one.ask(made)
    one.wait(RESERVATION_SECONDS - 1)
    one.housekeeping.step()
    assert one.free() == [16368 - HALF, 16368]


def test_it_ends_with_its_pod(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.end(made)
    assert one.free() == ALL
    # Old news cannot bring it back.
    one.hear(made)
    assert one.filter(made, ["n1"]).hopeless == {"n1": "pod default/p is gone"}
    assert one.free() == ALL


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_it_ends_when_its_pod_ended_unbound(world: World, one: Replica, phase: str) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.put(replace(made, phase=phase))
    assert one.free() == ALL


def test_it_ends_when_the_request_changes(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.put(replace(made, annotations={"unrelated": "1"}))
    assert one.free() == [16368 - HALF, 16368]
    world.api.put(replace(made, annotations={"vgpu.io/card-uuid": "!n1-0"}))
    assert one.free() == ALL


def test_it_ends_when_the_request_becomes_malformed(world: World, one: Replica) -> None:
    one.ask(world.pod("p"))
    world.api.put(pod("p", mem=0))
    assert one.free() == ALL


def test_a_pod_of_the_same_name_does_not_inherit_it(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.end(made)
    again = world.pod("p", uid="another")
    assert one.bind(again) == ""
    assert set(one.view.ledger.grants()) == {"another"}


def test_a_list_that_lacks_its_pod_ends_it(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.view.sync_pods([])
    assert one.free() == ALL


def waits(world: World, made: Pod, node: str = "n1") -> Pod:
    """kube-scheduler has the pod wait before its binding, for a volume, and says where it is to go."""
    return world.api.put(replace(made, nominated=node))


def test_a_pod_that_is_taken_back_before_its_binding_gives_back_what_it_had(
    world: World, one: Replica
) -> None:
    """As kube-scheduler 1.36 writes it for a pod that is preempted while it waits for a volume, in one patch."""
    made = world.pod("p")
    one.ask(made)
    waiting = waits(world, made)
    one.wait(30)
    assert one.free() == [16368 - HALF, 16368]
    world.api.put(replace(waiting, nominated="", refused=1))
    assert one.free() == ALL
    assert one.bind(made, one.ask(made)) == "", "it may be asked for again"


def test_a_refusal_that_was_known_when_it_was_asked_for_gives_nothing_back(
    world: World, one: Replica
) -> None:
    before = world.pod("p", refused=7)
    one.ask(before)
    world.api.put(replace(before, annotations={"other.io/note": "x"}))
    waits(world, before)
    assert one.free() == [16368 - HALF, 16368]


def test_a_kube_scheduler_that_names_no_node_says_that_it_refused_the_pod(world: World, one: Replica) -> None:
    """Before 1.35 the condition is all there is."""
    before = world.pod("p", refused=7)
    one.ask(before)
    world.api.put(replace(before, refused=8))
    assert one.free() == ALL


def test_a_gang_is_refused_while_it_gathers_and_keeps_its_places(world: World, one: Replica) -> None:
    """The first was refused before the last came, and is told so only after the last has reserved for both."""
    first = world.api.put(member("train-0", 2))
    assert one.ask(first) == ""
    assert one.ask(world.api.put(member("train-1", 2))) == "n1"
    world.api.put(replace(first, refused=3))
    assert one.free() == [0, 16368]
    world.api.put(replace(waits(world, replace(first, refused=3)), nominated="", refused=4))
    assert one.free() == ALL, "a gang that was taken back before anybody was bound holds nothing"


def test_of_a_gang_that_is_half_bound_the_others_keep_their_places(world: World, one: Replica) -> None:
    first, last = gang(world, 2)
    placed(one, [first, last])
    assert one.bind(last) == ""
    world.api.put(replace(waits(world, first), nominated="", refused=4))
    assert one.free() == [0, 16368]


@pytest.mark.parametrize("watched", [True, False])
def test_the_cards_of_a_preempted_pod_are_free_for_the_one_that_preempts_it(
    world: World, one: Replica, *, watched: bool
) -> None:
    """It was never bound: kube-scheduler takes it back and deletes nobody."""
    low = world.pod("low", 16, 60)
    other = world.pod("other", 16, 60, priority=20)
    assert one.bind(other, one.ask(other)) == ""
    assert one.ask(low) == "n1"
    low = waits(world, low)
    vip = world.pod("vip", 16, 60, priority=10)
    assert one.ask(vip) == ""
    assert one.preemption.advise(vip, {"n1": [low.uid]}) == {"n1": [low.uid]}
    if watched:
        world.api.put(replace(low, nominated="", refused=1))
    assert one.ask(low) == "", "what it had is nominated for the other"
    assert one.bind(vip, one.ask(vip)) == ""
    assert set(one.view.ledger.grants()) == {other.uid, vip.uid}
