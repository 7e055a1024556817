"""The Deployment `serving` of docs/rolling-updates.md, in a cluster that has no such image."""

import copy
from typing import Any

from device_plugin.kube.api import Kind
from hack.testbed.cluster import PROJECT
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import cards
from tests.e2e.workloads import IMAGE, PREFIX, SLEEP, container, pod
from tests.transcript import documents

PAGE = (PROJECT / "docs/rolling-updates.md").read_text(encoding="utf-8")
NAME = "deployment/serving"
DEPLOYMENTS = Kind("apps", "v1", "deployments", "Deployment", dict)


def shown() -> dict[str, Any]:
    """The Deployment as the page has it, with an image of this cluster and a program that sleeps."""
    found: list[dict[str, Any]] = documents(PAGE)
    (body,) = found
    spec = body["spec"]["template"]["spec"]
    (main,) = spec["containers"]
    main |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": [*SLEEP]}
    spec["terminationGracePeriodSeconds"] = 1
    return body


def with_default_strategy(body: dict[str, Any]) -> dict[str, Any]:
    """The Deployment with the strategy of Kubernetes: 25 % of the replicas more, 25 % fewer."""
    changed = copy.deepcopy(body)
    del changed["spec"]["strategy"]
    return changed


def changed(body: dict[str, Any], *, replicas: int, percent: int) -> dict[str, Any]:
    """The Deployment with this many replicas, each of which asks for this part of a card."""
    made = copy.deepcopy(body)
    made["spec"]["replicas"] = replicas
    (main,) = made["spec"]["template"]["spec"]["containers"]
    main["resources"]["limits"][f"{PREFIX}-percent"] = percent
    return made


def fill(kubectl: Kubectl) -> list[str]:
    """Pods of the namespace hold all cards of the cluster but one, of the first node; their names."""
    pods = []
    for node in nodes.names():
        here = [card for card in cards().values() if card["node"] == node]
        limits = {"limits": {PREFIX: str(len(here) - (node == nodes.first()))}}
        pods.append(pod(f"fills-{node}", container(resources=limits), **nodes.on(node)))
    kubectl.create(*pods)
    kubectl.running()
    return [one["metadata"]["name"] for one in pods]


def create(kubectl: Kubectl, body: dict[str, Any]) -> set[str]:
    """Create the Deployment; the names of its pods once all are ready."""
    kubectl.apply(body)
    kubectl("rollout", "status", NAME, "--timeout=180s")
    return running(kubectl)


def running(kubectl: Kubectl) -> set[str]:
    """The Deployment's running pods that are not on their way out."""
    found = kubectl.items(labels="app=serving", fields="status.phase=Running")
    return {one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]}


def refusals(kubectl: Kubectl) -> list[str]:
    """What kube-scheduler says of the Deployment's pods that wait for a card."""
    found = kubectl.items(labels="app=serving", fields="status.phase=Pending")
    said = (event for one in found for event in kubectl.events(one["metadata"]["name"]))
    return [event for event in said if event.startswith("FailedScheduling")]


def deployed(kubectl: Kubectl) -> Any:
    """The Deployment as it is now."""
    return kubectl.get(DEPLOYMENTS, "serving")


def not_created(kubectl: Kubectl) -> str:
    """Why a pod of the Deployment could not be created, as the Deployment's condition has it; empty if all could."""
    conditions = deployed(kubectl)["status"].get("conditions", [])
    return "".join(each["message"] for each in conditions if each["type"] == "ReplicaFailure")
