"""Refusals are remembered until something they depend on changes, and their texts do not change by themselves."""

import random
from collections.abc import Mapping

import pytest
from msgspec import structs
from pytest_mock import MockerFixture

from device_plugin.allocator.waiting.refusals import MOST_OF_NAMESPACE, WaitsFor
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.placement import Placer, Refusal
from device_plugin.core.pods import Container, ContainerKind, Pod
from tests.builders.cards import FAMILY, card, inventory
from tests.builders.pods import pod
from tests.cluster.world import Clock, FakeApi, Replica, World
from tests.effort import TIMES

NODES = ("n1", "n2", "n3", "n4")


def _random_pod(rng: random.Random, name: str) -> Pod:
    limits: dict[str, str] = {}
    if rng.random() < 0.2:
        limits[FAMILY] = str(rng.randint(1, 3))
    else:
        limits[f"{FAMILY}-mem"] = str(rng.choice((2, 6, 11, 16, 17)))
        limits[f"{FAMILY}-cores"] = str(rng.choice((5, 30, 60, 61)))
    containers = [Container("c0", ContainerKind.MAIN, limits)]
    if rng.random() < 0.2:
        containers.append(Container("c1", ContainerKind.MAIN, {f"{FAMILY}-mem": str(rng.choice((4, 9)))}))
    written = rng.choice(
        [{}, {}, {}, {"vgpu.io/card-uuid": rng.choice(("n1-0", "!n1-0,!n2-1", "ghost"))},
         {"vgpu.io/card-model": rng.choice(("none", "!none"))}]
    )  # fmt: skip
    return pod(name, containers=tuple(containers), annotations=written or None)


def _changed(rng: random.Random, shown: Inventory) -> Inventory:
    cards = list(shown.cards)
    number = rng.randrange(len(cards))
    cards[number] = structs.replace(cards[number], healthy=not cards[number].healthy)
    return Inventory(tuple(cards), serving=rng.random() < 0.9)


def _random_world(rng: random.Random) -> tuple[World, dict[str, Inventory]]:
    """A world in which each of NODES has 1 to 3 cards, and the inventories by node."""
    world = World()
    shown = {name: inventory(name, rng.randint(1, 3)) for name in NODES}
    for name, cards in shown.items():
        world.node(name, cards)
    world.one.view.node_news.sync(world.api.nodes())
    return world, shown


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(3 * TIMES))
def test_what_is_remembered_is_what_a_fresh_computation_finds(seed: int, mocker: MockerFixture) -> None:
    rng = random.Random(seed)
    world, shown = _random_world(rng)
    one = world.one
    decided = mocker.spy(one.allocator.placer, "decide")
    asked = [_random_pod(rng, f"kind-{number}") for number in range(12)]
    there: list[Pod] = []
    refused = placed = 0
    for number in range(600):
        event = rng.random()
        if event < 0.7:
            made = world.api.put(structs.replace(rng.choice(asked), name=f"p{number}", uid=f"uid-{number}"))
            nodes = rng.choice([list(NODES), list(NODES), rng.sample(NODES, 2), ["n4", "ghost"]])
            request = one.view.pods.request_of(made)
            assert request is not None
            fresh = Placer(one.view.ledger).place(request, nodes, vetted=True)
            verdict = one.filter(made, nodes)
            assert bool(verdict.nodes) is isinstance(fresh, Grant), (made, verdict)
            if verdict.nodes:
                placed += 1
                there.append(made)
                if rng.random() < 0.5:
                    assert one.bind(made, verdict.nodes[0]) == ""
            else:
                refused += 1
                assert verdict.hopeless.keys() == set(nodes)
                world.api.end(made)
        elif event < 0.85 and there:
            gone = there.pop(rng.randrange(len(there)))
            world.api.end(world.api.by_name["default", gone.name])
        else:
            name = rng.choice(NODES)
            if rng.random() < 0.1:
                one.view.node_news.gone(name)
            else:
                shown[name] = _changed(rng, shown[name])
                world.node(name, shown[name])
                one.view.node_news.see(world.api.by_node[name])
    assert min(refused, placed) > 30
    assert decided.call_count < refused + placed, "nothing was remembered"


def _pass_time(rng: random.Random, world: World, shown: dict[str, Inventory], there: list[Pod]) -> None:
    """Sometimes one of the pods that are `there` ends, sometimes an inventory changes or a node goes."""
    event, name = rng.random(), rng.choice(NODES)
    if event < 0.2 and there:
        world.api.end(world.api.by_name["default", there.pop(rng.randrange(len(there))).name])
    elif 0.2 <= event < 0.21:
        world.one.view.node_news.gone(name)
    elif 0.21 <= event < 0.25:
        shown[name] = _changed(rng, shown[name])
        world.node(name, shown[name])
        world.one.view.node_news.see(world.api.by_node[name])


def _reasons(texts: Mapping[str, str]) -> Mapping[str, str]:
    """The texts without their details, which are of the nodes on which an equal request was refused first."""
    return {node: text.partition(" (")[0] for node, text in texts.items()}


@pytest.mark.no_cover
@pytest.mark.parametrize("seed", range(3 * TIMES))
def test_what_a_pod_is_told_again_is_what_a_fresh_decision_says(seed: int, mocker: MockerFixture) -> None:
    """While other pods come and end and inventories change: all nodes, and of lasting refusals each node's reason."""
    rng = random.Random(seed)
    world, shown = _random_world(rng)
    one = world.one
    again = mocker.spy(one.allocator.waiting.pods, "again")
    kinds = [_random_pod(rng, f"kind-{number}") for number in range(12)]
    waiting: dict[str, Pod] = {}
    there: list[Pod] = []
    repeated = lasting = 0
    for number in range(400):
        if rng.random() < 0.4:
            made = world.api.put(structs.replace(rng.choice(kinds), name=f"p{number}", uid=f"uid-{number}"))
            waiting[made.uid] = made
        _pass_time(rng, world, shown, there)
        if not waiting:
            continue
        made = rng.choice(list(waiting.values()))
        nodes = rng.choice([[*NODES], [*NODES], [*reversed(NODES)], ["n4", "ghost"]])
        again.spy_return = None
        request = one.view.pods.request_of(made)
        assert request is not None
        fresh = Placer(one.view.ledger).place(request, nodes, vetted=True)
        verdict = one.filter(made, nodes)
        assert bool(verdict.nodes) is isinstance(fresh, Grant), (seed, number)
        if verdict.nodes:
            there.append(waiting.pop(made.uid))
            assert one.bind(made, verdict.nodes[0]) == ""
            continue
        assert verdict.hopeless.keys() == set(nodes)
        assert one.allocator.waiting.pods.get(made.uid) is not None
        if again.spy_return is not None:
            repeated += 1
            if again.spy_return.lasting:
                lasting += 1
                offer = one.allocator.placer.table.offered(nodes)
                assert isinstance(fresh, Refusal)
                assert _reasons(verdict.hopeless) == _reasons(fresh.by_node(offer)), (seed, number)
    assert repeated > 30
    assert lasting > 5


def test_a_refused_pod_whose_status_was_written_is_refused_again_without_a_decision(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    large, waiting = world.pod("large", mem=17), one.allocator.waiting.pods
    assert one.ask(large) == ""
    written = structs.replace(large, labels={"team": "a"})
    one.view.pod_news.see(written)
    again = mocker.spy(waiting, "again")
    assert one.ask(written) == ""
    assert again.spy_return is not None
    (entry,) = waiting.values()
    assert entry.pod is one.view.pods.get(large.uid) is not large


def test_a_refused_request_is_decided_again_only_when_a_node_became_better(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    first, _ = world.placed("a"), world.placed("b")
    decided = mocker.spy(one.allocator.placer, "decide")
    hopeless = [
        world.pod(f"p{number}", mem=16, cores=60, annotations={"vgpu.io/card-uuid": "n1-0"})
        for number in range(20)
    ]
    assert {one.ask(made) for made in hopeless} == {""}
    assert decided.call_count == 1
    world.placed("c")
    assert one.ask(hopeless[0]) == ""
    assert decided.call_count == 2, "taking more makes nothing better"
    world.api.end(first)
    assert one.ask(hopeless[0]) == ""
    assert decided.call_count == 3


def test_what_no_card_could_take_is_decided_again_only_when_an_inventory_changed(
    world: World, one: Replica, mocker: MockerFixture
) -> None:
    """Slices end all the time beside a pod that is larger than any card, and its refusals took most of the time."""
    held = [world.placed(name) for name in ("a", "b", "c")]
    world.node("n2", inventory("n2", 1))
    one.view.node_news.sync(world.api.nodes())
    large, other = world.pod("large", mem=17), world.pod("other", annotations={"vgpu.io/card-model": "none"})
    nodes = ["n1", "n2"]
    before = [dict(one.filter(made, nodes).hopeless) for made in (large, other)]
    decided = mocker.spy(one.allocator.placer, "decide")
    for made in held:
        world.api.end(made)
        assert [dict(one.filter(waiting, nodes).hopeless) for waiting in (large, other)] == before
    assert decided.call_count == 0
    world.node("n2", Inventory((structs.replace(card("n2-0", mem_mib=65520), model="none"),)))
    one.view.node_news.see(world.api.by_node["n2"])
    assert [one.ask(waiting, *nodes) for waiting in (large, other)] == ["n2", "n2"]


def test_where_one_card_could_take_it_a_refusal_ends_with_a_slice(world: World, one: Replica) -> None:
    """Whichever nodes were offered: the refusal of all nodes is remembered for each of them."""
    world.node("n2", Inventory((card("n2-0", mem_mib=65520),)))
    one.view.node_news.sync(world.api.nodes())
    full = world.pod("full", mem=64, cores=60)
    assert one.bind(full, one.ask(full)) == ""
    large = world.pod("large", mem=17)
    assert [one.ask(large, "n1"), one.ask(large, "n1", "n2")] == ["", ""]
    world.api.end(world.api.by_name["default", "full"])
    assert one.ask(large, "n1", "n2") == "n2"


def test_the_text_of_a_refusal_stays_while_slices_come_and_go(world: World, one: Replica) -> None:
    """Else kube-scheduler, which writes it into the pod, would ask for the pod again at once, for ever."""
    for name in ("n1", "n2", "n3"):
        world.node(name, inventory(name, 1))
    one.view.node_news.sync(world.api.nodes())
    nodes = sorted(world.api.by_node)
    for number in range(3):
        assert one.ask(world.pod(f"base-{number}", mem=3, cores=12), nodes[number])
    large, texts = world.pod("large", mem=16, cores=60), set()
    rng = random.Random(1)
    for number in range(40):
        texts |= set(one.filter(large, nodes).hopeless.items())
        made = world.pod(f"p{number}", mem=rng.randint(1, 3), cores=rng.randint(1, 9))
        if one.ask(made) and number % 2:
            world.api.end(made)
    assert texts == {(name, "lack memory (largest free at least 8 GiB)") for name in nodes}


def test_a_tenant_crowds_out_its_own_refusals_only(world: World, one: Replica, mocker: MockerFixture) -> None:
    theirs = world.api.put(structs.replace(world.pod("theirs", mem=17), namespace="other"))
    assert one.ask(theirs) == ""
    for number in range(3 * MOST_OF_NAMESPACE):
        assert one.ask(world.pod(f"p{number}", mem=18 + number)) == ""
    assert len(one.allocator.waiting.refusals.kept) == MOST_OF_NAMESPACE + 1
    assert one.allocator.waiting.refusals.kept.left_out == 2 * MOST_OF_NAMESPACE
    decided = mocker.spy(one.allocator.placer, "decide")
    assert one.ask(theirs) == ""
    assert decided.call_count == 0


def test_of_many_pods_that_fit_nowhere_nobody_sleeps(mocker: MockerFixture) -> None:
    api, clock = FakeApi(), Clock()
    world = World.__new__(World)
    world.api, world.clock = api, clock
    world.node("n1", inventory("n1"))
    one = Replica(api, clock)
    one.follow()
    one.lead()
    slept = [
        mocker.patch(name, side_effect=AssertionError(name))
        for name in ("time.sleep", "threading.Condition.wait", "threading.Event.wait")
    ]
    assert [one.ask(world.pod(f"p{number}", mem=17)) for number in range(50)] == [""] * 50
    assert not any(sleep.called for sleep in slept)


@pytest.mark.parametrize("waits_for", WaitsFor)
def test_a_pod_that_waits_for_cards_may_fit_once_some_became_free_and_others_at_any_time(
    world: World, one: Replica, waits_for: WaitsFor
) -> None:
    held, made, waiting = world.placed("held"), world.pod("p", mem=17), one.allocator.waiting.pods
    waiting.inherit(made, waits_for)
    (entry,) = waiting.values()
    world.placed("another")
    assert waiting.outdated(entry) is (waits_for is not WaitsFor.CARDS)
    world.api.end(held)
    assert waiting.outdated(entry)
    assert one.ask(made) == ""
    assert not waiting.outdated(entry), "it was refused since"
