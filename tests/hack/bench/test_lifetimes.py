"""Pods that leave, on clusters small enough to be counted by hand."""

import pytest

from device_plugin.core.placement import POLICIES
from hack.bench.cluster import BenchCluster
from hack.bench.lifetimes import Freed, WaitingJobs, simulate
from hack.bench.workload import BenchWorkload
from tests.hack.bench.test_replay import HALVES, job, node


def test_what_leaves_makes_room() -> None:
    cluster = BenchCluster(BenchWorkload([node("a", 2)], HALVES.jobs), "pack", 1)
    first, second, third = job("x", 1000), job("y", 1000), job("z", 500)
    given = cluster.place(first)
    assert given is not None
    assert cluster.place(second) is not None
    assert cluster.place(third) is None
    cluster.leave(given)
    assert cluster.place(third) is not None


def test_with_room_to_spare_nobody_waits_and_what_is_offered_is_allocated() -> None:
    workload = BenchWorkload([node(f"n{i}", 8) for i in range(16)], [job("p", 500)])
    steady = simulate("pack", 1, workload, [10.0], 50)
    assert steady.allocated == pytest.approx(50, abs=6)
    assert set(steady.waits) == {0.0}


@pytest.mark.parametrize("policy", POLICIES)
def test_beyond_the_capacity_everything_is_full_and_pods_wait(policy: str) -> None:
    workload = BenchWorkload([node(f"n{i}", 4) for i in range(4)], [job("p", 500)])
    steady = simulate(policy, 1, workload, [100.0], 150)
    assert steady.allocated == pytest.approx(100, abs=0.5)
    assert max(steady.waits) > 30


def test_who_waits_from_before_the_measurement_until_after_it_counts_for_all_of_it() -> None:
    workload = BenchWorkload([node("a", 64, cpu=500)], [job("p", 1000)])
    steady = simulate("pack", 1, workload, [10.0], 100)
    assert steady.allocated == 0
    assert max(steady.waits) == pytest.approx(15)
    # 64 wait from the start and 64 more come in each lifetime; with each comes its wait for the 1.5 lifetimes.
    assert steady.wait == pytest.approx(64 * (1 + 1.25) * 10 / 64, rel=0.2)


def test_the_longest_waiting_is_tried_first_and_a_kind_that_does_not_fit_only_once() -> None:
    waiting = WaitingJobs()
    for since, name, milli in ((1.0, "a", 500), (2.0, "b", 200), (2.0, "c", 500), (3.0, "d", 200)):
        waiting.add(since, job(name, milli))
    assert waiting.blocked(job("e", 500))
    seen = []
    for _, each in waiting.tried():
        seen.append(each.name)
        if each.name == "a":
            waiting.take(each)
    assert seen == ["a", "b", "c"]
    assert sorted(waiting.left()) == [2.0, 2.0, 3.0]


def test_only_what_the_node_has_room_for_could_go_there() -> None:
    cluster = BenchCluster(BenchWorkload([node("a", 2, cpu=2000)], HALVES.jobs), "pack", 1)
    assert cluster.place(job("x", 1000)) is not None
    freed = Freed(cluster, "00000")
    assert [freed.could(each) for each in (job("y", 1000), job("z", 500), job("w", 500, cpu=1500))] == [
        True,
        True,
        False,
    ]
    assert cluster.place(job("y", 500)) is not None
    assert not Freed(cluster, "00000").could(job("z", 1000, cpu=0))
