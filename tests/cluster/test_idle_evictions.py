"""Pods that agents report as idle: the leader evicts them, and keeps those that it must not."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from msgspec import structs

from device_plugin.cluster.idle_evictions import FIRST_DELAY, LAST_DELAY, MOST_AT_ONCE
from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import IdlePod, Inventory
from device_plugin.core.pods import Agent, Pod
from device_plugin.kube.api import Named
from device_plugin.kube.errors import UnknownError
from tests.builders.cards import inventory
from tests.cluster.world import ClaimWorld, Replica, World

LIMIT = "2h"


@pytest.fixture(params=[World, ClaimWorld], ids=["by limits", "by claims"])
def world(request: pytest.FixtureRequest) -> World:
    made: World = request.param()
    return made


@pytest.fixture(autouse=True)
def ready(one: Replica) -> None:
    """The agent of n1 is ready."""
    one.view.agents.sync([Agent("vgpu-node-1", "n1", ready=True)])


def placed(world: World, name: str, limit: str = LIMIT) -> Pod:
    """A pod with an idle limit."""
    return write(world, world.placed(name), limit)


def write(world: World, pod: Pod, limit: str) -> Pod:
    kept = {**(pod.annotations or {}), annotations.IDLE_LIMIT: limit}
    return world.api.put(structs.replace(pod, annotations=kept))


def report(world: World, *pods: Pod, node: str = "n1", judged: int = 7200) -> None:
    """The agent of a node names these pods in its inventory, judged by an idle limit in seconds."""
    cards = inventory(node).cards
    world.node(node, Inventory(cards, idle=tuple(IdlePod(pod.uid, judged) for pod in pods)))
    for replica in world.api.watchers:
        assert isinstance(replica, Replica)
        replica.view.node_news.sync(world.api.nodes())


def turns(one: Replica, count: int = 3) -> None:
    for _ in range(count):
        one.housekeeping.step()


def evicted(world: World) -> Sequence[str]:
    return [name for verb, name in world.api.written if verb == "evict"]


def counted(one: Replica) -> dict[str, float]:
    (found,) = (each for each in one.counts.readings() if each.metric.name == "vgpu_idle_evictions_total")
    return {labels[0]: value for labels, value in found.samples}


def test_an_idle_pod_is_evicted_once_with_an_event(world: World, one: Replica) -> None:
    notebook, other = placed(world, "notebook"), placed(world, "other")
    turns(one)
    assert evicted(world) == []
    report(world, notebook)
    turns(one)
    assert evicted(world) == ["notebook"]
    ((about, text),) = world.api.warnings
    assert about == "notebook IdlePodEvicted"
    assert text == ("all slices of the pod have been idle for 2 h (vgpu.io/idle-limit): the pod is evicted")
    assert counted(one) == {"evicted": 1, "refused": 0}
    assert ("delete", "notebook") not in world.api.written
    assert not other.deleting


def test_its_slices_are_free_when_it_has_ended(world: World, one: Replica) -> None:
    notebook = placed(world, "notebook")
    whole = one.free()
    report(world, notebook)
    turns(one)
    assert one.free() == whole, "it is still ending"
    world.api.end(world.api.by_name["default", "notebook"])
    assert sum(one.free()) > sum(whole)


@pytest.mark.parametrize(("judged", "kept"), [(1800, True), (7199, True), (7200, False), (10800, False)])
def test_a_pod_whose_limit_was_raised_after_the_agent_judged_is_kept(
    world: World, one: Replica, judged: int, kept: bool
) -> None:
    notebook = placed(world, "notebook", "2h")
    report(world, notebook, judged=judged)
    turns(one)
    assert evicted(world) == ([] if kept else ["notebook"])


@pytest.mark.parametrize("limit", ["", "never", "1s", "2h" * 100])
def test_a_pod_without_a_limit_now_is_kept_whatever_an_agent_reports(
    world: World, one: Replica, limit: str
) -> None:
    notebook = placed(world, "notebook")
    write(world, world.api.by_name["default", "notebook"], limit)
    report(world, notebook)
    turns(one)
    assert (evicted(world), world.api.warnings) == ([], [])


def test_an_agent_reports_only_pods_of_its_own_node(world: World, one: Replica) -> None:
    notebook = placed(world, "notebook")
    report(world, notebook, node="n2")
    one.view.agents.sync([Agent("a", "n1", ready=True), Agent("b", "n2", ready=True)])
    turns(one)
    assert evicted(world) == []


def test_the_report_of_an_agent_that_is_down_does_not_count(world: World, one: Replica) -> None:
    """It could not say that the pod works again."""
    notebook = placed(world, "notebook")
    one.view.agents.sync([Agent("vgpu-node-1", "n1", ready=False)])
    report(world, notebook)
    turns(one)
    assert evicted(world) == []
    one.view.agents.see(Agent("vgpu-node-1", "n1", ready=True))
    turns(one)
    assert evicted(world) == ["notebook"]


def test_a_replica_that_does_not_lead_evicts_nobody(world: World) -> None:
    notebook = placed(world, "notebook")
    follower = Replica(world.api, world.clock, "vgpu-1")
    follower.follow()
    follower.view.agents.sync([Agent("vgpu-node-1", "n1", ready=True)])
    report(world, notebook)
    turns(follower)
    assert evicted(world) == []


def test_a_budget_holds_a_pod_and_is_tried_again_later_each_time(world: World, one: Replica) -> None:
    notebook = placed(world, "notebook")
    world.api.protected.add("notebook")
    report(world, notebook)
    turns(one)
    ((about, text),) = world.api.warnings
    assert about == "notebook IdlePodKept"
    assert "its eviction is refused, and tried again: Cannot evict pod as it would violate" in text
    assert counted(one) == {"evicted": 0, "refused": 1}
    tried = [world.clock.now]
    for _ in range(int(4 * LAST_DELAY)):
        world.clock.now += 1.0
        one.renew()
        before = counted(one)["refused"]
        one.housekeeping.step()
        if counted(one)["refused"] > before:
            tried.append(world.clock.now)
    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert waits[:5] == [FIRST_DELAY * 2**number for number in range(5)]
    assert waits[5:] == [LAST_DELAY] * 2
    assert len(world.api.warnings) == 1, "it is said once"
    world.api.protected.clear()
    one.wait(LAST_DELAY)
    turns(one)
    assert evicted(world) == ["notebook"]


def test_a_pod_that_works_again_is_no_longer_tried(world: World, one: Replica) -> None:
    notebook = placed(world, "notebook")
    world.api.protected.add("notebook")
    report(world, notebook)
    turns(one)
    report(world)
    world.api.protected.clear()
    one.wait(LAST_DELAY)
    turns(one)
    assert evicted(world) == []


def test_few_pods_are_evicted_at_a_time(world: World, one: Replica) -> None:
    for card in range(4):
        world.node(f"m{card}", inventory(f"m{card}"))
    one.view.node_news.sync(world.api.nodes())
    pods = []
    for number in range(2 * MOST_AT_ONCE):
        made = world.pod(f"p{number}")
        node = one.ask(made)
        assert one.bind(made, node) == ""
        pods.append(write(world, world.api.by_name["default", made.name], LIMIT))
    nodes = {pod.node for pod in pods}
    one.view.agents.sync([Agent(f"agent-{node}", node, ready=True) for node in nodes])
    for node in nodes:
        report(world, *(pod for pod in pods if pod.node == node), node=node)
    turns(one, 1)
    assert len(evicted(world)) == MOST_AT_ONCE
    turns(one, 1)
    assert len(evicted(world)) == 2 * MOST_AT_ONCE


def test_pods_that_budgets_keep_hold_up_no_others(world: World, one: Replica) -> None:
    kept = [placed(world, f"a{number}") for number in range(4)]
    world.node("n2", inventory("n2"))
    one.view.node_news.sync(world.api.nodes())
    made = world.pod("z")
    assert one.bind(made, one.ask(made)) == ""
    late = write(world, world.api.by_name["default", "z"], LIMIT)
    one.view.agents.sync([Agent("a", "n1", ready=True), Agent("b", "n2", ready=True)])
    world.api.protected.update(pod.name for pod in kept)
    report(world, *kept)
    turns(one)
    one.wait(FIRST_DELAY)
    report(world, late, node=late.node)
    turns(one, 1)
    assert evicted(world) == ["z"]


def test_without_an_answer_the_turn_ends_and_nobody_starves(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    stuck, other = placed(world, "a-stuck"), placed(world, "b-other")
    report(world, stuck, other)
    asked = []
    real = world.api.evict

    def evict(pod: Named, *, dry: bool = False) -> None:
        asked.append(pod.name)
        if pod.name == "a-stuck":
            raise UnknownError("no answer")
        real(pod, dry=dry)

    monkeypatch.setattr(world.api, "evict", evict)
    turns(one, 1)
    assert asked == ["a-stuck"]
    turns(one, 2)
    assert asked == ["a-stuck", "b-other"]
    assert [about for about, _ in world.api.warnings] == ["b-other IdlePodEvicted"]


def test_an_error_of_the_server_is_said_too(
    world: World, one: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubernetes answers 500 where two budgets select the pod."""
    notebook = placed(world, "notebook")
    report(world, notebook)

    def evict(*_: object) -> None:
        raise UnknownError("This pod has more than one PodDisruptionBudget", 500, "InternalError")

    monkeypatch.setattr(world.api, "evict", evict)
    turns(one)
    ((about, text),) = world.api.warnings
    assert about == "notebook IdlePodKept"
    assert "more than one PodDisruptionBudget" in text
