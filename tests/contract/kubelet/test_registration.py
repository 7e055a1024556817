"""Registration: replacement, loss and return of plugins, and the limits of the protocol."""

import threading

import grpc
import pytest

from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc
from tests.contract.kubelet.node import Node


def test_a_registration_replaces_the_earlier_one(node: Node) -> None:
    first = node.plugin(node.mem, 4)
    second = node.another(node.mem, 6)
    second.serve("second.sock")
    node.until_offered(node.mem, (6, 6))
    node.create("one", node.container(mem=5))
    node.until(lambda: second.allocated)
    assert not first.allocated


def test_an_old_plugin_that_exits_disconnects_its_successor(node: Node) -> None:
    first = node.plugin(node.mem, 4)
    second = node.another(node.mem, 6)
    second.serve("second.sock")
    node.until_offered(node.mem, (6, 6))
    first.stop()
    node.until_offered(node.mem, (6, 0))
    second.register("second.sock")
    node.until_offered(node.mem, (6, 6))


def test_a_plugin_may_register_before_it_serves(node: Node) -> None:
    plugin = node.another(node.mem, 3)
    early = threading.Thread(target=plugin.register)
    early.start()
    plugin.listen()
    early.join()
    node.until_offered(node.mem, (3, 3))


def test_a_list_of_devices_over_four_mebibytes_silently_gives_no_capacity(node: Node) -> None:
    plugin = node.another(node.mem, 0)
    plugin.health = {f"{i:063}": True for i in range(64_000)}
    plugin.serve()
    node.until(lambda: plugin.streams == 1)
    node.until_offered(node.mem, (0, 0))


@pytest.mark.parametrize(
    ("version", "resource", "refusal"),
    [
        (
            "v1alpha1",
            "lab.io/bad-mem",
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
        ),
        ("v1beta1", "no-domain", 'the ResourceName "no-domain" is invalid'),
        ("v1beta1", "kubernetes.io/mem", 'the ResourceName "kubernetes.io/mem" is invalid'),
        ("v1beta1", "requests.lab.io/mem", 'the ResourceName "requests.lab.io/mem" is invalid'),
        ("v1beta1", "lab.io/bad-mem", ""),
    ],
)
def test_a_bad_registration_is_refused(node: Node, version: str, resource: str, refusal: str) -> None:
    request = pb.RegisterRequest(version=version, endpoint="nobody.sock", resource_name=resource)
    with (
        grpc.insecure_channel(f"unix://{node.folders.plugins}/kubelet.sock") as channel,
        pytest.raises(grpc.RpcError) as refused,
    ):
        rpc.RegistrationStub(channel).Register(request, timeout=node.machine.patience)
    assert refusal in (refused.value.details() or "")
    assert refused.value.code() is grpc.StatusCode.UNKNOWN
    assert node.offered(resource) is None
