"""The scheduler's view of the cluster: nodes, pods, and pods that it assumes to be bound."""

import threading
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
    """The nodes and pods. Safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._nodes: dict[str, Node] = {}
        self._pods: dict[str, Pod] = {}
        self._assumed: dict[str, str] = {}

    def set_node(self, node: Node) -> bool:
        """Record a node; True if it changed so that a pod may fit."""
        with self._lock:
            before = self._nodes.get(node["metadata"]["name"])
            self._nodes[node["metadata"]["name"]] = node
            return before is None or _scheduling(before) != _scheduling(node)

    def drop_node(self, name: str) -> None:
        """Remove a node."""
        with self._lock:
            self._nodes.pop(name, None)

    def node_names(self) -> list[str]:
        """Every node, in order."""
        with self._lock:
            return sorted(self._nodes)

    def set_pod(self, pod: Pod) -> bool:
        """Record a pod, which ends the assumption about a bound one; True if it was not known to be bound."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            before = self._pods.get(uid)
            self._pods[uid] = pod
            if not node_of(pod):
                return False
            self._assumed.pop(uid, None)
            return before is None or not node_of(before)

    def drop_pod(self, uid: str) -> Pod | None:
        """Remove and return a pod."""
        with self._lock:
            self._assumed.pop(uid, None)
            return self._pods.pop(uid, None)

    def pod(self, uid: str) -> Pod | None:
        """The pod of this uid."""
        with self._lock:
            return self._pods.get(uid)

    def pods(self) -> list[str]:
        """The uids of all pods."""
        with self._lock:
            return list(self._pods)

    def assume(self, uid: str, node: str) -> None:
        """Count the pod on the node from now on, although it is not bound yet."""
        with self._lock:
            self._assumed[uid] = node

    def assumed(self, uid: str) -> bool:
        """True if the pod is on its way to a node."""
        with self._lock:
            return uid in self._assumed

    def forget(self, uid: str) -> None:
        """The pod could not be bound after all."""
        with self._lock:
            self._assumed.pop(uid, None)

    def feasible(self, pod: Pod) -> tuple[list[str], dict[str, list[str]]]:
        """Nodes with room for the pod, in order; and for each other node why not."""
        wanted = fit.asked(pod)
        with self._lock:
            held: dict[str, list[Pod]] = defaultdict(list)
            for uid, other in self._pods.items():
                where = node_of(other) or self._assumed.get(uid)
                if where:
                    held[where].append(other)
            reasons = {
                name: fit.obstacles(node, held[name], wanted) for name, node in sorted(self._nodes.items())
            }
        return [name for name, why in reasons.items() if not why], {
            n: why for n, why in reasons.items() if why
        }


def node_of(pod: Pod) -> str:
    """The node of a bound pod; else empty."""
    return pod["spec"].get("nodeName") or ""


def _scheduling(node: Node) -> Any:
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    return (
        metadata.get("labels"), metadata.get("annotations"), spec.get("unschedulable"), spec.get("taints"),
        status.get("allocatable"),
    )  # fmt: skip
