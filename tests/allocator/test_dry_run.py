"""A dry run on lists decides what the allocator then does, and leaves nothing behind."""

import random

import pytest

from device_plugin.allocator.dry_run import DryRun
from device_plugin.allocator.refit import FIRST, Refit
from device_plugin.allocator.search import SearchCopy
from device_plugin.allocator.why_pod import PodAnswers
from device_plugin.core.contract.grants import Grant
from device_plugin.core.placement import Refusal
from device_plugin.core.placement.policies import WorkloadTables
from device_plugin.core.pod_states import PodState
from device_plugin.core.pods import Pod
from tests.cluster.random_cluster import allocator_of, offered, random_cluster, random_pod
from tests.cluster.world import Clock, FakeApi, Memory, Replica, World


def of_lists(api: FakeApi, clock: Clock) -> Memory:
    """Records made of lists, as a command makes them."""
    made = Memory(clock)
    made.view.node_news.sync(api.nodes())
    made.view.pod_news.sync(api.pods())
    made.view.job_news.sync(api.jobs.values())
    return made


def forecast(local: Memory, made: Pod, *, learn: bool = False) -> Grant | Refusal:
    dry = DryRun(local.shared)
    if learn:
        dry.learn()
    before = local.view.ledger.grants()
    request = local.view.pods.request_of(made)
    assert request is not None
    with dry.placed(made, request, sorted(local.view.ledger.nodes())) as answer:
        pass
    assert local.view.ledger.grants() == before
    return answer


def agrees(allocator: Replica, made: Pod, expected: Grant | Refusal) -> bool:
    """The allocator decides and binds as forecast; returns true if the pod was placed."""
    verdict = allocator.filter(made, offered(allocator, made))
    if isinstance(expected, Refusal):
        assert verdict.nodes == ()
        return False
    assert verdict.nodes == (expected.node,)
    assert allocator.bind(made, expected.node) == ""
    assert allocator.api.by_name[made.namespace, made.name].grant() == expected
    return True


@pytest.mark.no_cover
def test_forecasts_are_what_the_allocator_then_does(rng: random.Random) -> None:
    clock, placed, count = Clock(), 0, 0
    while count < 200:
        api = random_cluster(rng, clock, rng.randint(0, 30))
        allocator = allocator_of(api, clock)
        # Several pods come to each cluster, one after the other; before each the lists are read again.
        for number in range(10):
            made = api.put(random_pod(rng, f"new-{number}"))
            placed += agrees(allocator, made, forecast(of_lists(api, clock), made))
            count += 1
    assert 10 < placed < 190, "both answers are tried; of 200 some 60 are placed"


@pytest.mark.no_cover
def test_why_says_that_a_pod_fits_if_the_allocator_then_places_it(rng: random.Random) -> None:
    clock, fits = Clock(), 0
    for _ in range(40):
        api = random_cluster(rng, clock, rng.randint(0, 20))
        made, allocator = api.put(random_pod(rng, "new")), allocator_of(api, clock)
        local = of_lists(api, clock)
        answer = PodAnswers(local.shared, SearchCopy(local.shared, lambda _: None)).about(made)
        nodes = allocator.filter(made, offered(allocator, made)).nodes
        assert (answer.state == PodState.FITS.value, answer.grant is not None) == (bool(nodes), bool(nodes))
        if answer.grant is not None:
            assert allocator.view.ledger.grant(made.uid) == answer.grant
            fits += 1
    assert 0 < fits < 40


@pytest.mark.no_cover
def test_forecasts_agree_with_an_allocator_that_has_learnt(rng: random.Random) -> None:
    clock = Clock()
    api = random_cluster(rng, clock, 2 * FIRST)
    for _ in range(3):
        made = random_pod(rng, "new")
        # What the allocator learns at its start are the pods that the lists show.
        allocator, local = allocator_of(api, clock), of_lists(api, clock)
        Refit(allocator.shared, WorkloadTables, lambda: False).step()
        assert allocator.allocator.placer.tables.shapes
        agrees(allocator, api.put(made), forecast(local, made, learn=True))
        api.remove(api.by_name["default", "new"])


def test_more_of_a_pod_are_counted_until_the_cluster_is_full(world: World) -> None:
    local = of_lists(world.api, world.clock)
    dry, made = DryRun(local.shared), world.pod("p", 4, 15)
    request = local.view.pods.request_of(made)
    assert request is not None
    # Two cards of 16 units take four each.
    assert dry.more(made, request, ["n1"], 100) == 8
    assert dry.more(made, request, ["n1"], 3) == 3
    with dry.placed(made, request, ["n1"]):
        assert dry.more(made, request, ["n1"], 100) == 7
    assert not local.view.ledger.grants()
    assert not local.view.pods.all()
