"""Bound pods whose claims could not be prepared are touched once their agent can."""

import pytest
from msgspec import structs

from device_plugin.core.contract.cards import Inventory, ReportedSlice, SliceState
from device_plugin.core.contract.grants import Slice
from device_plugin.core.pods import Pod
from device_plugin.kube.errors import GoneError, UnknownError
from tests.builders.cards import inventory
from tests.builders.claims import claim, claim_pod
from tests.cluster.world import Replica, World


@pytest.fixture
def world() -> World:
    made = World(claims=True)
    made.api.put_claim(claim())
    return made


def shows(world: World, *slices: ReportedSlice, claims: bool) -> None:
    """The agent of n1 publishes that it prepares claims, or cannot."""
    shown = Inventory(inventory("n1").cards, claims=claims, slices=slices)
    world.node("n1", shown)
    world.one.view.node_news.see(world.api.by_node["n1"])


def touched(world: World, seconds: float = 1.0) -> list[str]:
    """The names of the pods that are touched within these seconds."""
    world.api.written.clear()
    end = world.clock.now + seconds
    while world.clock.now < end:
        world.clock.now += 0.25
        world.one.renew()
        world.one.claim_touch.step()
    return [name for what, name in world.api.written if what == "touch"]


def bound(world: World, name: str = "p") -> Pod:
    made = world.api.put(claim_pod(name))
    assert world.one.bind(made, world.one.ask(made)) == ""
    return world.api.by_name["default", name]


def test_a_pod_is_touched_once_the_agent_of_its_node_is_registered(world: World) -> None:
    touched(world)
    bound(world)
    shows(world, claims=False)
    assert touched(world) == []
    shows(world, claims=True)
    assert touched(world) == ["p"]
    assert touched(world, 3.0) == []
    assert touched(world, 60.0) == ["p", "p"]
    assert touched(world, 600.0) == []


def test_an_agent_that_registers_anew_between_two_steps_is_noticed(world: World) -> None:
    shows(world, claims=True)
    touched(world)
    bound(world)
    assert touched(world, 30.0) == []
    shows(world, claims=False)
    shows(world, claims=True)
    assert touched(world) == ["p"]


def test_a_pod_that_runs_or_is_gone_is_touched_no_more(world: World) -> None:
    touched(world)
    made = bound(world)
    shows(world, claims=False)
    touched(world)
    shows(world, claims=True)
    assert touched(world) == ["p"]
    world.api.put(structs.replace(made, phase="Running"))
    assert touched(world, 60.0) == []


def test_a_pod_that_is_bound_while_its_agent_is_registered_is_not_touched(world: World) -> None:
    shows(world, claims=True)
    touched(world)
    bound(world)
    assert touched(world, 60.0) == []


def test_a_slice_that_was_in_the_way_and_has_ended_is_news(world: World) -> None:
    left = ReportedSlice("u", "ns", "gone", "main", SliceState.OUTLIVING, (Slice("n1-0", 1, (0,)),))
    shows(world, left, claims=True)
    touched(world)
    bound(world)
    shows(world, claims=True)
    assert touched(world) == ["p"]


def test_reports_that_change_all_the_time_cause_few_touches(world: World) -> None:
    touched(world)
    bound(world)
    writes = 0
    for turn in range(60):
        shows(world, claims=turn % 2 == 0)
        writes += len(touched(world))
    assert writes <= 60 / 5 + 1


def test_at_the_beginning_of_a_term_each_waiting_pod_is_touched_once(world: World) -> None:
    shows(world, claims=True)
    bound(world)
    two = Replica(world.api, world.clock, "vgpu-1", claims=True)
    two.follow()
    world.api.held = None
    world.one.leadership.step()
    two.lead()
    world.api.written.clear()
    two.claim_touch.step()
    assert world.api.written == [("touch", "p")]


def test_a_pod_by_limits_is_not_touched(world: World) -> None:
    touched(world)
    world.placed("limits")
    shows(world, claims=False)
    touched(world)
    shows(world, claims=True)
    assert touched(world, 60.0) == []


@pytest.mark.parametrize("error", [GoneError("not found"), UnknownError("no answer")])
def test_a_touch_that_fails_is_tried_again_with_the_next_one(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    touched(world)
    bound(world)
    shows(world, claims=False)
    touched(world)
    patch = world.api.patch

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(world.api, "patch", fail)
    shows(world, claims=True)
    assert touched(world) == []
    monkeypatch.setattr(world.api, "patch", patch)
    assert touched(world, 30.0) == ([] if isinstance(error, GoneError) else ["p", "p"])
