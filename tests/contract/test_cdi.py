"""With some annotations runtimes add devices: a pod that asks for a slice has none of them, by any route."""

from typing import Any

import pytest

from tests.builders.objects import binding, pod
from tests.contract.asking import asking, refused
from tests.contract.cluster import PODS, Answer, Cluster, nowhere

KEY = "cdi.k8s.io/all"
DEVICES = {KEY: "vendor.com/gpu=all"}


def refused_devices(answer: Answer) -> None:
    refused(answer, "vgpu-cdi-annotations", "annotations cdi.k8s.io/", "remove them")


def test_not_at_creation(cluster: Cluster, name: str, accepted: Any) -> None:
    body = asking(name)
    body["metadata"]["annotations"] = DEVICES
    refused_devices(cluster.post(PODS, body, "tenant"))
    body["metadata"]["annotations"] = {"example.com/cdi.k8s.io": "x"}
    accepted(body)


@pytest.mark.parametrize(
    "key",
    [
        "devices.nri.io", "devices.nri.io/pod", "devices.nri.io/container.main", "cdi-devices.nri.io/container.main",
        "mounts.nri.io", "devices.noderesource.dev", "cdi-devices.noderesource.dev/pod",
        "mounts.noderesource.dev/container.main", "io.kubernetes.cri-o.Devices", "devices.crio.io",
        "seccomp-profile.kubernetes.cri-o.io/main", "seccomp-profile.crio.io",
    ],
)  # fmt: skip
def test_nor_those_of_other_runtimes_and_their_plugins(cluster: Cluster, name: str, key: str) -> None:
    body = asking(name)
    body["metadata"]["annotations"] = {key: "x"}
    refused_devices(cluster.post(PODS, body, "tenant"))


def test_other_annotations_are_fine(name: str, accepted: Any) -> None:
    body = asking(name)
    others = [
        "io.kubernetes.cri-o.ShmSize",
        "a.devices.nri.io/x",
        "cdi.k8s.iox/x",
        "devices/x",
        "ulimits.nri.io/x",
    ]
    body["metadata"]["annotations"] = dict.fromkeys(others, "x")
    accepted(body)


@pytest.mark.parametrize("role", ["tenant", "kubelet", "admin"])
@pytest.mark.parametrize("sub", ["", "/status"])
@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_not_in_an_update(
    cluster: Cluster, name: str, path: str, accepted: Any, role: str, sub: str, method: str
) -> None:
    accepted(asking(name))
    if method == "PATCH":
        answer = cluster.patch(path + sub, {"metadata": {"annotations": DEVICES}}, role)
    else:
        whole = cluster.get(path).body
        whole["metadata"]["annotations"] = DEVICES
        answer = cluster.put(path + sub, whole, role)
    refused_devices(answer)


def test_not_with_an_ephemeral_container(cluster: Cluster, name: str, path: str, accepted: Any) -> None:
    accepted(asking(name))
    debug = {"name": "d", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}
    change = {"metadata": {"annotations": DEVICES}, "spec": {"ephemeralContainers": [debug]}}
    assert cluster.patch(f"{path}/ephemeralcontainers", change, "tenant").code == 200
    assert KEY not in cluster.get(path).body["metadata"].get("annotations", {})


@pytest.mark.parametrize("route", ["binding", "bindings"])
def test_not_with_a_binding(cluster: Cluster, name: str, path: str, accepted: Any, route: str) -> None:
    accepted(asking(name))
    where = f"{path}/binding" if route == "binding" else "/api/v1/namespaces/default/bindings"
    refused_devices(cluster.post(where, binding(name, nowhere(name), annotations=DEVICES), "tenant"))
    assert "nodeName" not in cluster.get(path).body["spec"]


def test_a_pod_that_does_not_ask_may_have_and_change_them(
    cluster: Cluster, name: str, path: str, accepted: Any
) -> None:
    body = pod(name)
    body["metadata"]["annotations"] = DEVICES
    accepted(body)
    for value in ("vendor.com/gpu=0", None):
        assert cluster.patch(path, {"metadata": {"annotations": {KEY: value}}}, "tenant").code == 200
