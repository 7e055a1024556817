"""Random creations, deletions of both kinds and kubelet restarts: every container finds its own pod's config."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from tests.contract.kubelet.late_plugin import LatePlugin
from tests.hack.embedded.kubelet.one_node import CORES, MEM, OneNode, container, until

STEPS = 120


def test_churn(make_node: Callable[..., OneNode], rng: random.Random) -> None:
    mismatches: list[tuple[str, str]] = []
    starts: list[str] = []

    def on_start(pod: Mapping[str, Any], _name: str, files: Mapping[str, bytes], _env: object) -> None:
        name = pod["metadata"]["name"]
        config = files["/etc/vgpu/vgpu.conf"].decode()
        starts.append(name)
        if config != f"pod={name} tickets=2\n":
            mismatches.append((name, config))

    node = make_node(on_start=on_start, seed=rng.randrange(1000))
    plugins = [node.plugin(MEM, 40), node.plugin(CORES, 40)]
    names: list[str] = []
    for step in range(STEPS):
        choice = rng.random()
        if choice < 0.6 and len(names) < 15:
            names.append(f"pod-{step}")
            node.create(names[-1], container(mem=2, cores=1), terminationGracePeriodSeconds=1)
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
    until(lambda: not node.call("GET", "/api/v1/pods")["items"], "all pods gone")
    until(lambda: not list(node.kubelet.process_groups.glob("pod*")), "all containers gone")
    until(lambda: node.node()["status"]["allocatable"][MEM] == "40")
    node.create("last", container(mem=40))
    until(lambda: node.status("last").get("phase") == "Failed" or len(plugins[0].allocated[-1]) == 40)
    assert node.phase("last") != "Failed", "a ticket was leaked"


def settled(node: OneNode, name: str) -> None:
    until(lambda: node.phase(name) in ("Running", "Failed"), name)


def restart(node: OneNode, plugins: list[LatePlugin]) -> None:
    node.kubelet.restart()
    for plugin in plugins:
        plugin.stop()
        plugin.serve()
