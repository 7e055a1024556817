"""Victims against brute force on small mixed clusters."""

import random
from dataclasses import replace
from itertools import chain, combinations

import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement.fit import SearchBudget
from device_plugin.core.rearrange import MovePlan
from device_plugin.core.rearrange.fewest import LOOKS, LOOKS_PER_SET
from device_plugin.core.requests import PodRequest, Request
from tests.builders.cards import FAMILY
from tests.builders.requests import slice_request, whole_request
from tests.core.placement.test_oracle import NODES, mixed_node, mixed_request, possible_on
from tests.core.rearrange.cluster import Cluster
from tests.effort import TIMES

ROUNDS = 150


def left(plan: MovePlan) -> set[str]:
    return {move.source.pod for move in plan.moves}


def test_one_large_victim_is_taken_rather_than_two_small_ones_and_nobody_of_another_card() -> None:
    cluster = Cluster()
    cluster.node("n", 2)
    for pod, mem in (("small-1", 4), ("small-2", 4), ("large", 8), ("next-door", 15)):
        cluster.place(slice_request(pod, mem))
    assert cluster.victims(
        slice_request("p", 8), {grant.pod: 0 for grant in cluster.ledger.grants().values()}
    ) == {"large"}


def test_of_equally_few_victims_the_lowest_priority_goes() -> None:
    cluster = Cluster()
    cluster.node("n", 3)
    for pod in ("a", "b", "c"):
        cluster.place(whole_request(pod, 1))
    assert cluster.victims(slice_request("p", 2), {"a": 5, "b": 3, "c": 4}) == {"b"}
    assert cluster.victims(whole_request("p", 2), {"a": 5, "b": 3, "c": 4}) == {"b", "c"}


def test_who_is_not_named_stays() -> None:
    cluster = Cluster()
    cluster.node("n", 1)
    cluster.place(slice_request("high", 8))
    cluster.place(slice_request("low", 6))
    assert cluster.victims(slice_request("p", 9), {"low": 0}) is None
    assert cluster.victims(slice_request("p", 8), {"low": 0}) == {"low"}


def test_a_pod_that_holds_two_cards_counts_once() -> None:
    cluster = Cluster()
    cluster.node("n", 4)
    cluster.place(whole_request("pair", 2))
    for pod in ("a", "b"):
        cluster.place(whole_request(pod, 1))
    assert cluster.victims(whole_request("p", 2), {"pair": 9, "a": 0, "b": 0}) == {"pair"}


def test_no_victim_is_taken_where_the_host_would_still_be_full() -> None:
    cluster = Cluster()
    cluster.node("n", 1)
    cluster.place(replace(slice_request("low", 16), host=HostAmounts(1000)))
    assert cluster.victims(replace(slice_request("p", 16), host=HostAmounts(64_000)), {"low": 0}) == {"low"}
    cluster.stranger("n", HostAmounts(1))
    assert cluster.victims(replace(slice_request("p", 16), host=HostAmounts(64_000)), {"low": 0}) is None


def test_nobody_leaves_for_a_pod_that_fits() -> None:
    cluster = Cluster()
    cluster.node("n", 1)
    cluster.place(slice_request("low", 8))
    plan = cluster.cheapest(slice_request("p", 8), {"low": 0})
    assert plan is not None
    assert plan.moves == ()
    assert plan.places[0].node == "n"


def test_a_card_of_many_small_pods_gives_a_set_of_which_none_can_be_spared() -> None:
    cluster = Cluster()
    cluster.node("n", 1, mem_mib=65_536, slices=64)
    for i in range(30):
        cluster.place(PodRequest(f"{i:02}", (("main", Request(FAMILY, 0, 2, 2)),)))
    found = cluster.victims(slice_request("p", 40, 20), {f"{i:02}": i for i in range(30)})
    assert found == {f"{i:02}" for i in range(18)}


def test_a_pod_made_to_nearly_fit_takes_no_more_looks_than_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each set of pods was tried with all the looks of a decision: a pod of twelve containers took six seconds."""
    rng = random.Random(2)
    cluster = Cluster()
    cluster.node("n", 16)
    for i in range(48):
        asked = Request(FAMILY, 0, rng.randint(1, 5), rng.randint(5, 15))
        cluster.place(PodRequest(f"h{i:02}", (("main", asked),), policy="spread"))
    looks = 0
    spend = SearchBudget.spend

    def counted(self: SearchBudget, count: int) -> bool:
        nonlocal looks
        looks += count
        return spend(self, count)

    monkeypatch.setattr(SearchBudget, "spend", counted)
    containers = [(f"c{i}", Request(FAMILY, 0, rng.randint(7, 13), rng.randint(31, 50))) for i in range(14)]
    found = cluster.planner.option("n", PodRequest("p", tuple(containers)), dict.fromkeys(cluster.holders, 0))
    assert found is not None
    assert looks <= LOOKS + (len(cluster.holders) + 3) * LOOKS_PER_SET


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(2 * TIMES))
def test_victims_are_never_more_than_brute_force_finds_on_any_node(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    outcomes = {"none": 0, "fits": 0, "one": 0, "more": 0}
    for _ in range(ROUNDS):
        cluster = Cluster()
        known = {name: mixed_node(rng, name) for name in NODES}
        for name, cards in known.items():
            cluster.ledger.set_node(name, cards, HostAmounts(1 << 20, 1 << 20))
        for i in range(12):
            grant = cluster.placer.place(replace(mixed_request(rng, f"h{i}"), policy="spread"))
            if isinstance(grant, Grant):
                cluster.ledger.hold(grant)
        before = dict(cluster.ledger.grants())
        ranks = {grant.pod: rng.randint(0, 2) for grant in before.values() if rng.random() < 0.8}
        request = replace(mixed_request(rng, "p"), policy="")
        plan = cluster.cheapest(request, ranks)
        best = min(
            (
                (len(some), sorted((ranks[pod] for pod in some), reverse=True))
                for some in chain.from_iterable(combinations(sorted(ranks), n) for n in range(len(ranks) + 1))
                if any(
                    possible_on(
                        node, known[node], {p: g for p, g in before.items() if p not in some}, request
                    )
                    for node in NODES
                )
            ),
            default=None,
        )
        assert dict(cluster.ledger.grants()) == before, "a plan changes nothing"
        if best is None:
            assert plan is None
            outcomes["none"] += 1
            continue
        assert plan is not None
        found = sorted((ranks[pod] for pod in left(plan)), reverse=True)
        assert (len(found), found) == best
        assert all(before[pod].node == plan.places[0].node for pod in left(plan))
        outcomes[("fits", "one")[len(found)] if len(found) < 2 else "more"] += 1
    # Two victims and more are needed too seldom to be seen on every seed.
    assert min(outcomes["none"], outcomes["fits"], outcomes["one"]) > 0, outcomes
