"""Pods, nodes and agents, with only the fields that this project uses, independent of any client library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory, card_list
from device_plugin.core.contract.grants import Grant, own_grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.node_constraints import NodeTraits, Taint
from device_plugin.core.obstacles import NONE, Obstacles


class ContainerKind(Enum):
    """Main containers and sidecars hold slices side by side; a regular init container may not ask."""

    MAIN = "main"
    SIDECAR = "sidecar"
    INIT = "init"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod: its name, kind and resource limits as written (`{"hygon.com/dcu-mem": "4"}`)."""

    name: str
    kind: ContainerKind
    limits: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod as the API server shows it. `node` and `bound`, the time of binding, are empty until it is bound.

    `host` is the CPU, memory and disk that the pod requests. `priority` is that of its PriorityClass; `preempts` is
    false if its preemptionPolicy is Never. `owner` is the kind of its controller (`ReplicaSet`), empty if nothing
    creates it again. `index` is its number in an Indexed Job. `constraints` is a fingerprint of node selector, affinity
    and tolerations: pods with equal ones may go to the same nodes. `nominated` is the node of kube-scheduler's
    nomination. `refused` is a fingerprint of the condition that kube-scheduler last wrote when it refused the pod, 0
    without one. `obstacles` is for people: what the pod waits for other than cards. `labels`, `annotations` and
    `containers` hold only those that this project reads. `ends` is when the grace period of a pod is over that is
    `deleting`.
    """

    namespace: str
    name: str
    uid: str
    node: str = ""
    phase: str = "Pending"
    scheduler: str = ""
    deleting: bool = False
    created: str = ""
    bound: str = ""
    annotations: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None
    containers: tuple[Container, ...] = ()
    host: HostAmounts = HostAmounts()
    priority: int = 0
    preempts: bool = True
    owner: str = ""
    owner_name: str = ""
    owner_uid: str = ""
    index: int | None = None
    constraints: int = 0
    nominated: str = ""
    refused: int = 0
    obstacles: Obstacles = NONE
    ends: str = ""

    @property
    def ended(self) -> bool:
        """True once every container has stopped for good; a deletion mark alone is not an end."""
        return self.phase in ("Succeeded", "Failed")

    def annotation(self, key: str) -> str:
        """The annotation's text, or an empty one."""
        return (self.annotations or {}).get(key, "")

    def label(self, key: str) -> str:
        """The label's value, or an empty one."""
        return (self.labels or {}).get(key, "")

    def grant(self) -> Grant | None:
        """The pod's own grant, or None if it has none.

        Raises AnnotationError if the grant cannot be this pod's: malformed, written for another pod or node, or naming
        a container that the pod does not have.
        """
        text = self.annotation(annotations.GRANT)
        if not text:
            return None
        names = {container.name for container in self.containers}
        return own_grant(text, self.uid, self.node, names)


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the API server shows it; `inventory` and `cordoned` are the raw texts of annotations, empty if absent.

    So is `cordon_notes`, which is for people and does not make two nodes different. `room` is its allocatable CPU,
    memory and disk. `kubelet` and `runtime` are their versions (`v1.36.3`, `containerd://2.2.0`), `capacity` its
    extended resources. `taints` holds only those that keep pods away; a cordon is one of them. `version` is the number
    that grows with each change of the object, 0 if it is not known; it does not make two nodes different.
    """

    name: str
    inventory: str = ""
    uid: str = ""
    kubelet: str = ""
    runtime: str = ""
    capacity: Mapping[str, str] | None = None
    room: HostAmounts = HostAmounts()
    cordoned: str = ""
    labels: Mapping[str, str] | None = None
    taints: tuple[Taint, ...] = ()
    version: int = field(default=0, compare=False)
    cordon_notes: str = field(default="", compare=False)

    def shared(self) -> Inventory | None:
        """The node's cards, with the operators' cordons.

        None if its agent has published none. Raises AnnotationError.
        """
        if not self.inventory:
            return None
        return Inventory.decode(self.inventory).cordon(self.cordons())

    def cordons(self) -> frozenset[str]:
        """The names of cordoned cards; the node may not show them any more."""
        return card_list(self.cordoned)

    def traits(self) -> NodeTraits:
        """The parts of the node that constraints of pods look at."""
        return NodeTraits(self.name, self.labels or {}, self.taints)


@dataclass(frozen=True, slots=True)
class Agent:
    """A pod of the node agent: its name, its node, and host:port of its /metrics, empty while it has none.

    `ready` is that of its probe /readyz.
    """

    pod: str
    node: str
    address: str = ""
    ready: bool = False
