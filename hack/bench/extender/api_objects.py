"""Pods and nodes as the JSON of a real API server, about as long as real ones: what is skipped must be read too."""

import json
from datetime import UTC, datetime

from device_plugin.core import annotations
from device_plugin.core.requests import Request
from hack.bench.extender.cluster_model import CONTAINER, ClusterModel, uid

_NOW = "2026-01-01T00:00:00Z"
_SCHEDULER = "vgpu-scheduler"


class PodTexts:
    """Pod `n` of the workload as JSON, pending or bound. Every process that has the workload writes the same."""

    def __init__(self, workload: ClusterModel) -> None:
        self._parts = [_pod(request) for request in workload.requests()]

    def pod(self, number: int, version: int, bound: tuple[str, str] | None, phase: str = "Pending") -> bytes:
        """The JSON of a Pod; `bound` is its node and the text of its grant, None while it is pending."""
        node, grant = bound or ("", "")
        text = self._parts[number % len(self._parts)] % (
            number, uid(number), version, json.dumps({annotations.GRANT: grant}) if bound else "{}",
            f'"nodeName":"{node}",' if bound else "", phase, _SCHEDULED if bound else "",
        )  # fmt: skip
        return text.encode()


def node(name: str, workload: ClusterModel) -> bytes:
    """The Node object, with its inventory."""
    capacity = {"cpu": "128", "memory": "1056000000Ki", "pods": "110", "hygon.com/dcu-mem": "128"}
    info = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.2.0"}
    status = {"capacity": capacity, "allocatable": capacity, "nodeInfo": info, "images": _IMAGES}
    carried = {annotations.CARDS: workload.inventory(name).encode()}
    meta = {"name": name, "uid": name, "resourceVersion": "1", "annotations": carried}
    return json.dumps({"metadata": meta, "spec": {}, "status": status}).encode()


def lease(holder: str) -> bytes:
    """The scheduler's Lease, renewed now."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    meta = {"name": _SCHEDULER, "namespace": "vgpu-system", "resourceVersion": "1"}
    return json.dumps({"metadata": meta, "spec": {"holderIdentity": holder, "renewTime": now}}).encode()


_IMAGES = [
    {"names": [f"registry.example.org/team/image-{i}@sha256:{i:064x}"], "sizeBytes": 10**9} for i in range(10)
]
_SCHEDULED = f'{{"type":"PodScheduled","status":"True","lastTransitionTime":"{_NOW}"}}'
_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{what}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for what in ("not-ready", "unreachable")
]
_ACCESS = {
    "name": "kube-api-access-x7k2p",
    "projected": {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {
                "downwardAPI": {
                    "items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]
                }
            },
        ],
        "defaultMode": 420,
    },
}
_MOUNT = {
    "name": _ACCESS["name"], "readOnly": True, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
}  # fmt: skip


def _pod(request: Request) -> str:
    """A template with the pod's number, uid, version, annotations, node, phase and condition left open."""
    amounts = {f"{request.family}-mem": request.mem, f"{request.family}-cores": request.cores}
    limits = {"cpu": "4", "memory": "16Gi"} | {k: str(v) for k, v in amounts.items() if v is not None}
    container = {
        "name": CONTAINER, "image": "registry.example.org/team/train:1.2.3",
        "command": ["python", "train.py", "--epochs", "10"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(6)],
        "resources": {"limits": limits, "requests": limits}, "volumeMounts": [_MOUNT],
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip
    spec = {
        "containers": [container], "volumes": [_ACCESS], "restartPolicy": "Never", "tolerations": _TOLERATIONS,
        "schedulerName": _SCHEDULER, "serviceAccountName": "default", "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30, "securityContext": {}, "priority": 0, "enableServiceLinks": True,
    }  # fmt: skip
    return (
        '{"kind":"Pod","apiVersion":"v1","metadata":{"name":"pod-%d","namespace":"default","uid":"%s",'
        f'"resourceVersion":"%d","creationTimestamp":"{_NOW}",'
        '"labels":{"app":"train","team":"research","job-name":"train"},"annotations":%s},"spec":{%s'
        + json.dumps(spec)[1:]
        + ',"status":{"phase":"%s","qosClass":"Burstable","conditions":[%s]}}'
    )
