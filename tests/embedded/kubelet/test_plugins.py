"""Registration: replacement, loss and return of plugins, and the limits of the protocol."""

import grpc
import pytest

from device_plugin.adapters.kubelet.pb import deviceplugin_pb2 as pb
from device_plugin.adapters.kubelet.pb import deviceplugin_pb2_grpc as rpc
from device_plugin.embedded.kubelet import Timing
from tests.embedded.kubelet.late_plugin import LatePlugin
from tests.embedded.kubelet.one_node import MEM, OneNode, container, until


def allocatable(node: OneNode) -> str:
    return node.node()["status"]["allocatable"].get(MEM, "")


def another(node: OneNode, count: int) -> LatePlugin:
    plugin = LatePlugin(node.kubelet.kubelet_dir, node.kubelet.cdi_dir, node.root / "slices", MEM, count)
    node.plugins.append(plugin)
    return plugin


def test_a_registration_replaces_the_earlier_one(minimal: OneNode) -> None:
    first = minimal.plugin(MEM, 4)
    second = another(minimal, 6)
    second.serve("second.sock")
    until(lambda: allocatable(minimal) == "6")
    minimal.create("one", container(mem=5))
    until(lambda: second.allocated)
    assert not first.allocated


def test_an_old_plugin_that_exits_disconnects_its_successor(minimal: OneNode) -> None:
    first = minimal.plugin(MEM, 4)
    second = another(minimal, 6)
    second.serve("second.sock")
    until(lambda: allocatable(minimal) == "6")
    first.stop()
    until(lambda: allocatable(minimal) == "0")
    second.register("second.sock")
    until(lambda: allocatable(minimal) == "6")


def test_capacity_ends_after_the_grace_period_of_a_plugin_that_went_away(make_node) -> None:
    node = make_node(on_start=lambda *_: None, timing=Timing(endpoint_grace=0.2, node_status=0.01))
    plugin = node.plugin(MEM, 4)
    plugin.stop()
    until(lambda: node.node()["status"]["capacity"][MEM] == "0")
    assert allocatable(node) == "0"


def test_a_list_of_devices_over_four_mebibytes_silently_gives_no_capacity(minimal: OneNode) -> None:
    plugin = another(minimal, 0)
    plugin.health = {f"{i:063}": True for i in range(64_000)}
    plugin.serve()
    until(lambda: plugin.streams == 1)
    until(lambda: minimal.node()["status"]["capacity"].get(MEM) == "0")


@pytest.mark.parametrize(
    ("version", "resource"), [("v1alpha1", MEM), ("v1beta1", "no-domain"), ("v1beta1", MEM)]
)
def test_a_bad_registration_is_refused(minimal: OneNode, version: str, resource: str) -> None:
    request = pb.RegisterRequest(version=version, endpoint="nobody.sock", resource_name=resource)
    with (
        grpc.insecure_channel(f"unix://{minimal.kubelet.kubelet_dir}/device-plugins/kubelet.sock") as channel,
        pytest.raises(grpc.RpcError),
    ):
        rpc.RegistrationStub(channel).Register(request, timeout=15)
    assert MEM not in minimal.node()["status"].get("capacity", {})
