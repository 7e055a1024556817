"""What the stand-in has beside what tests/contract/kubelet holds it to."""

import os
from collections.abc import Callable, Mapping
from typing import Any

from hack.embedded.kubelet import KubeletTiming
from hack.embedded.kubelet.pod_resources import RateLimit
from tests.files import found
from tests.hack.embedded.kubelet.own_node import OwnNode


def test_the_process_group_of_a_container_is_published_while_it_lives(node: OwnNode) -> None:
    pod = node.create("one", node.container())
    node.until_phase("one", "Running")
    groups = found(node.standin.kubelet.process_groups, f"pod{pod['metadata']['uid']}/*")
    assert len(groups) == 2, "its own and the sandbox's"
    for group in groups:
        os.killpg(int(group.read_text()), 0)
    node.delete("one")
    node.until(lambda: node.gone("one"))
    assert not node.live(pod)


def test_twenty_pods_in_flight_each_get_their_own_config(make_node: Callable[..., OwnNode]) -> None:
    seen: dict[str, str] = {}

    def on_start(pod: Mapping[str, Any], _name: str, files: Mapping[str, bytes], _env: object) -> None:
        seen[pod["metadata"]["name"]] = files["/etc/vgpu/vgpu.conf"].decode()

    node = make_node(on_start=on_start)
    node.plugin(node.mem, 60)
    node.plugin(node.cores, 60)
    names = [f"pod-{i}" for i in range(20)]
    for name in names:
        node.create(name, node.container(mem=3, cores=2))
    for name in names:
        node.until_phase(name, "Running")
    assert seen == {node.full(name): f"{node.config(name)}3\n" for name in names}


def test_capacity_ends_after_the_grace_period_of_a_plugin_that_went_away(
    make_node: Callable[..., OwnNode],
) -> None:
    """Five minutes on a real node."""
    node = make_node(on_start=lambda *_: None, timing=KubeletTiming(endpoint_grace=0.2, node_status=0.01))
    plugin = node.plugin(node.mem, 4)
    node.until_offered(node.mem, (4, 4))
    plugin.stop()
    node.until_offered(node.mem, (0, 0))


def test_the_rate_is_a_hundred_a_second_with_a_burst_of_ten() -> None:
    clock = [0.0]
    limit = RateLimit(100, 10, lambda: clock[0])
    assert [limit.allow() for _ in range(12)] == [True] * 10 + [False] * 2
    clock[0] += 0.0101
    assert [limit.allow() for _ in range(2)] == [True, False]
    clock[0] += 60
    assert sum(limit.allow() for _ in range(20)) == 10


def test_the_api_server_may_be_away(node: OwnNode) -> None:
    node.create("one", node.container())
    node.until_phase("one", "Running")
    node.server.stop()
    node.cluster.close()
    node.restart_kubelet()
    node.server.start()
    node.create("two", node.container(command=["true"]), restartPolicy="Never")
    node.until_phase("two", "Succeeded")
    assert node.status("one")["phase"] == "Running"
