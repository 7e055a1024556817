"""The checks of kube-scheduler before it calls an extender: cordons, nodeSelector, extended resources."""

from collections.abc import Iterable, Mapping
from typing import Any

from hack.embedded.pod_requests import ZERO, Amounts, amounts, requested, total

Pod = Mapping[str, Any]
Node = Mapping[str, Any]


def asked(pod: Pod) -> Amounts:
    """The extended resources that a pod takes. CPU and memory are not counted: every node here has enough."""
    return {name: amount for name, amount in requested(pod).items() if "/" in name}


def obstacles(node: Node, pods: Iterable[Pod], pod: Pod, wanted: Amounts) -> list[str]:
    """kube-scheduler's texts why `pod`, which asks for `wanted`, does not fit next to `pods`; empty if it fits."""
    if (node.get("spec") or {}).get("unschedulable"):
        return ["node(s) were unschedulable"]
    labels = node["metadata"].get("labels") or {}
    if not (pod["spec"].get("nodeSelector") or {}).items() <= labels.items():
        return ["node(s) didn't match Pod's node affinity/selector"]
    offered = amounts((node.get("status") or {}).get("allocatable"))
    needed = wanted
    for pod in pods:
        needed = total(needed, asked(pod))
    return [f"Insufficient {name}" for name in sorted(wanted) if needed[name] > offered.get(name, ZERO)]
