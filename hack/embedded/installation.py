"""The objects that an installation of vgpu has in the API server: its workloads, and a pod for each of its processes.

The workloads are those of manifests/. Nothing acts on them: the processes run by themselves, so their pods are mirrors,
as those of programs are that a node runs without the API server.
"""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import NODES, PODS, Kind, Ref
from hack.embedded.clock import timestamp
from hack.embedded.pod_spec import MIRROR

# So long that a slow machine answers in time.
WRITE_SECONDS = 60.0

NAMESPACE = "vgpu-system"
NODE_LABELS = {"vgpu.io/node": "true"}
_MANIFESTS = Path(__file__).parents[2] / "manifests"
# By component.
_FILES = {
    "node": "base/node/daemonset.yaml", "cluster": "base/cluster/deployment.yaml",
    "jobs": "components/jobs/deployment.yaml",
}  # fmt: skip
# The texts that kustomize puts in place of words of the manifests.
_VALUES = {"FAMILIES": ",".join(DEFAULT_PREFIXES), "VGPU_SCHEDULER_NAME": "vgpu-scheduler"}
Object = dict[str, Any]


class ServicePod(NamedTuple):
    """A process of a service: its component, its pod's name, its node, and the loopback address that is its own."""

    component: str
    name: str
    node: str
    host: str


def show(api_url: str, pods: Iterable[ServicePod]) -> None:
    """Create the objects, and label the nodes of agents. Raises ApiError."""
    found = list(pods)
    with closing(
        KubeClient(Endpoint(api_url, lambda: None), "installation", timeout=WRITE_SECONDS)
    ) as client:
        for component, count in Counter(pod.component for pod in found).items():
            workload = _workload(component, count)
            kind = Kind("apps", "v1", f"{workload['kind'].lower()}s", workload["kind"], dict)
            made = client.create(kind, workload, NAMESPACE)
            name = Ref(made["metadata"]["name"], NAMESPACE)
            client.patch(kind, name, {"status": _status(workload["kind"], count)}, subresource="status")
            for pod in found:
                if pod.component == component:
                    client.create(PODS, _pod(pod, workload), NAMESPACE)
                    status = {"status": _pod_status(pod, workload)}
                    client.patch(PODS, Ref(pod.name, NAMESPACE), status, subresource="status")
        for pod in found:
            if pod.component == "node":
                client.patch(NODES, Ref(pod.node), {"metadata": {"labels": NODE_LABELS}})


def _workload(component: str, count: int) -> Object:
    """The Deployment or DaemonSet of a component with `count` pods."""
    found: Object = yaml.safe_load((_MANIFESTS / _FILES[component]).read_text(encoding="utf-8"))
    if found["kind"] == "Deployment":
        found["spec"]["replicas"] = count
    for container in found["spec"]["template"]["spec"]["containers"]:
        for variable in container.get("env") or ():
            variable.update({"value": _VALUES[variable["name"]]} if variable["name"] in _VALUES else {})
    return found


def _status(kind: str, count: int) -> Mapping[str, int]:
    """The status of a workload all of whose pods are Ready."""
    names = {
        "Deployment": "replicas updatedReplicas readyReplicas availableReplicas",
        "DaemonSet": "currentNumberScheduled desiredNumberScheduled updatedNumberScheduled numberReady numberAvailable",
    }
    return dict.fromkeys(names[kind].split(), count)


def _pod(pod: ServicePod, workload: Object) -> Object:
    template = workload["spec"]["template"]
    containers = [
        {
            key: copy.deepcopy(each[key])
            for key in ("name", "image", "args", "command", "ports")
            if key in each
        }
        for each in template["spec"]["containers"]
    ]
    metadata = {"name": pod.name, "labels": template["metadata"]["labels"], "annotations": {MIRROR: pod.name}}
    spec = {"nodeName": pod.node, "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _pod_status(pod: ServicePod, workload: Object) -> Object:
    began = timestamp()
    state = {"ready": True, "restartCount": 0, "state": {"running": {"startedAt": began}}}
    names = [each["name"] for each in workload["spec"]["template"]["spec"]["containers"]]
    return {
        "phase": "Running", "podIP": pod.host, "startTime": began,
        "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")],
        "containerStatuses": [{"name": name, **state} for name in names],
    }  # fmt: skip
