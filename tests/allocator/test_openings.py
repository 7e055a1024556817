"""/explain of one pod says whose moves would make room for it."""

from typing import Any

import pytest
from msgspec.structs import replace

from device_plugin.allocator.explain import as_text
from device_plugin.core.rearrange import Planner
from tests.cluster.world import Apart, World


def scattered(world: World, owner: str = "ReplicaSet") -> None:
    """A slice of 4 and one of 6 units on n1's two cards."""
    for name, mem in (("left", 4), ("right", 6)):
        made = world.pod(name, mem, None, owner=owner, annotations={"vgpu.io/policy": "spread"})
        assert world.one.bind(made, world.one.ask(made)) == ""


def test_the_fewest_moves_are_named(world: World) -> None:
    scattered(world)
    world.pod("large", 16, None)
    view = world.one.explainer.view("default/large")
    assert view["moves"] == [
        "default/large would fit on n1 after moving default/left from n1-0 on n1 to n1-1 on n1; see vgpu defrag"
    ]
    assert "moves\n  default/large would fit" in as_text(view)
    assert world.one.free() == [16368 - 4092, 16368 - 6138], "nothing has changed"


def test_while_moves_are_sought_others_are_placed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    scattered(world)
    world.pod("large", 16, None)
    placed: list[str] = []
    option = Planner.option

    def meanwhile(*args: Any) -> Any:
        apart = Apart()
        apart.run(lambda: placed.append(world.one.ask(world.pod(f"p{len(placed)}", 1, 1))))
        apart.join()
        return option(*args)

    monkeypatch.setattr(Planner, "option", meanwhile)
    assert world.one.explainer.view("default/large")["moves"]
    assert placed == ["n1"]


def test_nothing_is_said_where_nobody_may_move_or_nothing_would_help(world: World) -> None:
    scattered(world, owner="")
    world.pod("large", 16, None)
    world.pod("fits", 4, None)
    assert world.one.explainer.view("default/large")["moves"] == []
    assert world.one.explainer.view("default/fits")["moves"] == []
    assert world.one.explainer.view("default/left")["moves"] == []


def test_nobody_of_higher_priority_moves(world: World) -> None:
    scattered(world)
    for name in ("left", "right"):
        world.api.put(replace(world.api.by_name["default", name], priority=5))
    world.pod("large", 16, None)
    assert world.one.explainer.view("default/large")["moves"] == []
