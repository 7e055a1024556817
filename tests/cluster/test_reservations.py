"""What ends a reservation before it is bound, in virtual time."""

from dataclasses import replace

import pytest

from tests.cluster.world import HALF, RESERVATION_SECONDS, Replica, World, pod

ALL = [16368, 16368]


def test_it_expires_and_does_not_come_back(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.wait(RESERVATION_SECONDS - 0.1)
    one.upkeep.step()
    assert one.free() == [16368 - HALF, 16368]
    one.wait(0.1)
    one.upkeep.step()
    assert one.free() == ALL
    # News of the pod bring nothing back: only another /filter does.
    world.api.put(replace(made, annotations={"other.io/note": "x"}))
    assert one.free() == ALL


def test_what_expired_is_free_for_the_next_without_any_upkeep(world: World, one: Replica) -> None:
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
    one.upkeep.step()
    assert one.free() == [16368 - HALF, 16368]


def test_it_ends_with_its_pod(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    world.api.remove(made)
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
    world.api.remove(made)
    again = world.pod("p", uid="another")
    assert one.bind(again) == ""
    assert set(one.state.ledger.grants()) == {"another"}


def test_a_list_that_lacks_its_pod_ends_it(world: World, one: Replica) -> None:
    made = world.pod("p")
    one.ask(made)
    one.state.sync_pods([])
    assert one.free() == ALL
