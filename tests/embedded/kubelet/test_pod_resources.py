"""The PodResources service."""

from collections.abc import Iterator

import grpc
import pytest

from device_plugin.adapters.kubelet.pb import podresources_pb2 as pb
from device_plugin.adapters.kubelet.pb import podresources_pb2_grpc as rpc
from device_plugin.embedded.kubelet.pod_resources import RateLimit
from tests.embedded.kubelet.one_node import MEM, OneNode, container, until


@pytest.fixture
def lister(minimal: OneNode) -> Iterator[rpc.PodResourcesListerStub]:
    with grpc.insecure_channel(f"unix://{minimal.kubelet.kubelet_dir}/pod-resources/kubelet.sock") as channel:
        yield rpc.PodResourcesListerStub(channel)


def test_one_entry_per_ticket_and_no_regular_init_container(make_node) -> None:
    node = make_node(on_start=lambda _pod, name, _files, _env: 0 if name == "init" else None)
    plugin = node.plugin(MEM, 4)
    init = [container("init"), container("side", mem=1, restartPolicy="Always")]
    node.create("one", container("main", mem=2), initContainers=init)
    node.until_phase("one", "Running")
    with grpc.insecure_channel(f"unix://{node.kubelet.kubelet_dir}/pod-resources/kubelet.sock") as channel:
        stub = rpc.PodResourcesListerStub(channel)
        (listed,) = stub.List(pb.ListPodResourcesRequest()).pod_resources
        got = stub.Get(pb.GetPodResourcesRequest(pod_name="one", pod_namespace="default")).pod_resources
    assert listed == got
    assert [(c.name, len(c.devices)) for c in listed.containers] == [("side", 1), ("main", 2)]
    main = listed.containers[1]
    assert all(len(device.device_ids) == 1 for device in main.devices)
    assert {device.device_ids[0] for device in main.devices} == plugin.allocated[1]


def test_a_pod_that_does_not_exist(lister: rpc.PodResourcesListerStub) -> None:
    with pytest.raises(grpc.RpcError, match="pod nobody in namespace default not found"):
        lister.Get(pb.GetPodResourcesRequest(pod_name="nobody", pod_namespace="default"))


def test_calls_beyond_the_burst_are_refused(lister: rpc.PodResourcesListerStub) -> None:
    calls = [lister.List.future(pb.ListPodResourcesRequest()) for _ in range(200)]
    codes = [call.code() for call in calls]
    assert codes.count(grpc.StatusCode.OK) >= 10
    assert grpc.StatusCode.RESOURCE_EXHAUSTED in codes


def test_the_rate_is_a_hundred_a_second_with_a_burst_of_ten() -> None:
    clock = [0.0]
    limit = RateLimit(100, 10, lambda: clock[0])
    assert [limit.allow() for _ in range(12)] == [True] * 10 + [False] * 2
    clock[0] += 0.0101
    assert [limit.allow() for _ in range(2)] == [True, False]
    clock[0] += 60
    assert sum(limit.allow() for _ in range(20)) == 10


def test_a_list_during_allocate_is_counted(minimal: OneNode, lister: rpc.PodResourcesListerStub) -> None:
    plugin = minimal.plugin(MEM, 2)
    plugin.on_allocate = lambda: lister.List(pb.ListPodResourcesRequest())
    minimal.create("one", container(mem=1))
    minimal.until_phase("one", "Running")
    until(lambda: minimal.kubelet.list_during_allocate == 1)
