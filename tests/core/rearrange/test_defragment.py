"""Moves: each step works on the ledger as the steps before it leave it, and nothing is changed by planning."""

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from device_plugin.core.contract.grants import Grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.placement import Placer
from device_plugin.core.rearrange import MovePlan, Ranked, defragment
from tests.builders.requests import random_request, slice_request, whole_request
from tests.core.rearrange.cluster import Cluster


def spread(cluster: Cluster, *mems: int) -> None:
    """One slice on each card, in the order of the cards."""
    for node, mem in zip(cluster.ledger.nodes(), mems, strict=True):
        cluster.place(slice_request(f"on-{node}", mem), node)


def moved(steps: Sequence[MovePlan]) -> list[str]:
    return [move.source.pod for step in steps for move in step.moves]


def placed(steps: Sequence[MovePlan]) -> list[str]:
    return [grant.pod for step in steps for grant in step.places]


def nodes(cluster: Cluster, *names: str) -> None:
    for name in names:
        cluster.node(name, 1)


def test_one_small_slice_moves_so_that_a_whole_card_fits() -> None:
    cluster = Cluster()
    nodes(cluster, "a", "b", "c")
    spread(cluster, 8, 2, 12)
    before = cluster.remainders()
    (step,) = defragment(cluster.planner, [Ranked(whole_request("w", 1))], cluster.holders, 10)
    assert [(move.source.node, move.target and move.target.node) for move in step.moves] == [("b", "c")]
    assert [grant.node for grant in step.places] == ["b"]
    assert cluster.remainders() == before


def test_the_pod_that_places_most_for_each_move_comes_first_and_the_budget_ends_it() -> None:
    cluster = Cluster()
    nodes(cluster, "a", "b", "c", "d")
    spread(cluster, 4, 4, 4, 4)
    waiting = [Ranked(slice_request("small", 13)), Ranked(whole_request("large", 1))]
    assert placed(defragment(cluster.planner, waiting, cluster.holders, 1)) == ["large"]
    assert placed(defragment(cluster.planner, waiting, cluster.holders, 2)) == ["large", "small"]
    assert defragment(cluster.planner, waiting, cluster.holders, 0) == ()


def test_nobody_moves_for_a_pod_of_less_priority_and_nobody_who_may_not() -> None:
    cluster = Cluster()
    nodes(cluster, "a", "b")
    cluster.place(slice_request("high", 2), "a", priority=5)
    cluster.place(slice_request("low", 4), "b")
    waiting = [Ranked(whole_request("w", 1), 1)]
    assert moved(defragment(cluster.planner, waiting, cluster.holders, 10)) == ["low"]
    fixed = {pod: holder for pod, holder in cluster.holders.items() if pod != "low"}
    assert defragment(cluster.planner, waiting, fixed, 10) == ()


def test_no_move_where_the_pod_that_leaves_finds_no_other_place() -> None:
    cluster = Cluster()
    nodes(cluster, "a", "b")
    spread(cluster, 9, 9)
    assert defragment(cluster.planner, [Ranked(slice_request("w", 10))], cluster.holders, 10) == ()


def test_no_move_where_the_host_would_still_be_full() -> None:
    cluster = Cluster()
    nodes(cluster, "a", "b")
    spread(cluster, 2, 2)
    cluster.stranger("a", HostAmounts(1))
    (step,) = defragment(
        cluster.planner,
        [Ranked(replace(whole_request("w", 1), host=HostAmounts(64_000)))],
        cluster.holders,
        10,
    )
    assert [grant.node for grant in step.places] == ["b"]


def test_while_nobody_waits_a_pod_moves_to_where_more_expected_fill_is_left() -> None:
    cluster = Cluster()
    nodes(cluster, "a", "b", "c")
    spread(cluster, 6, 6, 16)
    cluster.learn(slice_request("w", 16))
    steps = defragment(cluster.planner, [], cluster.holders, 10)
    assert len(moved(steps)) == 1
    assert placed(steps) == []
    (move,) = steps[0].moves
    assert {move.source.node, move.target and move.target.node} == {"a", "b"}


@pytest.mark.parametrize("seed", range(6))
def test_a_plan_can_be_followed_step_by_step_and_leaves_no_overlap(seed: int) -> None:
    print(f"seed {seed}")
    rng = random.Random(seed)
    cluster, waiting = Cluster(), []
    for name in "abcdef":
        cluster.node(name, 4)
    spreading = Placer(cluster.ledger)
    for i in range(90):
        request = replace(random_request(rng, f"p{i}"), host=HostAmounts(rng.choice((0, 1000))))
        found = spreading.place(replace(request, policy="spread"))
        if isinstance(found, Grant):
            cluster.ledger.hold(found, request.host)
            cluster.holders[request.pod] = Ranked(request, rng.randint(0, 2))
        else:
            waiting.append(Ranked(request, rng.randint(0, 2)))
    cluster.learn(*(holder.request for holder in cluster.holders.values()))
    before = cluster.remainders()
    steps = defragment(cluster.planner, waiting, cluster.holders, 12)
    assert cluster.remainders() == before, "a plan changes nothing"
    assert len(moved(steps)) == len(set(moved(steps))) <= 12
    priorities = {each.request.pod: each.priority for each in waiting}
    assert set(placed(steps)) <= set(priorities)
    for step in steps:
        for move in step.moves:
            left = cluster.ledger.release(move.source.pod)
            assert left is not None
            assert left.grant == move.source
        for grant in (*step.places, *(move.target for move in step.moves if move.target)):
            assert cluster.ledger.hold(grant) == ()
        for grant in step.places:
            assert all(cluster.holders[m.source.pod].priority <= priorities[grant.pod] for m in step.moves)
