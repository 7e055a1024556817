"""The queue in virtual time."""

from typing import Any

import pytest

from hack.embedded.scheduler.queue import Queued, SchedulingQueue
from hack.embedded.scheduler.timing import SchedulerTiming


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock: Clock) -> SchedulingQueue:
    return SchedulingQueue(SchedulerTiming(), clock)


def pod(name: str, priority: int = 0, **annotations: str) -> dict[str, Any]:
    return {"metadata": {"uid": name, "annotations": annotations}, "spec": {"priority": priority}}


def taken(queue: SchedulingQueue) -> Queued:
    entry = queue.take()
    assert entry is not None
    return entry


def waits(queue: SchedulingQueue) -> bool:
    return queue._next() is None


def test_the_important_come_first_and_then_who_came_first(queue: SchedulingQueue) -> None:
    for made in (pod("a"), pod("b"), pod("urgent", 9), pod("a")):
        queue.put(made)
    assert [taken(queue).uid for _ in range(3)] == ["urgent", "a", "b"]


def test_an_unschedulable_pod_waits_for_news_of_the_cluster(queue: SchedulingQueue, clock: Clock) -> None:
    queue.put(pod("a"))
    queue.give_back(taken(queue), unschedulable=True)
    clock.now = 299.0
    assert waits(queue)
    queue.move()
    assert taken(queue).attempts == 2


def test_news_that_came_during_the_attempt_is_not_missed(queue: SchedulingQueue) -> None:
    queue.put(pod("a"))
    entry = taken(queue)
    queue.move()
    queue.give_back(entry, unschedulable=True)
    assert not waits(queue)


def test_after_five_minutes_it_is_tried_without_news(queue: SchedulingQueue, clock: Clock) -> None:
    queue.put(pod("a"))
    queue.give_back(taken(queue), unschedulable=True)
    clock.now = 301.0
    assert not waits(queue)


def test_errors_are_tried_again_ever_later_and_no_news_hastens_them(
    queue: SchedulingQueue, clock: Clock
) -> None:
    queue.put(pod("a"))
    for delay in (1.0, 2.0, 4.0, 8.0, 10.0, 10.0):
        queue.give_back(taken(queue), unschedulable=False)
        queue.move()
        clock.now += delay - 0.01
        assert waits(queue)
        clock.now += 0.01
    assert taken(queue).attempts == 7


def test_an_edited_pod_is_tried_again_in_its_newer_version(queue: SchedulingQueue) -> None:
    queue.put(pod("a"))
    queue.give_back(taken(queue), unschedulable=True)
    queue.put(pod("a"))
    assert waits(queue)
    queue.put(pod("a", policy="spread"))
    assert taken(queue).pod["metadata"]["annotations"] == {"policy": "spread"}


def test_a_closed_queue_lets_go(queue: SchedulingQueue) -> None:
    queue.put(pod("a"))
    queue.close()
    assert queue.take() is None


def test_a_binding_is_news_for_pods_that_the_extender_refused(queue: SchedulingQueue, clock: Clock) -> None:
    for name, extender in (("told", True), ("full", False)):
        queue.put(pod(name))
        entry = taken(queue)
        entry.extender = extender
        queue.give_back(entry, unschedulable=True)
    queue.move(binding=True)
    clock.now = 1.0
    assert taken(queue).uid == "told"
    assert waits(queue)


@pytest.mark.parametrize("extender", [True, False])
def test_news_of_its_status_matters_only_to_an_extender(
    queue: SchedulingQueue, clock: Clock, *, extender: bool
) -> None:
    queue.put(pod("a"))
    entry = taken(queue)
    entry.extender = extender
    queue.give_back(entry, unschedulable=True)
    queue.put(pod("a"))
    assert waits(queue)
    queue.put(pod("a") | {"status": {"conditions": [{"message": "another text"}]}})
    clock.now = 1.0
    assert waits(queue) is not extender


@pytest.mark.parametrize("during", [True, False])
def test_a_touch_is_not_missed(queue: SchedulingQueue, clock: Clock, *, during: bool) -> None:
    queue.put(pod("a"))
    entry = taken(queue)
    entry.extender = True
    if during:
        queue.put(pod("a", touched="1"))
    queue.give_back(entry, unschedulable=True)
    if not during:
        queue.put(pod("a", touched="1"))
    clock.now = 1.0
    assert taken(queue).pod["metadata"]["annotations"] == {"touched": "1"}


def test_a_binding_during_the_attempt_is_not_missed(queue: SchedulingQueue) -> None:
    queue.put(pod("a"))
    entry = taken(queue)
    queue.move(binding=True)
    entry.extender = True
    queue.give_back(entry, unschedulable=True)
    assert taken(queue).uid == "a"
