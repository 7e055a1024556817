"""The scheduler's view of the cluster: its nodes and pods, and assumed pods, which are being bound."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hack.embedded.scheduler import fit
from hack.embedded.scheduler.fit import Node, Pod


class NoFitError(Exception):
    """No node can take the pod; the text is as in framework.FitError. `extender`: the extender was asked too."""

    def __init__(self, nodes: int, reasons: Mapping[str, Sequence[str]], *, extender: bool = False) -> None:
        self.extender = extender
        counts = Counter(reason for texts in reasons.values() for reason in texts)
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        said = f" {listed}." if listed else ""
        super().__init__(
            f"0/{nodes} nodes are available:{said}" if nodes else "no nodes available to schedule pods"
        )


class Cache:
    """The nodes by name, the pods by UID, and by pod UID the nodes of assumed pods, which are not bound yet.

    One thread writes the nodes and one the pods; any thread may read, or assume a pod. Each access is a single
    operation of a dict, so it needs no lock.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, str] = {}

    def set_node(self, node: Node) -> bool:
        """Record a node; true if its change may let a pod fit."""
        before = self.nodes.get(node["metadata"]["name"])
        self.nodes[node["metadata"]["name"]] = node
        return before is None or _scheduling(before) != _scheduling(node)

    def set_pod(self, pod: Pod) -> bool:
        """Record a pod; true if it is newly bound. A bound pod is no longer assumed."""
        uid = pod["metadata"]["uid"]
        before = self.pods.get(uid)
        self.pods[uid] = pod
        if not node_of(pod):
            return False
        self.assumed.pop(uid, None)
        return before is None or not node_of(before)

    def feasible(self, pod: Pod) -> tuple[list[str], dict[str, list[str]]]:
        """The nodes with room for the pod, in order; and for each other node the reasons against it."""
        wanted = fit.asked(pod)
        held: dict[str, list[Pod]] = defaultdict(list)
        # The assumed pods are copied first, so that a pod that is bound meanwhile is in at least one of the copies.
        assumed, pods = self.assumed.copy(), self.pods.copy()
        for uid, other in pods.items():
            where = node_of(other) or assumed.get(uid)
            if where:
                held[where].append(other)
        obstacles = {
            name: fit.obstacles(node, held[name], pod, wanted)
            for name, node in sorted(self.nodes.copy().items())
        }
        fits = [name for name, why in obstacles.items() if not why]
        return fits, {name: why for name, why in obstacles.items() if why}


def node_of(pod: Pod) -> str:
    """The node of a bound pod; empty for an unbound pod."""
    return pod["spec"].get("nodeName") or ""


def _scheduling(node: Node) -> Any:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return (
        metadata.get("labels"), metadata.get("annotations"), spec.get("unschedulable"), spec.get("taints"),
        status.get("allocatable"),
    )  # fmt: skip
