"""Whatever pods of a tenant ask for, what is kept of it is bounded, and let go when they go."""

import tracemalloc
from collections.abc import Sequence

import pytest
from msgspec import structs

from device_plugin.allocator import learning
from device_plugin.allocator.gangs import offered
from device_plugin.allocator.waiting import refusals
from device_plugin.cluster.cluster_gauges import KEPT, KEPT_LEFT_OUT, KEPT_MOST
from device_plugin.core.errors import RequestError
from device_plugin.core.placement.workload import MOST_SIZES
from device_plugin.core.pods import Pod
from device_plugin.core.requests import DEFAULT_PREFIXES, MAX_WORDS, pod_request
from device_plugin.state.pods import KnownPods
from tests.builders.pods import pod
from tests.cluster.gang_pods import member, more_nodes
from tests.cluster.world import Replica, World

MIB = 2**20


def words(number: int, count: int) -> str:
    return ",".join(f"{number:x}.{word:x}" for word in range(count))[:4096]


def hostile(number: int, count: int) -> Pod:
    selectors = {"vgpu.io/card-uuid": words(number, count), "vgpu.io/card-model": words(number + 7, count)}
    return pod(f"p{number}", 1 + number % 16, 1 + number % 60, annotations=selectors)


def test_a_list_of_cards_has_64_words_at_most() -> None:
    fits = pod_request(hostile(0, MAX_WORDS), ["hygon.com/dcu"])
    assert fits is not None
    assert len(fits.uuids.include) == MAX_WORDS
    with pytest.raises(RequestError, match="card-model is too long: write at most 64 words, 4096 characters"):
        pod_request(hostile(0, MAX_WORDS + 1), ["hygon.com/dcu"])


@pytest.mark.no_cover
@pytest.mark.parametrize("count", [MAX_WORDS, 2000])
def test_pods_with_long_lists_cost_little_more_than_their_text_and_nothing_once_they_are_gone(
    one: Replica, count: int
) -> None:
    pods = [hostile(number, count) for number in range(1000)]
    text = sum(len(value) for made in pods for value in (made.annotations or {}).values())
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for made in pods:
            one.hear(made)
            one.ask(made, "n1")
        one.wait(learning.STAY_SECONDS + 10)
        one.turn()
        held, _ = tracemalloc.get_traced_memory()
        for made in pods:
            one.view.pod_news.gone(made.uid)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held - before < text + 5 * MIB
    assert after - before < 3 * MIB


def test_a_tenant_teaches_a_bounded_number_of_asks(one: Replica) -> None:
    for number in range(500):
        one.hear(pod(f"p{number}", 1 + number % 16, 1 + number % 60))
    one.hear(structs.replace(pod("other", 5, 59), namespace="other"))
    one.wait(learning.STAY_SECONDS + 10)
    one.turn()
    assert len(one.allocator.learning.target) == learning.MOST_OF_NAMESPACE + 1
    assert one.allocator.learning.left_out > 100


def test_tables_are_made_for_a_bounded_number_of_amounts(one: Replica) -> None:
    for number in range(500):
        made = structs.replace(
            pod(f"p{number}", 1 + number % 16, 1 + number % 60), namespace=f"ns-{number % 20}"
        )
        one.hear(made)
    one.wait(learning.STAY_SECONDS + 10)
    one.turn()
    asks = one.allocator.learning.target.affordable()
    assert len({each.shape.request for each in asks}) == MOST_SIZES


def test_preempting_and_refused_pods_are_bounded_for_each_namespace(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.placed("holder")
    monkeypatch.setattr(one.allocator.waiting.preemption, "most_of_namespace", 3)
    monkeypatch.setattr(one.allocator.waiting.pods, "most_of_namespace", 4)
    for number in range(6):
        one.ask(world.pod(f"p{number}", 17, priority=5))
    one.ask(world.api.put(structs.replace(pod("theirs", 17, priority=5), namespace="other")))
    assert (len(one.allocator.waiting.preemption), one.allocator.waiting.preemption.left_out) == (4, 3)
    assert (len(one.allocator.waiting.pods), one.allocator.waiting.pods.left_out) == (5, 2)
    for number in range(6):
        one.view.pod_news.gone(f"uid-p{number}")
    assert (len(one.allocator.waiting.preemption), len(one.allocator.waiting.pods)) == (1, 1)


def test_postponed_pods_are_bounded_for_each_namespace_and_let_go_once_another_replica_bound_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    postponed = two.allocator.waiting.postponed
    monkeypatch.setattr(postponed, "most_of_namespace", 4)
    for number in range(6):
        two.ask(world.pod(f"p{number}", 1, 1))
    two.ask(world.api.put(structs.replace(pod("theirs", 1, 1), namespace="other")))
    assert (len(postponed), postponed.left_out) == (5, 2)
    first = world.api.by_name["default", "p0"]
    assert world.one.bind(first, world.one.ask(first)) == ""
    assert len(postponed) == 4
    for number in range(6):
        two.view.pod_news.gone(f"uid-p{number}")
    assert len(postponed) == 1


def test_lists_of_nodes_for_gangs_are_bounded_for_each_namespace(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offered, "MOST_OF_NAMESPACE", 3)
    monkeypatch.setattr(offered, "MOST", 4)
    lists = one.allocator.gangs.offered
    for number in range(6):
        one.ask(world.api.put(member(f"p{number}", 1, f"g{number}", mem=17)))
    assert (len(lists), lists.left_out) == (3, 3)
    for namespace in ("other", "third"):
        one.ask(world.api.put(structs.replace(member("p", 1, mem=17), namespace=namespace, uid=namespace)))
    assert (len(lists), lists.left_out) == (4, 4)
    for number in range(6):
        one.view.pod_news.gone(f"uid-p{number}")
    assert len(lists) == 1


@pytest.mark.no_cover
@pytest.mark.parametrize("labels", [{}, {"vgpu.io/group-size": "1"}], ids=["alone", "gangs"])
def test_pods_that_may_go_to_different_nodes_each_cost_a_bit_for_each_node(
    world: World, one: Replica, labels: dict[str, str]
) -> None:
    """A pod whose node affinity leaves out one node has a list of its own: it was 43 KiB at 5,000 nodes."""
    more_nodes(world, *(f"node-{number}" for number in range(1000)), count=1)
    names = sorted(world.api.by_node)
    pods = [
        pod(f"p{n}", 17, None, constraints=n, labels=labels and {**labels, "vgpu.io/group": f"g{n}"})
        for n in range(400)
    ]
    one.ask(pods[0], *names)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number, made in enumerate(pods):
            one.hear(made)
            assert one.ask(made, *names[:number], *names[number + 1 :]) == ""
        held, _ = tracemalloc.get_traced_memory()
        for made in pods:
            one.view.pod_news.gone(made.uid)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (held - before) / len(pods) < 6 * 1024
    assert after - before < MIB


def memory(prefixes: Sequence[str], pods: Sequence[Pod], node: str) -> int:
    """Bytes that are kept of these pods, bound to `node` after they were seen if it is given."""
    known = KnownPods(prefixes)
    tracemalloc.start()
    try:
        for made in pods:
            known.see(made, 0.0, watched=True)
        for made in pods if node else ():
            known.see(structs.replace(made, node=node), 1.0, watched=True)
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


@pytest.mark.no_cover
@pytest.mark.parametrize(("node", "most"), [("", 768), ("n1", 100)])
def test_a_request_is_kept_while_its_pod_is_unbound_and_costs_little_beside_the_pod(
    node: str, most: int
) -> None:
    pods = [hostile(number, MAX_WORDS) for number in range(4000)]
    # Without prefixes no resource is one of cards, and nothing is asked for.
    without = memory((), pods, node)
    assert memory(DEFAULT_PREFIXES, pods, node) - without < most * len(pods)


def test_a_metric_says_of_each_bound_how_full_it_is(world: World, one: Replica) -> None:
    one.ask(world.pod("p", 17))
    readings = {reading.metric: dict(reading.samples) for reading in one.gauges()}
    assert readings[KEPT].keys() == readings[KEPT_MOST].keys() == readings[KEPT_LEFT_OUT].keys()
    assert readings[KEPT]["refusals",] == 1
    assert readings[KEPT_MOST]["refusals",] == refusals.MOST
    assert all(readings[KEPT_MOST][what] >= count for what, count in readings[KEPT].items())
