"""Makes the lists of a large cluster in a real API server's formats: metadata, whole objects, and kubectl's Tables.

Objects are as large as in a real cluster: pods of a ReplicaSet have managed fields of controller, allocator and
kubelet; nodes have lists of images. Every pod holds a quarter of a card.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.contract.grants import CardSize, Grant, Slice
from hack.bench import hygon

CARDS = 8
FAMILY = "hygon.com/dcu"
# Most images of a node that the kubelet lists by default, and objects in a page.
IMAGES, PAGE = 50, 500
# The name of the waiting pod.
WAITS = "waits"
METADATA, TABLE, WHOLE = "metadata", "table", "whole"
TIME = "2026-01-01T00:00:00Z"
POD_COLUMNS = (
    "Name",
    "Ready",
    "Status",
    "Restarts",
    "Age",
    "IP",
    "Node",
    "Nominated Node",
    "Readiness Gates",
)
NODE_COLUMNS = (
    "Name", "Status", "Roles", "Age", "Version", "Internal-IP", "External-IP", "OS-Image", "Kernel-Version",
    "Container-Runtime",
)  # fmt: skip
Pages = Mapping[tuple[str, str], Sequence[bytes]]
"""The pages of each list, by path and format."""


def uuid(node: int, card: int) -> str:
    """The UUID of a card."""
    return f"GPU-{node:012x}{card:04x}"


def metadata(
    name: str, namespace: str, number: int, kept: Mapping[str, str], managers: Sequence[Any]
) -> dict[str, Any]:
    """The metadata of an object, in the API server's format."""
    return {
        "name": name, **({"namespace": namespace} if namespace else {}),
        "uid": f"{number:08x}-0000-4000-8000-{number:012x}", "resourceVersion": str(1_000_000 + number),
        "creationTimestamp": TIME, "annotations": dict(kept), "managedFields": managers,
    }  # fmt: skip


def managed(manager: str, fields: Mapping[str, Any], subresource: str = "") -> dict[str, Any]:
    """An entry of managedFields."""
    entry = {
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": TIME, "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }  # fmt: skip
    return entry | ({"subresource": subresource} if subresource else {})


def tree(*names: str, depth: int = 2) -> dict[str, Any]:
    """A tree of fields in the format of managedFields."""
    return {
        f"f:{name}": {".": {}, **{f"f:{part}{i}": {} for i, part in enumerate(names[:depth])}}
        for name in names
    }


def nodes(count: int) -> list[dict[str, Any]]:
    """The metadata of nodes with their inventories."""
    made = []
    for n in range(count):
        cards = tuple(hygon.card(uuid(n, c), FAMILY, c) for c in range(CARDS))
        kept = {
            annotations.CARDS: Inventory(cards).encode(),
            "node.alpha.kubernetes.io/ttl": "30",
            "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        }
        fields = [
            managed("kubelet", {"f:metadata": tree("annotations", "labels")}),
            managed(
                "kube-controller-manager",
                {"f:metadata": tree("annotations"), "f:spec": tree("podCIDR", "podCIDRs")},
            ),
            managed("vgpu-node", {"f:metadata": tree("annotations")}),
            managed(
                "kubelet",
                {"f:status": tree("allocatable", "capacity", "conditions", "images", "nodeInfo")},
                "status",
            ),
        ]
        labels = {
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": f"node-{n:05}", "kubernetes.io/os": "linux", "vgpu.io/node": "true",
        }  # fmt: skip
        made.append({**metadata(f"node-{n:05}", "", n, kept, fields), "labels": labels})
    return made


def pods(node_count: int, count: int) -> list[dict[str, Any]]:
    """The metadata of pods, each with a slice, spread over all cards."""
    made = []
    status = tree(
        "conditions",
        "containerStatuses",
        "hostIP",
        "hostIPs",
        "phase",
        "podIP",
        "podIPs",
        "startTime",
        depth=5,
    )
    for p in range(count):
        place, round_ = p % (node_count * CARDS), p // (node_count * CARDS)
        n, c = divmod(place, CARDS)
        meta = metadata(f"worker-6c5d8f7b9-{p:05x}", f"team-{p % 100}", 10_000_000 + p, {}, [
            managed("kube-controller-manager", {
                "f:metadata": tree("generateName", "labels", "ownerReferences"),
                "f:spec": tree("containers", "dnsPolicy", "restartPolicy", "schedulerName", "securityContext", depth=4),
            }),
            managed("kubelet", {"f:status": status}, "status"),
        ])  # fmt: skip
        held = Slice(uuid(n, c), 4092, tuple(range(round_ * 15, round_ * 15 + 15)))
        grant = Grant(
            meta["uid"],
            f"node-{n:05}",
            {"main": (held,)},
            cards={held.card: CardSize(hygon.MIB, hygon.SLICES)},
        )
        meta["annotations"][annotations.GRANT] = grant.encode()
        owner = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "worker-6c5d8f7b9", "uid": meta["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        labels = {"app": "worker", "pod-template-hash": "6c5d8f7b9", "team": f"team-{p % 100}"}
        made.append(
            {**meta, "generateName": "worker-6c5d8f7b9-", "labels": labels, "ownerReferences": [owner]}
        )
    return made


def paged(items: Sequence[Mapping[str, Any]], cells: Sequence[str]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each page of a list twice: as metadata, and as a Table."""
    for start in range(0, len(items), PAGE):
        part, rest = items[start : start + PAGE], len(items) - start - PAGE
        token = {"continue": str(start // PAGE + 1), "remainingItemCount": rest} if rest > 0 else {}
        meta = {"resourceVersion": "2000000", **token}
        group = {"apiVersion": "meta.k8s.io/v1"}
        partial: list[dict[str, Any]] = [
            {"kind": "PartialObjectMetadata", **group, "metadata": item} for item in part
        ]
        columns = [
            {"name": name, "type": "string", "format": "", "description": name, "priority": int(i > 4)}
            for i, name in enumerate(cells)
        ]
        rows = [{"cells": [item["metadata"]["name"], *cells[1:]], "object": item} for item in partial]
        yield (
            as_bytes(
                {
                    "kind": "PartialObjectMetadataList",
                    **group,
                    "metadata": meta,
                    "items": [_bare(i) for i in partial],
                }
            ),
            as_bytes(
                {"kind": "Table", **group, "metadata": meta, "columnDefinitions": columns, "rows": rows}
            ),
        )


def _bare(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """The object as an item of a list, without its kind."""
    return {"metadata": item["metadata"]}


def as_bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def pages(node_count: int, slices: int) -> Pages:
    """The pages of the lists of nodes and pods, each list as metadata and as a Table."""
    made: dict[tuple[str, str], Sequence[bytes]] = {}
    for path, items, cells in (
        ("/api/v1/nodes", nodes(node_count), NODE_COLUMNS),
        ("/api/v1/pods", pods(node_count, slices), POD_COLUMNS),
    ):
        both = [*paged(items, cells)]
        made[path, METADATA] = [page for page, _ in both]
        made[path, TABLE] = [table for _, table in both]
    return made


def whole_node(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """A node with this metadata, and with the status that the kubelet writes."""
    amounts = {
        "cpu": "128", "memory": "1056594548Ki", "ephemeral-storage": "1840576000Ki", "pods": "110",
        f"{FAMILY}-mem": str(CARDS * hygon.UNITS), f"{FAMILY}-cores": str(CARDS * hygon.GROUPS), FAMILY: str(CARDS),
    }  # fmt: skip
    conditions = [
        {
            "type": kind, "status": "True" if kind == "Ready" else "False", "reason": f"KubeletHas{kind}",
            "message": f"kubelet has {kind}", "lastHeartbeatTime": TIME, "lastTransitionTime": TIME,
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]  # fmt: skip
    images = [
        {"names": [f"registry.example.com/i{n}@sha256:{n:064x}", f"registry.example.com/i{n}:1"], "sizeBytes": 10**9}
        for n in range(IMAGES)
    ]  # fmt: skip
    info = {
        "kubeletVersion": "v1.36.3",
        "containerRuntimeVersion": "containerd://2.2.0",
        "osImage": "Debian 12",
    }
    status = {
        "capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images, "nodeInfo": info,
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
    }  # fmt: skip
    return {"metadata": metadata, "spec": {"podCIDR": "10.1.0.0/24"}, "status": status}


def whole_pod(metadata: Mapping[str, Any], node: str, limits: Mapping[str, str]) -> dict[str, Any]:
    """A pod with this metadata and one container; it runs on `node`, or waits if `node` is empty."""
    mounts = [
        {"name": "data", "mountPath": "/data"},
        {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True},
    ]
    container = {
        "name": "main", "image": "registry.example.com/worker:1", "command": ["python", "-m", "worker"],
        "env": [{"name": f"SETTING_{n}", "value": f"value-{n}"} for n in range(12)],
        "resources": {"limits": dict(limits), "requests": {**limits, "cpu": "2", "memory": "8Gi"}},
        "volumeMounts": mounts, "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip
    token = {"defaultMode": 420, "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
    ]}  # fmt: skip
    spec = {
        "containers": [container], "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst", "serviceAccountName": "default", "schedulerName": "vgpu-scheduler",
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "token", "projected": token}],
        "tolerations": [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
            for key in ("not-ready", "unreachable")
        ],
    }  # fmt: skip
    if not node:
        why = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0 nodes are available",
        }
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", "conditions": [why]}}
    state = {
        "name": "main", "ready": True, "restartCount": 0, "image": "registry.example.com/worker:1", "started": True,
        "imageID": f"registry.example.com/worker@sha256:{7:064x}", "containerID": f"containerd://{9:064x}",
        "state": {"running": {"startedAt": TIME}},
    }  # fmt: skip
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": TIME}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {
        "phase": "Running", "conditions": conditions, "containerStatuses": [state], "startTime": TIME,
        "hostIP": "10.0.0.1", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "qosClass": "Burstable",
    }  # fmt: skip
    return {"metadata": metadata, "spec": {**spec, "nodeName": node}, "status": status}


def waiting_pod() -> dict[str, Any]:
    """A pod that asks for a whole card's memory and core groups, and so fits nowhere."""
    limits = {f"{FAMILY}-mem": str(hygon.UNITS), f"{FAMILY}-cores": str(hygon.GROUPS)}
    return whole_pod(metadata(WAITS, "default", 20_000_000, {}, ()), "", limits)


def _whole_nodes(count: int) -> Iterator[dict[str, Any]]:
    return (whole_node(each) for each in nodes(count))


def _whole_pods(node_count: int, count: int) -> Iterator[dict[str, Any]]:
    limits = {f"{FAMILY}-mem": "4", f"{FAMILY}-cores": "15"}
    for each in pods(node_count, count):
        yield whole_pod(each, json.loads(each["annotations"][annotations.GRANT])["node"], limits)
    yield waiting_pod()


def whole_pages(node_count: int, slices: int) -> Pages:
    """The pages of whole nodes and pods; one of the pods waits."""
    lists: dict[str, tuple[str, Iterator[dict[str, Any]]]] = {
        "/api/v1/nodes": ("NodeList", _whole_nodes(node_count)),
        "/api/v1/pods": ("PodList", _whole_pods(node_count, slices)),
    }
    return {(path, WHOLE): [*_whole_pages(kind, items)] for path, (kind, items) in lists.items()}


def _whole_pages(kind: str, items: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield the pages of a list; each except the last has the token of the next page."""
    number, part = 1, [*islice(items, PAGE)]
    while part:
        following = [*islice(items, PAGE)]
        meta = {"resourceVersion": "2000000", **({"continue": str(number)} if following else {})}
        yield as_bytes({"kind": kind, "apiVersion": "v1", "metadata": meta, "items": part})
        number, part = number + 1, following
