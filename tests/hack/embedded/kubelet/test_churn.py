"""Random creations, deletions of both kinds and kubelet restarts: every container finds its own pod's config."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.contract.kubelet.late_plugin import LatePlugin
from tests.hack.embedded.kubelet.own_node import OwnNode

STEPS = 120


def test_churn(make_node: Callable[..., OwnNode], rng: random.Random) -> None:
    mismatches: list[tuple[str, str]] = []
    starts: list[str] = []

    def on_start(pod: Mapping[str, Any], _name: str, files: Mapping[str, bytes], _env: object) -> None:
        name = pod["metadata"]["name"]
        config = files["/etc/vgpu/vgpu.conf"].decode()
        starts.append(name)
        if config != f"pod={name} tickets=2\n":
            mismatches.append((name, config))

    node = make_node(on_start=on_start, seed=rng.randrange(1000))
    plugins = [node.plugin(node.mem, 40), node.plugin(node.cores, 40)]
    made: dict[str, Any] = {}
    names: list[str] = []
    for step in range(STEPS):
        choice = rng.random()
        if choice < 0.6 and len(names) < 15:
            names.append(f"pod-{step}")
            made[names[-1]] = node.create(names[-1], node.container(mem=2, cores=1))
        elif choice < 0.95 and names:
            node.delete(names.pop(rng.randrange(len(names))), grace=rng.choice([0, 1]))
        elif choice > 0.97:
            restart(node, plugins)
        if names and rng.random() < 0.3:
            settled(node, rng.choice(names))
    for name in names:
        settled(node, name)
    assert not mismatches
    assert len(starts) > STEPS / 10
    for name in names:
        node.delete(name)
    node.until(lambda: all(map(node.gone, made)), "all pods gone")
    node.until(lambda: not any(map(node.live, made.values())), "all containers gone")
    node.until_offered(node.mem, (40, 40))
    node.create("last", node.container(mem=40))
    node.until(lambda: phase(node, "last") == "Failed" or len(plugins[0].allocated[-1]) == 40)
    assert phase(node, "last") != "Failed", "a ticket was leaked"


def phase(node: OwnNode, name: str) -> str:
    return str(node.status(name)["phase"])


def settled(node: OwnNode, name: str) -> None:
    node.until(lambda: phase(node, name) in ("Running", "Failed"), name)


def restart(node: OwnNode, plugins: list[LatePlugin]) -> None:
    node.restart_kubelet()
    for plugin in plugins:
        plugin.stop()
        plugin.serve()
