"""/filter: one node and a reservation, or words that help; never a call to the API server."""

import random
import threading
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from msgspec.structs import replace
from pytest_mock import MockerFixture

from device_plugin.allocator.waiting.refusal_budget import BURST, SHARE
from device_plugin.allocator.waiting.refusals import Refusals
from device_plugin.cluster.filter import NOT_YET, Verdict
from device_plugin.core.placement import offer
from device_plugin.core.pods import Container, ContainerKind, Pod
from tests.builders.cards import FAMILY, inventory
from tests.builders.pods import HALF, pod
from tests.cluster.world import Apart, Clock, FakeApi, Replica, World, refusal


def test_exactly_one_node_is_left_and_its_slice_is_reserved(world: World, one: Replica) -> None:
    world.node("n2", inventory("n2"))
    one.view.node_news.sync(world.api.nodes())
    reads = world.api.reads
    verdict = one.filter(world.pod("p"), ["n1", "n2", "n3"])
    assert (list(verdict.nodes), dict(verdict.failed), verdict.error) == (["n1"], {}, "")
    assert one.free() == [16368 - HALF, 16368]
    assert (world.api.reads, world.api.written) == (reads, [])


def test_only_nodes_that_were_offered_are_chosen(world: World, one: Replica) -> None:
    world.node("n2", inventory("n2"))
    one.view.node_news.sync(world.api.nodes())
    assert one.ask(world.pod("p"), "n2") == "n2"


def test_pods_of_many_containers_that_fit_nowhere_take_a_tenth_of_the_time_at_most(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes 0.1 s to be refused: a thousand of one tenant's stopped all placing."""
    get, seconds = Refusals.get, 1.0

    def slow(*args: Any) -> Any:
        if len(args[2].containers) > 1:
            world.clock.now += seconds
        return get(*args)

    monkeypatch.setattr(Refusals, "get", slow)
    limits = {f"{FAMILY}-mem": "16"}
    several = tuple(Container(f"c{n}", ContainerKind.MAIN, limits) for n in range(3))
    large, (first, second) = world.pod("large", containers=several), several[:2]
    started, busy, later = world.clock.now, 0.0, 0
    while world.clock.now < started + 1000:
        before = world.clock.now
        verdict = one.filter(large, ["n1"])
        assert verdict.nodes == ()
        later += "wait for their turn to be tried" in verdict.error
        busy += world.clock.now - before
        world.clock.now += 0.5
        one.renew()
    assert 0.8 * SHARE <= busy / 1000 <= 1.2 * SHARE + BURST / 1000
    assert later > 1000
    assert one.ask(world.pod("small")) == "n1"
    assert one.ask(world.pod("elsewhere", containers=(first, second))) == ""
    one.wait(100)
    world.api.end(world.api.by_name["default", "small"])
    assert one.ask(world.pod("fits", containers=(first, second))) == "n1"


def test_asking_again_replaces_the_reservation(world: World, one: Replica) -> None:
    made = world.pod("p")
    for _ in range(5):
        assert one.ask(made) == "n1"
    assert one.free() == [16368 - HALF, 16368]
    world.pod("p", mem=16, cores=60)
    assert one.ask(pod("p", mem=16, cores=60)) == "n1"
    assert one.free() == [0, 16368]


def test_a_refusal_gives_back_what_was_reserved_before(world: World, one: Replica) -> None:
    made = world.pod("p")
    assert one.ask(made) == "n1"
    assert one.ask(made, "elsewhere") == ""
    assert one.free() == [16368, 16368]


def test_nodes_of_one_reason_share_one_text(world: World, one: Replica) -> None:
    for name in ("n2", "n3"):
        world.node(name, inventory(name, 1))
    world.node("bare", None)
    one.view.node_news.sync(world.api.nodes())
    verdict = one.filter(world.pod("p", mem=17, cores=1), ["n1", "n2", "n3", "bare"])
    assert verdict.nodes == ()
    texts = verdict.hopeless
    assert texts["n1"] == texts["n2"] == texts["n3"]
    assert "too small" in texts["n1"]
    assert "at most hygon.com/dcu-mem: 16" in texts["n1"]
    assert texts["bare"] == "showing no card"


def test_kube_scheduler_looks_for_pods_to_evict_only_where_it_has_nominated_a_node(
    world: World, one: Replica
) -> None:
    """It finds none on a node that it has offered; but it must go on to wait for the node that it has nominated."""
    for name in ("low-0", "low-1"):
        assert one.ask(world.pod(name, mem=16, cores=60), "n1") == "n1"
    high = replace(world.pod("high", mem=16, cores=60), priority=100)
    text = {"n1": "lack memory (largest free 0 MiB)"}
    alone, nominated = one.filter(high, ["n1"]), one.filter(replace(high, nominated="n1"), ["n1"])
    assert [dict(alone.failed), dict(alone.hopeless)] == [{}, text]
    assert [dict(nominated.failed), dict(nominated.hopeless)] == [text, {}]


def test_pods_that_ask_for_nothing_may_go_anywhere(one: Replica) -> None:
    plain = Pod("default", "p", "uid", containers=(Container("main", ContainerKind.MAIN, {"cpu": "1"}),))
    assert one.filter(plain, ["n1", "n9"]) == Verdict(["n1", "n9"])


@pytest.mark.parametrize(
    ("limits", "kind", "text"),
    [
        ({"-mem": "0"}, ContainerKind.MAIN, "write a whole number of at least 1"),
        ({"-mem": "-4"}, ContainerKind.MAIN, "write a whole number of at least 1"),
        ({"-cores": "1500m"}, ContainerKind.MAIN, "write a whole number of at least 1"),
        ({"-mem": "many"}, ContainerKind.MAIN, "write a whole number of at least 1"),
        ({"": "1", "-mem": "4"}, ContainerKind.MAIN, "write either"),
        ({"-mem": "4"}, ContainerKind.INIT, "ask in a main container"),
    ],
)
def test_malformed_requests_are_hopeless_and_told_how_to_be_written(
    one: Replica, limits: dict[str, str], kind: ContainerKind, text: str
) -> None:
    asked = {FAMILY + suffix: amount for suffix, amount in limits.items()}
    verdict = one.filter(Pod("default", "p", "uid", containers=(Container("c", kind, asked),)), ["n1", "n2"])
    assert verdict.nodes == ()
    assert set(verdict.hopeless) == {"n1", "n2"}
    assert all(text in said for said in verdict.hopeless.values())


def test_a_replica_that_does_not_lead_refuses_without_an_error(world: World) -> None:
    """After an error kube-scheduler would wait for its whole backoff, 45 s."""
    two = Replica(world.api, world.clock, "vgpu-1")
    two.follow()
    two.leadership.step()
    verdict = two.filter(world.pod("p"), ["n1"])
    assert (dict(verdict.hopeless), verdict.error) == ({"n1": NOT_YET}, "")
    assert two.free() == [16368, 16368]


def test_a_replica_that_did_not_list_yet_refuses_without_an_error() -> None:
    api = FakeApi()
    one = Replica(api, Clock())
    one.view.node_news.sync([])
    one.lead()
    assert one.filter(pod("p"), ["n1"]).hopeless == {"n1": NOT_YET}


@pytest.mark.parametrize("lacks", ["the Lease", "a list of pods"])
def test_a_replica_that_does_not_place_yet_answers_though_the_lock_is_held(world: World, lacks: str) -> None:
    """It is held for seconds while a new leader lists all pods, and kube-scheduler waits for 5 s."""
    made = world.pod("p")
    two = Replica(world.api, world.clock, "vgpu-1")
    two.view.node_news.sync(world.api.nodes())
    two.view.job_news.sync(())
    if lacks == "a list of pods":
        two.lead()
    else:
        two.view.pod_news.sync(world.api.pods())
    apart, told, again = Apart(), list[Verdict](), list[Verdict | None]()
    with two.view.lock:
        apart.run(lambda: told.append(two.filter(made, ["n1"])))
        apart.run(lambda: again.append(two.filter.again(made, ["n1"])))
        apart.join()
    assert [dict(verdict.hopeless) for verdict in told] == [{"n1": NOT_YET}]
    assert again == [None]


def test_bound_and_vanished_pods_get_no_second_slice(world: World, one: Replica) -> None:
    placed = world.placed("p")
    free = one.free()
    assert one.filter(placed, ["n1"]).error == "pod default/p is bound to n1 already"
    world.api.end(placed)
    verdict = one.filter(placed, ["n1"])
    assert (dict(verdict.hopeless), verdict.error) == ({"n1": "pod default/p is gone"}, "")
    assert free == [16368 - HALF, 16368]
    assert one.free() == [16368, 16368]


def test_a_hopeless_pod_is_refused_again_until_it_may_fit(world: World, one: Replica) -> None:
    for name in ("holds", "other"):
        made = world.pod(name, mem=12, cores=30)
        assert (one.ask(made), one.bind(made)) == ("n1", "")
    waits, full = world.pod("waits", mem=17, cores=1), world.pod("full", mem=8, cores=30)
    for made in (waits, full):
        assert one.filter.again(made, ["n1"]) is None, "it was not refused before"
        first = one.filter(made, ["n1"])
        again = one.filter.again(made, ["n1"])
        assert again is not None
        assert refusal(again) == refusal(first)
        assert one.filter.again(made, ["n1", "n2"]) is None, "it was refused on other nodes"
    written = one.view.ledger.gained
    world.api.end(world.api.by_name["default", "holds"])
    assert one.view.ledger.gained > written
    assert one.filter.again(full, ["n1"]) is None, "a slice has ended"
    assert one.filter.again(waits, ["n1"]) is not None, "it is larger than any card"
    assert one.ask(full) == "n1"
    world.node("n1", inventory("n1", 3))
    one.view.node_news.sync(world.api.nodes())
    assert one.filter.again(waits, ["n1"]) is None, "the cards have changed"


def test_the_nodes_of_a_pod_that_is_refused_again_are_looked_up_without_the_lock(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    """Finding thousands of nodes takes longer than the rest, and other decisions wait for the lock."""
    made = world.pod("waits", mem=17, cores=1)
    assert one.ask(made) == ""
    for number in range(offer.MOST):
        one.allocator.placer.table.offered([f"other-{number}"])
    free, find = list[bool](), offer.rows_of

    def take() -> None:
        free.append(one.view.lock.acquire(blocking=False))
        if free[-1]:
            one.view.lock.release()

    def found(position: Mapping[str, int], nodes: Collection[str]) -> object:
        apart = Apart()
        apart.run(take)
        apart.join()
        return find(position, nodes)

    mocker.patch.object(offer, "rows_of", found)
    assert one.filter.again(made, ["n1"]) is not None
    assert free == [True]


def test_no_pod_is_refused_again_that_is_gone_or_bound_or_may_preempt_others(
    world: World, one: Replica
) -> None:
    for name in ("low-0", "low-1"):
        assert one.ask(world.pod(name, mem=16, cores=60)) == "n1"
    gone, bound, refused = (world.pod(name, mem=17, cores=1) for name in ("gone", "bound", "refused"))
    high = world.pod("high", mem=16, cores=60, priority=100)
    for made in (gone, bound, refused, high):
        assert one.ask(made) == ""
    world.api.remove(gone)
    world.api.put(replace(bound, node="n1"))
    assert [one.filter.again(made, ["n1"]) for made in (gone, bound, high)] == [None] * 3
    assert one.filter.again(refused, ["n1"]) is not None
    one.leader.end()
    assert one.filter.again(refused, ["n1"]) is None, "the replica may not place"


def test_64_at_once_share_what_there_is(world: World, one: Replica, rng: random.Random) -> None:
    pods = [world.pod(f"p{i}", mem=4, cores=15) for i in range(64)]
    rng.shuffle(pods)
    start, apart, granted = threading.Barrier(64), Apart(), []

    def ask(made: Pod) -> None:
        start.wait()
        if one.ask(made):
            granted.append(made.uid)

    for made in pods:
        apart.run(lambda made=made: ask(made))  # type: ignore[misc]
    apart.join()
    # Two cards of four quarters.
    assert len(granted) == 8
    assert one.free() == [0, 0]
    cores = [
        (s.card, core) for g in one.view.ledger.grants().values() for s in g.slices() for core in s.cores
    ]
    assert len(cores) == len(set(cores)) == 120
