"""Pods of gangs, and what tests do with them."""

from collections.abc import Sequence

from device_plugin.core.pods import Pod
from tests.builders.cards import inventory
from tests.builders.pods import pod
from tests.cluster.world import Replica, World


def member(name: str, size: int | str, group: str = "train", **more: object) -> Pod:
    """A pod of a gang that asks for half a card."""
    labels = {"vgpu.io/group": group, "vgpu.io/group-size": str(size)}
    return pod(name, **{"mem": 8, "labels": labels, **more})  # type: ignore[arg-type]


def gang(world: World, count: int, group: str = "train", **more: object) -> list[Pod]:
    """All pods of a gang, created."""
    return [world.api.put(member(f"{group}-{i}", count, group, **more)) for i in range(count)]


def placed(one: Replica, pods: Sequence[Pod]) -> list[str]:
    """Where each is to go, as /filter says."""
    return [one.ask(made) for made in pods]


def said(one: Replica, made: Pod, *nodes: str) -> str:
    """Why /filter refuses."""
    verdict = one.filter(made, nodes or ["n1"])
    (text,) = {*verdict.failed.values(), *verdict.hopeless.values()}
    return text


def more_nodes(world: World, *names: str, count: int = 2) -> None:
    for name in names:
        world.node(name, inventory(name, count))
    world.one.view.node_news.sync(world.api.nodes())
