"""The PodResources service."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from device_plugin.adapters.kubelet.pb import podresources_pb2 as pb
from device_plugin.adapters.kubelet.pb import podresources_pb2_grpc as rpc
from device_plugin.adapters.kubelet.server import PluginSockets
from tests.contract.kubelet.node import Node


@pytest.fixture
def lister(node: Node) -> Iterator[rpc.PodResourcesListerStub]:
    with grpc.insecure_channel(node.folders.pod_resources) as channel:
        yield rpc.PodResourcesListerStub(channel)


def test_healthy_devices_are_shown_whoever_serves_them_last(
    node: Node, lister: rpc.PodResourcesListerStub
) -> None:
    def shown() -> list[str]:
        answer = lister.GetAllocatableResources(pb.AllocatableResourcesRequest())
        return sorted(i for d in answer.devices if d.resource_name == node.mem for i in d.device_ids)

    plugin = node.plugin(node.mem, 3)
    node.until(lambda: shown() == sorted(plugin.health))
    plugin.set_health(f"{plugin.tail}-1", healthy=False)
    node.until(lambda: shown() == [f"{plugin.tail}-0", f"{plugin.tail}-2"])
    other = node.another(node.mem, 0)
    other.health = {"0000:21:00.0": True}
    other.serve("other.sock")
    node.until(lambda: shown() == ["0000:21:00.0"])
    # What is left of the first one's stream takes the other along, which is registered again by anybody.
    plugin.stop()
    node.until(lambda: shown() == [])
    PluginSockets(node.folders.plugins).register("other.sock", node.mem)
    node.until(lambda: shown() == ["0000:21:00.0"])


def test_one_entry_per_ticket_and_no_regular_init_container(
    node: Node, lister: rpc.PodResourcesListerStub
) -> None:
    plugin = node.plugin(node.mem, 4)
    init = [
        node.container("init", command=["true"]),
        node.container("side", mem=1, restartPolicy="Always"),
    ]
    node.create("one", node.container("main", mem=2), initContainers=init)
    node.until_phase("one", "Running")
    pods = lister.List(pb.ListPodResourcesRequest()).pod_resources
    (listed,) = [pod for pod in pods if pod.name == node.full("one")]
    got = lister.Get(
        pb.GetPodResourcesRequest(pod_name=node.full("one"), pod_namespace="default")
    ).pod_resources
    assert listed.namespace == "default"
    containers = {container.name: container for container in listed.containers}
    assert [(c.name, len(c.devices)) for c in listed.containers] == [("side", 1), ("main", 2)]
    assert {device.resource_name for device in containers["main"].devices} == {node.mem}
    assert all(len(device.device_ids) == 1 for device in containers["main"].devices)
    tickets = {container.name: _tickets(container) for container in listed.containers}
    assert tickets == {"side": plugin.allocated[0], "main": plugin.allocated[1]}
    assert tickets == {container.name: _tickets(container) for container in got.containers}


def test_a_pod_is_listed_while_it_is_active(node: Node, lister: rpc.PodResourcesListerStub) -> None:
    def listed() -> set[str]:
        return {pod.name for pod in lister.List(pb.ListPodResourcesRequest()).pod_resources}

    node.create("ends", node.container(command=["true"]), restartPolicy="Never")
    node.create("plain", node.container())
    node.until_phase("plain", "Running")
    assert node.full("plain") in listed()  # although it holds nothing
    node.until_phase("ends", "Succeeded")
    node.until(lambda: node.full("ends") not in listed())


def _tickets(container: pb.ContainerResources) -> frozenset[str]:
    return frozenset(ticket for device in container.devices for ticket in device.device_ids)


def test_a_pod_that_does_not_exist(lister: rpc.PodResourcesListerStub) -> None:
    with pytest.raises(grpc.RpcError, match="pod nobody in namespace default not found") as refused:
        lister.Get(pb.GetPodResourcesRequest(pod_name="nobody", pod_namespace="default"))
    assert refused.value.code() is grpc.StatusCode.UNKNOWN


def test_calls_beyond_the_burst_are_refused(node: Node, lister: rpc.PodResourcesListerStub) -> None:
    calls: list[Any] = []
    refused: list[Any] = []

    def call() -> bool:
        """A machine that is slow for a moment takes the 2 s in which 200 calls are allowed."""
        calls.extend(lister.List.future(pb.ListPodResourcesRequest()) for _ in range(200))
        refused[:] = [made for made in calls if made.code() is not grpc.StatusCode.OK]
        return bool(refused)

    node.until(call, "a refusal")
    assert len(calls) - len(refused) >= 10
    assert {(call.code(), call.details()) for call in refused} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
    }
