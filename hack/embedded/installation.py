"""The objects that an installation of vgpu has in the API server: its workloads, and a pod for each of its processes.

The workloads are read from manifests/. No controller acts on them. Their pods are mirror pods, like the pods of
programs that a node runs without the API server.
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
from device_plugin.core.contract import annotations
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import NAMESPACES, NODES, PODS, Kind, Ref
from hack.embedded.clock import timestamp
from hack.embedded.pod_spec import MIRROR

# Long enough for a slow machine.
WRITE_SECONDS = 60.0

NAMESPACE = "vgpu-system"
NODE_LABELS = {"vgpu.io/node": "true"}
CLAIMS_ALLOWED = {annotations.CLAIMS: "allowed"}
# The agents of Hygon's nodes, which an installation has beside those of `node`. No node is labelled for them here.
HYGON = "node-hygon"
_MANIFESTS = Path(__file__).parents[2] / "manifests"
# The manifest of each component's workload.
_FILES = {
    "node": "base/node/agents/daemonset.yaml", HYGON: "base/node/agents/daemonset.yaml",
    "cluster": "base/cluster/deployment.yaml", "jobs": "components/jobs/deployment.yaml",
}  # fmt: skip
# The values that kustomize gives to environment variables of the manifests.
_VALUES = {"FAMILIES": ",".join(DEFAULT_PREFIXES), "VGPU_SCHEDULER_NAME": "vgpu-scheduler"}
Object = dict[str, Any]


class ServicePod(NamedTuple):
    """A process of a service: its component, and its pod's name, node and loopback address."""

    component: str
    name: str
    node: str
    host: str


def allow_claims(api_url: str) -> None:
    """Label the namespace `default`, so that its ResourceClaims may ask for slices. Raises ApiError."""
    with closing(
        KubeClient(Endpoint(api_url, lambda: None), "installation", timeout=WRITE_SECONDS)
    ) as client:
        client.patch(NAMESPACES, Ref("default"), {"metadata": {"labels": CLAIMS_ALLOWED}})


def show(api_url: str, pods: Iterable[ServicePod]) -> None:
    """Create the workloads and pods, and label the nodes of agents. Raises ApiError."""
    found = list(pods)
    with closing(
        KubeClient(Endpoint(api_url, lambda: None), "installation", timeout=WRITE_SECONDS)
    ) as client:
        counts = Counter(pod.component for pod in found)
        for component, count in (counts | {HYGON: 0} if counts["node"] else counts).items():
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
    # As kustomize ends the name of an agent's DaemonSet, and labels its pods.
    metadata, spec, template = found["metadata"], found["spec"], found["spec"]["template"]
    metadata["name"] = f"vgpu-{component}"
    for labels in (metadata["labels"], spec["selector"]["matchLabels"], template["metadata"]["labels"]):
        labels["app.kubernetes.io/component"] = component
    if found["kind"] == "Deployment":
        spec["replicas"] = count
    for container in template["spec"]["containers"]:
        for variable in container.get("env") or ():
            variable.update({"value": _VALUES[variable["name"]]} if variable["name"] in _VALUES else {})
    return found


def _status(kind: str, count: int) -> Mapping[str, int]:
    """The status of a workload of `count` pods, all Ready."""
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
