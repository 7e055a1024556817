"""What the stand-in has beside what tests/contract/kubelet holds it to."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from hack.embedded.kubelet import KubeletTiming
from hack.embedded.kubelet.pod_resources import RateLimit
from tests.hack.embedded.kubelet.one_node import CORES, MEM, OneNode, container, until


def test_the_process_group_of_a_container_is_published_while_it_lives(node: OneNode) -> None:
    pod = node.create("one", container(command=["sleep", "infinity"]), terminationGracePeriodSeconds=1)
    until(lambda: node.groups(pod), "process group file")
    pgid = int(node.groups(pod)[0].read_text())
    os.killpg(pgid, 0)
    node.delete("one")
    until(lambda: node.gone("one"))
    assert not node.groups(pod)


def test_twenty_pods_in_flight_each_get_their_own_config(make_node: Callable[..., OneNode]) -> None:
    seen: dict[str, str] = {}

    def on_start(pod: Mapping[str, Any], _name: str, files: Mapping[str, bytes], _env: object) -> None:
        seen[pod["metadata"]["name"]] = files["/etc/vgpu/vgpu.conf"].decode()

    node = make_node(on_start=on_start)
    node.plugin(MEM, 60)
    node.plugin(CORES, 60)
    names = [f"pod-{i}" for i in range(20)]
    for name in names:
        node.create(name, container(mem=3, cores=2))
    for name in names:
        node.until_phase(name, "Running")
    assert seen == {name: f"pod={name} tickets=3\n" for name in names}


def test_capacity_ends_after_the_grace_period_of_a_plugin_that_went_away(
    make_node: Callable[..., OneNode],
) -> None:
    """Five minutes on a real node."""
    node = make_node(on_start=lambda *_: None, timing=KubeletTiming(endpoint_grace=0.2, node_status=0.01))
    plugin = node.plugin(MEM, 4)
    plugin.stop()
    until(lambda: node.node()["status"]["capacity"][MEM] == "0")
    assert node.node()["status"]["allocatable"][MEM] == "0"


def test_the_rate_is_a_hundred_a_second_with_a_burst_of_ten() -> None:
    clock = [0.0]
    limit = RateLimit(100, 10, lambda: clock[0])
    assert [limit.allow() for _ in range(12)] == [True] * 10 + [False] * 2
    clock[0] += 0.0101
    assert [limit.allow() for _ in range(2)] == [True, False]
    clock[0] += 60
    assert sum(limit.allow() for _ in range(20)) == 10


def test_the_api_server_may_be_away(node: OneNode) -> None:
    node.create("one", container(command=["sleep", "infinity"]), terminationGracePeriodSeconds=1)
    node.until_phase("one", "Running")
    node.api.stop()
    node.kubelet.restart()
    node.api.start()
    node.create("two", container(command=["true"]), restartPolicy="Never")
    node.until_phase("two", "Succeeded")
    assert node.phase("one") == "Running"
