"""Two grants that overlap, which only somebody with the allocator's own account can make: the later one loses."""

import json

from device_plugin.kube.api import PODS
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import grant, held
from tests.e2e.test_restarts import life
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

ALLOCATOR = "system:serviceaccount:vgpu-system:vgpu-cluster"


def test_the_grant_that_was_bound_later_is_refused_and_its_pod_deleted(kubectl: Kubectl) -> None:
    kubectl.create(slice_pod("rightful", mem=4, cores=15, **nodes.on(nodes.first())))
    kubectl.running("rightful")
    before = life(kubectl, "rightful"), held(kubectl, "rightful")
    # Placed by nobody else: it asks for more than there is, until its grant is written by hand.
    kubectl.create(slice_pod("intruder", mem=17, cores=15, **nodes.on(nodes.first())))
    uid = kubectl.pod("intruder")["metadata"]["uid"]
    stolen = {**grant(kubectl, "rightful"), "pod": uid}
    annotations = {"vgpu.io/grant": json.dumps(stolen)}
    binding = {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": "intruder", "annotations": annotations},
        "target": {"apiVersion": "v1", "kind": "Node", "name": nodes.first()},
    }  # fmt: skip
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods/intruder/binding"
    thief = Kubectl(kubectl.namespace, user=ALLOCATOR)
    thief("create", "--raw", path, "--filename", "-", given=json.dumps(binding))
    assert eventually(lambda: not kubectl.has(PODS, "intruder"), 60)
    events = kubectl.events("intruder")
    assert any("rightful" in event for event in events), events
    assert (life(kubectl, "rightful"), held(kubectl, "rightful")) == before
