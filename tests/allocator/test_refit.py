"""What pods ask for is learnt off the decision path, and put to use a few nodes at a time."""

from collections.abc import Sequence

import pytest

from device_plugin.allocator.refit import FIRST, MOST, NODES, PAUSE_SECONDS, FitError, Refit
from device_plugin.core.contract.grants import Grant
from device_plugin.core.placement.card_columns import CardKind
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.placement.workload import Weighted
from device_plugin.core.pods import Node
from tests.builders.cards import inventory
from tests.builders.pods import pod
from tests.cluster.world import Clock, Memory

CLUSTER = [f"n{i:03}" for i in range(3 * NODES)]


class Maker:
    """Makes tables here and now; fails while `away`."""

    def __init__(self) -> None:
        self.lessons: list[Sequence[Weighted]] = []
        self.away = False

    def __call__(
        self, kinds: Sequence[CardKind], supply: Sequence[int], shapes: Sequence[Weighted]
    ) -> WorkloadTables:
        if self.away:
            raise FitError("killed")
        self.lessons.append(shapes)
        return WorkloadTables(kinds, supply, shapes)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def state(clock: Clock) -> Memory:
    made = Memory(clock)
    for name in CLUSTER:
        made.view.node_news.see(Node(name, inventory(name, 2).encode()))
    return made


def arrive(state: Memory, first: int, count: int, mem: int) -> None:
    """They come and stay."""
    for number in range(first, first + count):
        state.view.pod_news.see(pod(f"p{number}", mem, None), watched=True)
    state.allocator.learning.count(float("inf"))


def test_the_workload_is_learnt_when_enough_has_arrived_and_then_after_as_much_again(
    state: Memory, clock: Clock
) -> None:
    made = Maker()
    refit = Refit(state.shared, made, lambda: False)
    arrive(state, 0, FIRST - 1, mem=4)
    refit.step()
    assert made.lessons == []
    assert state.allocator.placer.fragmentation() is None
    arrive(state, FIRST - 1, 1, mem=8)
    refit.step()
    ((first, second),) = made.lessons
    assert (first.shape.request.mem, second.shape.request.mem) == (4, 8)
    clock.now += PAUSE_SECONDS
    arrive(state, FIRST, FIRST - 1, mem=8)
    refit.step()
    assert len(made.lessons) == 1, "half as many again are too few"
    arrive(state, 2 * FIRST, 1, mem=8)
    refit.step()
    assert len(made.lessons) == 2
    assert state.allocator.placer.fragmentation() == 0.0, "nothing is taken yet"
    assert MOST > FIRST


def test_a_new_kind_of_card_is_learnt_though_nobody_arrives_but_not_at_once(
    state: Memory, clock: Clock
) -> None:
    made = Maker()
    refit = Refit(state.shared, made, lambda: False)
    arrive(state, 0, FIRST, mem=4)
    refit.step()
    state.view.node_news.see(Node("other", inventory("other", 1, mem_mib=32768).encode()))
    refit.step()
    assert len(made.lessons) == 1
    clock.now += PAUSE_SECONDS
    refit.step()
    assert len(made.lessons) == 2


def test_tables_that_cannot_be_made_leave_those_of_before(state: Memory, clock: Clock) -> None:
    made = Maker()
    refit = Refit(state.shared, made, lambda: False)
    arrive(state, 0, FIRST, mem=4)
    made.away = True
    refit.step()
    assert state.allocator.placer.fragmentation() is None
    made.away = False
    refit.step()
    assert made.lessons == [], "not more often than every PAUSE_SECONDS"
    clock.now += PAUSE_SECONDS
    refit.step()
    assert len(made.lessons) == 1


def test_tables_that_take_long_are_made_for_a_tenth_of_the_time_at_most(state: Memory, clock: Clock) -> None:
    made = Maker()

    def slow(kinds: Sequence[CardKind], supply: Sequence[int], shapes: Sequence[Weighted]) -> WorkloadTables:
        clock.now += 10 * PAUSE_SECONDS
        return made(kinds, supply, shapes)

    refit = Refit(state.shared, slow, lambda: False)
    arrive(state, 0, FIRST, mem=4)
    refit.step()
    arrive(state, FIRST, FIRST, mem=4)
    clock.now += 89 * PAUSE_SECONDS
    refit.step()
    assert len(made.lessons) == 1
    clock.now += PAUSE_SECONDS
    refit.step()
    assert len(made.lessons) == 2


def test_no_decision_waits_for_more_than_a_few_nodes_to_be_scored(state: Memory, clock: Clock) -> None:
    """Between two turns of the lock no more than NODES nodes are scored, and decisions meanwhile are sound."""
    made = Maker()
    waits = 0

    def pause() -> bool:
        nonlocal waits
        waits += 1
        request = state.view.pods.request_of(pod(f"late{waits}", 4))
        assert request is not None
        assert isinstance(state.allocator.placer.place(request), Grant)
        return False

    refit = Refit(state.shared, made, pause)
    arrive(state, 0, FIRST, mem=4)
    refit.step()  # no scores are kept yet
    before, waits = waits, 0
    request = state.view.pods.request_of(pod("one", 4))
    assert request is not None
    state.allocator.placer.place(request)
    clock.now += PAUSE_SECONDS
    arrive(state, 1000, MOST, mem=8)
    refit.step()
    assert len(made.lessons) == 2
    assert waits >= len(CLUSTER) // NODES, "all at once"
    assert before >= len(CLUSTER) // NODES - 1, "fragmentation all at once"
