"""Slices whose files a volume covers are noticed without admission. Those that outlive their pod: test_endings.py."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from hack.testbed.cluster import PROJECT
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.machines import Machines
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import container, pod, slice_of, slice_pod

pytestmark = pytest.mark.disturbs
NODE = "n2"
HERE = nodes.on(NODE)
COVERING = {
    "library": "/proc/self/root/usr/local/vgpu",
    "config": "/proc/thread-self/root/etc",
}


def reported() -> dict[str, Any]:
    """What the node reports: state by name of the pod."""
    entries = inventory(NODE).get("slices", ())
    return {entry["name"].rpartition("/")[2]: entry["state"] for entry in entries}


def metric(state: str) -> int:
    lines = service.SYSTEM.metrics(service.agent(NODE), service.AGENT_PORT).splitlines()
    (line,) = (line for line in lines if line.startswith("vgpu_reported_slices{") and f'"{state}"' in line)
    return int(float(line.split()[-1]))


@pytest.fixture
def open_admission(machines: Machines) -> Iterator[None]:
    """A cluster without the policy that refuses such volumes."""
    assert machines, "nobody else's cluster is to lose its policies"
    Kubectl()("delete", "validatingadmissionpolicybinding", "vgpu-isolation")
    yield
    Kubectl("")("apply", "--kustomize", str(PROJECT / "manifests/overlays/simulated"))


@pytest.mark.usefixtures("open_admission")
def test_a_volume_over_our_files_is_reported_without_admission(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("sound", mem=1, cores=2, **HERE))
    for name, path in COVERING.items():
        volume = [{"name": "v", "mountPath": path}]
        body = pod(
            name,
            container(resources=slice_of(mem=1, cores=2), volumeMounts=volume),
            volumes=[{"name": "v", "emptyDir": {}}],
            **HERE,
        )
        assert eventually(partial(taken, kubectl, body), 30), "the policy still holds"
    kubectl.running("sound", *COVERING)
    assert eventually(lambda: reported() == dict.fromkeys(COVERING, "covered"), 60), reported()
    assert eventually(lambda: metric("covered") == len(COVERING), 20), metric("covered")
    for name, file in (("library", "/usr/local/vgpu/libvgpu.so"), ("config", "/etc/")):
        (event,) = (event for event in kubectl.events(name) if event.startswith("SliceCovered"))
        assert file in event
        assert "is covered by a mount at" in event
    assert not any(event.startswith("SliceCovered") for event in kubectl.events("sound"))
    kubectl.gone(*COVERING)
    assert eventually(lambda: not reported(), 30)


def taken(kubectl: Kubectl, body: dict[str, Any]) -> bool:
    """True once the pod is created; a policy holds for about a second after its end."""
    try:
        kubectl.create(body)
    except KubectlError:
        return False
    return True
