"""An upgrade of agents whose cards have no unique id: grants, reservations and cordons hold under the old names."""

from dataclasses import replace

import pytest

from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import Grant
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import UnknownError
from tests.builders.cards import card
from tests.builders.pods import HALF, grant, with_grant
from tests.builders.pods import pod as made
from tests.cluster.world import Replica, World

OLD, NEW = "GPU-0000:19:00.0", "GPU-n1-0000:19:00.0"


def agent(world: World, uuid: str, cordoned: str = "") -> None:
    """The agent of n1, which calls its one card so, publishes it."""
    world.node("n1", Inventory((card(uuid),)))
    world.api.by_node["n1"] = replace(world.api.by_node["n1"], cordoned=cordoned)
    world.one.view.node_news.sync(world.api.nodes())


def given(name: str, uuid: str) -> Pod:
    """A pod that was bound with half of the card, under this name."""
    pod = made(name)
    return with_grant(pod, grant(pod, uuid).encode())


@pytest.mark.parametrize("first", [OLD, NEW])
@pytest.mark.parametrize("written", [OLD, NEW])
def test_a_grant_counts_against_its_card_in_whatever_order_both_are_renamed(
    world: World, one: Replica, first: str, written: str
) -> None:
    agent(world, first)
    world.api.put(given("running", written))
    assert one.free() == [16368 - HALF]
    agent(world, NEW)
    assert one.free() == [16368 - HALF]
    fresh = Replica(world.api, world.clock)
    fresh.follow()
    assert fresh.view.ledger == one.view.ledger
    world.api.end(world.api.by_name["default", "running"])
    assert one.free() == [16368]


def test_a_reservation_counts_when_the_agent_is_replaced_before_it_is_bound(
    world: World, one: Replica
) -> None:
    agent(world, OLD)
    pod = world.pod("p", 12, 40)
    assert one.ask(pod) == "n1"
    agent(world, NEW)
    assert one.free() == [16368 - 12276]
    assert one.bind(pod) == ""
    assert one.free() == [16368 - 12276]
    (container,) = written(world, "p").containers.values()
    assert container[0].card == NEW


def test_an_older_agent_reads_the_name_that_it_has_published(world: World, one: Replica) -> None:
    agent(world, OLD)
    world.placed("p")
    assert f'"card":"{OLD}"' in world.api.by_name["default", "p"].annotation("vgpu.io/grant")
    assert one.free() == [16368 - HALF]
    assert written(world, "p") == one.view.ledger.grant("uid-p")


@pytest.mark.parametrize("published", [OLD, NEW])
@pytest.mark.parametrize("cordoned", [OLD, NEW])
def test_a_cordon_holds_under_either_name(world: World, one: Replica, published: str, cordoned: str) -> None:
    agent(world, published, cordoned)
    assert one.ask(world.pod("p")) == ""
    agent(world, published)
    assert one.ask(world.pod("q")) == "n1"


def written(world: World, name: str) -> Grant:
    """The grant of a pod as the API server has it."""
    found = world.api.by_name["default", name].grant()
    assert found is not None
    return found


def test_an_answer_that_was_lost_is_recognised_after_the_agent_was_replaced(
    world: World, one: Replica
) -> None:
    agent(world, OLD)
    pod = world.pod("p")
    one.ask(pod)
    world.api.watchers.clear()

    def lost(bound: Pod, node: str, annotations: dict[str, str]) -> None:
        world.api.land(bound, node, annotations)
        agent(world, NEW)
        raise UnknownError("no answer")

    world.api.on_bind = lost  # type: ignore[assignment]
    assert one.bind(pod) == ""
    assert one.free() == [16368 - HALF]
