"""The scheduler's view of the cluster: nodes, pods, and pods that it assumes to be bound."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from hack.embedded.scheduler import fit
from hack.embedded.scheduler.fit import Node, Pod


class NoFitError(Exception):
    """No node can take the pod; the text is kube-scheduler's (framework.FitError). `extender`: it was asked too."""

    def __init__(self, nodes: int, reasons: Mapping[str, Sequence[str]], *, extender: bool = False) -> None:
        self.extender = extender
        counts = Counter(reason for texts in reasons.values() for reason in texts)
        listed = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        said = f" {listed}." if listed else ""
        super().__init__(
            f"0/{nodes} nodes are available:{said}" if nodes else "no nodes available to schedule pods"
        )


class Cache:
    """Nodes by name, pods by UID, and the nodes of pods that count there although they are not bound yet, by pod UID.

    One thread writes the nodes and one the pods; any thread may read, or assume a pod. Each access is one operation of
    a dict, and so needs no lock.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.assumed: dict[str, str] = {}

    def set_node(self, node: Node) -> bool:
        """Record a node; True if it changed so that a pod may fit."""
        before = self.nodes.get(node["metadata"]["name"])
        self.nodes[node["metadata"]["name"]] = node
        return before is None or _scheduling(before) != _scheduling(node)

    def set_pod(self, pod: Pod) -> bool:
        """Record a pod, which ends the assumption about a bound one; True if it was not known to be bound."""
        uid = pod["metadata"]["uid"]
        before = self.pods.get(uid)
        self.pods[uid] = pod
        if not node_of(pod):
            return False
        self.assumed.pop(uid, None)
        return before is None or not node_of(before)

    def feasible(self, pod: Pod) -> tuple[list[str], dict[str, list[str]]]:
        """Nodes with room for the pod, in order; and for each other node why not."""
        wanted = fit.asked(pod)
        held: dict[str, list[Pod]] = defaultdict(list)
        # In this order: a pod that is bound meanwhile is in one of the two.
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
    """The node of a bound pod; else empty."""
    return pod["spec"].get("nodeName") or ""


def _scheduling(node: Node) -> Any:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return (
        metadata.get("labels"), metadata.get("annotations"), spec.get("unschedulable"), spec.get("taints"),
        status.get("allocatable"),
    )  # fmt: skip
