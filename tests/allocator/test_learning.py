"""What pods ask for is learnt from those that stay: not from what one tenant creates and deletes in a loop."""

from typing import Any

import pytest
from msgspec.structs import replace

from device_plugin.allocator.learning import STAY_SECONDS
from device_plugin.core.pods import Pod
from tests.builders.pods import pod
from tests.cluster.world import Clock, Memory, Replica, World


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> Memory:
    """Of a service that has listed an empty cluster."""
    return synced(clock, [])


def synced(clock: Clock, pods: list[Pod]) -> Memory:
    made = Memory(clock)
    made.view.node_news.sync([])
    made.view.pod_news.sync(pods)
    made.allocator.learning.count(clock())
    return made


def learnt(state: Memory) -> dict[int | None, int]:
    """How many pods count for each amount of memory."""
    return {
        found.shape.request.mem: round(found.count) for found in state.allocator.learning.target.frequent(1.0)
    }


@pytest.mark.parametrize("node", ["", "n1"])
def test_pods_that_come_and_go_teach_nothing(state: Memory, clock: Clock, node: str) -> None:
    state.view.pod_news.see(pod("stays", 4), watched=True)
    for number in range(1000):
        passing = pod(f"p{number}", 1)
        state.view.pod_news.see(passing, watched=True)
        if node:
            state.view.pod_news.see(replace(passing, node=node), watched=True)
        clock.now += STAY_SECONDS / 10
        state.allocator.learning.count(clock())
        state.view.pod_news.gone(passing.uid)
    assert learnt(state) == {4: 1}


@pytest.mark.parametrize("change", [{"deleting": True}, {"phase": "Succeeded"}, {"phase": "Failed"}])
def test_a_pod_that_is_on_its_way_out_is_not_there_any_more(
    state: Memory, clock: Clock, change: dict[str, Any]
) -> None:
    first = pod("p", 4)
    state.view.pod_news.see(first, watched=True)
    state.view.pod_news.see(replace(first, **change), watched=True)
    clock.now += STAY_SECONDS
    state.allocator.learning.count(clock())
    assert learnt(state) == {}


def test_a_pod_counts_once_though_it_waited_before_it_was_bound(state: Memory, clock: Clock) -> None:
    waiting = pod("p", 4)
    state.view.pod_news.see(waiting, watched=True)
    clock.now += STAY_SECONDS - 1
    state.allocator.learning.count(clock())
    assert learnt(state) == {}
    clock.now += 1
    state.allocator.learning.count(clock())
    assert learnt(state) == {4: 1}, "what does not fit is asked for as well"
    state.view.pod_news.see(replace(waiting, node="n1"), watched=True)
    clock.now += STAY_SECONDS
    state.allocator.learning.count(clock())
    assert learnt(state) == {4: 1}


def test_after_a_restart_those_that_are_there_count_at_once(state: Memory, clock: Clock) -> None:
    there = [replace(pod(f"p{number}", 1 + number % 2), node="n1" * (number % 3)) for number in range(6)]
    for one in there:
        state.view.pod_news.see(one, watched=True)
    clock.now += STAY_SECONDS
    state.allocator.learning.count(clock())
    ended = replace(pod("ended", 8), phase="Succeeded")
    again = synced(clock, [*reversed(there), ended])
    assert learnt(again) == learnt(state) == {1: 3, 2: 3}


def test_housekeeping_counts_them(world: World, one: Replica) -> None:
    world.clock.now += STAY_SECONDS
    one.view.pod_news.see(pod("p", 4), watched=True)
    world.clock.now += STAY_SECONDS
    one.housekeeping.step()
    assert learnt(one) == {4: 1}
