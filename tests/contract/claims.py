"""ResourceClaims of a device class that no driver serves, and the allocations that they are given."""

import copy
import uuid
from collections.abc import Mapping
from typing import Any

from tests.builders.objects import container, pod
from tests.contract.cluster import Answer, Cluster
from tests.deadline import eventually

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/default/resourceclaimtemplates"
DRIVER = "contract.example.com"
FINALIZER = "resource.kubernetes.io/delete-protection"
# The name of the claim within its pod.
USED = "gpu"
Object = dict[str, Any]


def spec(**more: Any) -> Object:
    """Returns the spec of a claim of one slice; `more` are further fields of its request."""
    exactly = {"deviceClassName": DRIVER, "capacity": {"requests": {"memory": "4Gi"}}, **more}
    return {"devices": {"requests": [{"name": "slice", "exactly": exactly}]}}


def claim(name: str, **metadata: Any) -> Object:
    return {"metadata": {"name": name, **metadata}, "spec": spec()}


def result(**changed: Any) -> Object:
    """A device that was given; None leaves a field out."""
    given = {
        "request": "slice", "driver": DRIVER, "pool": "n1", "device": "card-0", "shareID": str(uuid.uuid4()),
        "consumedCapacity": {"memory": "4Gi"}, **changed,
    }  # fmt: skip
    return {key: value for key, value in given.items() if value is not None}


def allocation(*results: Object) -> Object:
    only = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    return {"devices": {"results": list(results)}, "nodeSelector": {"nodeSelectorTerms": [only]}}


def consumer(body: Object) -> Object:
    """The entry of a pod in reservedFor."""
    return {"resource": "pods", "name": body["metadata"]["name"], "uid": body["metadata"]["uid"]}


def user(name: str, source: Mapping[str, str], **more: Any) -> Object:
    """A pod whose container uses one claim, from `source`; no scheduler takes it."""
    made = {**container(), "resources": {"claims": [{"name": USED}]}}
    return pod(
        name, containers=[made], resourceClaims=[{"name": USED, **source}], schedulerName="nobody", **more
    )


def give(cluster: Cluster, path: str, *pods: Object) -> Answer:
    """Give the claim a device, for these pods, as the allocator does: the finalizer first, then the status."""
    found = copy.deepcopy(cluster.get(path).body)
    found["metadata"]["finalizers"] = [FINALIZER]
    protected = cluster.put(path, found)
    assert protected.code == 200, protected.body
    status = {"allocation": allocation(result()), "reservedFor": [consumer(each) for each in pods]}
    answer = cluster.put(f"{path}/status", protected.body | {"status": status})
    assert answer.code == 200, answer.body
    return answer


def remove(cluster: Cluster, path: str) -> None:
    """Remove a claim, whatever it was given; a controller may write it at the same time."""

    def gone() -> bool:
        cluster.patch(f"{path}/status", {"status": None})
        cluster.patch(path, {"metadata": {"finalizers": None}})
        return cluster.delete(path).code == 404

    assert eventually(gone, 30, every=0.1)
