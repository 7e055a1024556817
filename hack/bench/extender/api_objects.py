"""Pods and nodes as JSON, about as long as a real API server's: a reader must also read the parts that it skips."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from device_plugin.core.contract import annotations
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import Request
from hack.bench.extender.cluster_model import CONTAINER, FAMILY, ClusterModel, uid

_NOW = "2026-01-01T00:00:00Z"
_SCHEDULER = "vgpu-scheduler"
# Memory units of a pod that fits no card.
HOPELESS_UNITS = 1000
# The name of a pod's claim in its spec.
_CLAIM = "gpu"


class PodTexts:
    """Writes pod `n` of the workload as JSON, pending or bound. The text depends only on the workload and `n`."""

    def __init__(self, workload: ClusterModel) -> None:
        self._parts = [_pod(request, claims=workload.claims) for request in workload.requests()]
        self._claims = workload.claims

    def pod(self, number: int, version: int, bound: tuple[str, str] | None, phase: str = "Pending") -> bytes:
        """The JSON of a Pod; `bound` is its node and the text of its grant, None while it is pending."""
        node, grant = bound or ("", "")
        text = self._parts[number % len(self._parts)] % (
            number, uid(number), version, json.dumps({annotations.GRANT: grant}) if bound else "{}",
            f'"nodeName":"{node}",' if bound else "", phase, _SCHEDULED if bound else "",
            *((number,) if self._claims else ()),
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
_LABELS = {"app": "train", "team": "research", "job-name": "train"}
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


def pending(pod: Pod) -> bytes:
    """The JSON of a pending pod with the names, limits, labels and annotations of `pod`."""
    containers = [_container(each.name, each.limits) for each in pod.containers]
    text = _template(containers, {**_LABELS, **(pod.labels or {})}, pod.namespace, pod.name)
    return (text % (pod.uid, 1, json.dumps(pod.annotations or {}), "", "Pending", "")).encode()


def hopeless(workload: ClusterModel) -> list[bytes]:
    """The JSON of pods that ask for more memory than any card has, each for a different amount."""
    names = [f"hopeless-{n}" for n in range(workload.hopeless)]
    limits = [{f"{FAMILY}-mem": str(HOPELESS_UNITS + n)} for n in range(workload.hopeless)]
    return [
        pending(Pod("default", name, name, containers=(Container(CONTAINER, ContainerKind.MAIN, asked),)))
        for name, asked in zip(names, limits, strict=True)
    ]


def _pod(request: Request, *, claims: bool) -> str:
    """A template of a pod: a `%` format of number, uid, version, annotations, node, phase and condition.

    If it asks by a claim, the format has the number a second time at its end.
    """
    if claims:
        using = _container(CONTAINER, {})
        using = {**using, "resources": {**using["resources"], "claims": [{"name": _CLAIM}]}}
        made = f'[{{"name":"{_CLAIM}","resourceClaimName":"pod-%d-slice"}}]'
        return _template([using], _LABELS, "default", "pod-%d", claims=made)
    amounts = {f"{request.family}-mem": request.mem, f"{request.family}-cores": request.cores}
    limits = {k: str(v) for k, v in amounts.items() if v is not None}
    return _template([_container(CONTAINER, limits)], _LABELS, "default", "pod-%d")


def _container(name: str, limits: Mapping[str, str]) -> Mapping[str, Any]:
    amounts = {"cpu": "4", "memory": "16Gi", **limits}
    return {
        "name": name, "image": "registry.example.org/team/train:1.2.3",
        "command": ["python", "train.py", "--epochs", "10"],
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(6)],
        "resources": {"limits": amounts, "requests": amounts}, "volumeMounts": [_MOUNT],
        "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip


def _template(
    containers: Sequence[Mapping[str, Any]],
    labels: Mapping[str, str],
    namespace: str,
    name: str,
    claims: str = "",
) -> str:
    """A template of a pod: a `%` format of uid, version, annotations, node, phase and condition.

    `claims` is the format of `resourceClaimStatuses`.
    """
    spec = {
        "containers": containers, "volumes": [_ACCESS], "restartPolicy": "Never", "tolerations": _TOLERATIONS,
        "schedulerName": _SCHEDULER, "serviceAccountName": "default", "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30, "securityContext": {}, "priority": 0, "enableServiceLinks": True,
        **({"resourceClaims": [{"name": _CLAIM, "resourceClaimTemplateName": "slice"}]} if claims else {}),
    }  # fmt: skip
    return (
        f'{{"kind":"Pod","apiVersion":"v1","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"%s",'
        f'"resourceVersion":"%d","creationTimestamp":"{_NOW}",'
        f'"labels":{json.dumps(labels)},"annotations":%s}},"spec":{{%s'
        + json.dumps(spec)[1:]
        + ',"status":{"phase":"%s","qosClass":"Burstable","conditions":[%s]'
        + (f',"resourceClaimStatuses":{claims}' if claims else "")
        + "}}"
    )
