"""The protocol on a workload small enough to be counted by hand."""

import pytest

from device_plugin.core.contract.cards import Card, Inventory
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement import POLICIES, kernel
from device_plugin.core.requests import PodRequest, Request
from hack.bench.replay import arrivals, replay
from hack.bench.synthetic import synthetic
from hack.bench.workload import FAMILY, BenchNode, BenchPod, BenchWorkload


def node(name: str, cards: int, cpu: int = 64_000) -> BenchNode:
    made = [
        Card(f"{name}-{i}", FAMILY, "T4", "", 1000, 1000, 1, 1, 1, 1000, -1, healthy=True)
        for i in range(cards)
    ]
    return BenchNode(name, HostAmounts(cpu, 1000), Inventory(tuple(made)))


def job(name: str, milli: int, cpu: int = 1000) -> BenchPod:
    asked = Request(FAMILY, whole=1) if milli == 1000 else Request(FAMILY, mem=milli, cores=0)
    return BenchPod(name, PodRequest(name, (("main", asked),), host=HostAmounts(cpu, 1)), milli / 1000)


HALVES = BenchWorkload([node("a", 2), node("b", 2)], [job("p", 500), job("q", 500)])


def test_pods_arrive_until_1_3_times_the_capacity_was_asked_for() -> None:
    jobs = list(arrivals(HALVES, 42))
    assert len(jobs) == 11
    assert len({job.request.pod for job in jobs}) == 11
    assert [j.request for j in arrivals(HALVES, 42)] == [j.request for j in jobs]


@pytest.mark.parametrize("policy", POLICIES)
def test_halves_fill_every_card_and_then_fail(policy: str) -> None:
    outcome = replay(policy, 42, HALVES)
    assert outcome.placed == 8
    assert outcome.first_failure == pytest.approx(112.5)
    assert outcome.at(100) == (100.0, 0.0)
    assert outcome.seconds > 0


def test_what_nobody_can_use_is_counted() -> None:
    outcome = replay("pack", 1, BenchWorkload([node("a", 1)], [job("p", 700)]))
    assert outcome.samples[-1].allocated == pytest.approx(70)
    assert outcome.samples[-1].useless == pytest.approx(30)


def test_a_node_without_cpu_takes_no_pod() -> None:
    outcome = replay("pack", 1, BenchWorkload([node("a", 1, cpu=1500)], [job("p", 500), job("q", 500)]))
    assert outcome.placed == 1


def test_pods_without_cards_may_find_no_cpu() -> None:
    cardless = BenchPod("q", PodRequest("q", (), host=HostAmounts(1000, 1)), 0.0)
    outcome = replay("pack", 1, BenchWorkload([node("a", 4, cpu=2500)], [job("p", 1000), cardless, cardless]))
    assert outcome.placed == 2
    assert outcome.first_failure is not None


def test_expected_fill_wastes_less_than_chance_in_both_dimensions() -> None:
    workload = synthetic()
    small = BenchWorkload(workload.nodes[:12], workload.jobs)
    ours, random_ = (replay(policy, 42, small).at(100)[0] for policy in ("fragmentation", "random"))
    assert ours > random_


def test_the_digest_is_that_of_the_decisions_with_and_without_the_compiled_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = synthetic()
    workload = BenchWorkload(whole.nodes[:8], whole.jobs[:60])
    compiled = replay("fragmentation", 1, workload).digest
    assert replay("fragmentation", 2, workload).digest != compiled
    assert replay("spread", 1, workload).digest != compiled
    assert kernel.compiled() is not None
    monkeypatch.setattr(kernel, "compiled", lambda: None)
    assert replay("fragmentation", 1, workload).digest == compiled
