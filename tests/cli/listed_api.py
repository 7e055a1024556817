"""The client of a command, on the pods and nodes of a FakeApi, which it reads from JSON as it reads an API server's."""

import json
from typing import Any

from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.core.contract import annotations
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.pods import Node, Pod
from device_plugin.kube.api import EVERYWHERE, NODES, PODS, Kind, Listed, Named, Object, Where
from device_plugin.kube.errors import ForbiddenError, GoneError
from tests.builders import objects
from tests.cluster.world import FakeApi


class ListedApi(KubeClient):
    """Lists and gets, and creates nothing; there is no Lease, and so no allocator whose reservations could be known."""

    def __init__(self, api: FakeApi) -> None:
        self._api = api

    def close(self) -> None:
        pass

    def list(self, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        assert where.fields == ""
        found: list[dict[str, Any]] = []
        if kind.plural == NODES.plural:
            found = [node_object(node) for node in self._api.nodes()]
        elif kind.plural == PODS.plural:
            found = [pod_object(pod) for pod in self._api.pods()]
        return Listed([decode.read(kind, json.dumps(each).encode()) for each in found])

    def create(self, kind: Kind[Any], body: Object, namespace: str = "", *, dry: bool = False) -> Any:
        assert (dry, body["kind"], namespace) == (True, "Pod", "default")
        raise ForbiddenError(f'{kind.plural} is forbidden: User "reader" cannot create', 403, "Forbidden")

    def get(self, kind: Kind[Any], of: Named) -> Any:
        if kind.plural != PODS.plural:
            raise GoneError(f'{kind.plural} "{of.name}" not found')
        return decode.read(kind, json.dumps(pod_object(self._api.pod(of.namespace, of.name))).encode())


def pod_object(pod: Pod) -> dict[str, Any]:
    """The JSON of a pod of the random cluster: what its host is asked for is requested by the first container."""
    containers = [objects.container(each.name, dict(each.limits)) for each in pod.containers]
    containers[0]["resources"]["requests"] = {**containers[0]["resources"]["limits"], **_amounts(pod.host)}
    owner = {"apiVersion": "apps/v1", "kind": pod.owner, "name": "owner", "uid": "u", "controller": True}
    metadata = {
        "namespace": pod.namespace, "uid": pod.uid, "creationTimestamp": pod.created,
        "labels": dict(pod.labels or {}), "annotations": dict(pod.annotations or {}),
        "ownerReferences": [owner] if pod.owner else [],
    }  # fmt: skip
    made = objects.pod(pod.name, None, metadata, containers=containers, schedulerName=pod.scheduler)
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": pod.bound}
    if pod.node:
        made["spec"]["nodeName"] = pod.node
    return {**made, "status": {"phase": pod.phase, "conditions": [bound] if pod.bound else []}}


def node_object(node: Node) -> dict[str, Any]:
    """The JSON of a node of the random cluster."""
    kept = {annotations.CARDS: node.inventory, annotations.CORDONED: node.cordoned}
    made = objects.node(node.name, annotations={key: text for key, text in kept.items() if text})
    return {**made, "status": {"allocatable": _amounts(node.room)}}


def _amounts(host: HostAmounts) -> dict[str, str]:
    amounts = {"cpu": f"{host.cpu_milli}m", "memory": f"{host.memory_mib}Mi"}
    return {key: text for key, text in amounts.items() if text[0] != "0"}
