"""Pods, nodes and agents, with only the fields that this project uses, independent of any client library."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from msgspec import Struct

from device_plugin.core.contract import annotations
from device_plugin.core.contract.cards import Inventory, card_list
from device_plugin.core.contract.grants import Grant, own_grant
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.node_constraints import NodeTraits, Taint
from device_plugin.core.obstacles import NONE, Obstacles


class ContainerKind(Enum):
    """The kind of a container; main containers and sidecars may ask for slices, regular init containers may not."""

    MAIN = "main"
    SIDECAR = "sidecar"
    INIT = "init"


class Container(Struct, frozen=True, gc=False):
    """One container of a pod: its name, kind and resource limits as written (`{"hygon.com/dcu-mem": "4"}`).

    `claims` are the names of the claims that it uses, as `spec.resourceClaims` has them. `of_claims` has, for each
    claim, the request whose devices the container uses; it is empty if the container uses all devices of all its
    claims.
    """

    name: str
    kind: ContainerKind
    limits: Mapping[str, str]
    claims: tuple[str, ...] = ()
    of_claims: tuple[str, ...] = ()


# A struct, and no dataclass: a pod is made for each event of the watch, and a dataclass takes ten times as long.
class Pod(Struct, frozen=True, gc=False):
    """A pod as the API server shows it.

    - `node` and `bound`, the time of binding, are empty until the pod is bound. `ends` is when the grace period of a
      `deleting` pod ends.
    - `host` is the CPU, memory and disk that it requests. `priority` is the number of its PriorityClass; `preempts` is
      false if its preemptionPolicy is Never.
    - `owner` is the kind of its controller (`ReplicaSet`), empty if nothing creates it again. `index` is its number in
      an Indexed Job. `workload` is the label, as `key=value`, by which a controller names the JobSet, RayCluster or
      Kubeflow job of the pod; empty without one.
    - `constraints` is a fingerprint of node selector, affinity and tolerations: pods with equal fingerprints may go to
      the same nodes.
    - `nominated` is the node that kube-scheduler nominated. `refused` is a fingerprint of the condition that
      kube-scheduler wrote when it last refused the pod; 0 without one. `obstacles`, for people, are causes other than
      cards that keep the pod waiting.
    - `labels`, `annotations` and `containers` hold only entries that this project reads.
    - `claims` holds the names of its ResourceClaims by their names in `spec.resourceClaims`; a name is empty until the
      ResourceClaim was made from its template.
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
    workload: str = ""
    claims: Mapping[str, str] | None = None

    @property
    def ended(self) -> bool:
        """True once every container has stopped for good; a pod that is being deleted has not ended by that alone."""
        return self.phase in ("Succeeded", "Failed")

    def annotation(self, key: str) -> str:
        """The text of the annotation `key`; empty if the pod lacks the annotation."""
        return (self.annotations or {}).get(key, "")

    def label(self, key: str) -> str:
        """The value of the label `key`; empty if the pod lacks the label."""
        return (self.labels or {}).get(key, "")

    def grant(self) -> Grant | None:
        """The pod's own grant; None if it has none.

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
    """A node as the API server shows it.

    - `inventory`, `cordoned` and `cordon_notes` are the texts of annotations, empty if absent.
    - `room` is the node's allocatable CPU, memory and disk. `capacity` holds its extended resources.
    - `kubelet` and `runtime` are their versions (`v1.36.3`, `containerd://2.2.0`).
    - `taints` are only taints that keep pods away; a cordon is one of them.
    - `version` grows with each change of the object; 0 if unknown. `version` and `cordon_notes` do not count when two
      nodes are compared.
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
    registers: tuple[str, ...] = ()
    """The annotations by which other programs offer cards of the node (annotations.REGISTERS)."""

    def shared(self) -> Inventory | None:
        """The node's inventory with the operators' cordons; None if its agent has published none.

        Raises AnnotationError if the text cannot be trusted.
        """
        if not self.inventory:
            return None
        return Inventory.decode(self.inventory).cordon(self.cordons())

    def cordons(self) -> frozenset[str]:
        """The names of the cordoned cards, also of cards that the node no longer has."""
        return card_list(self.cordoned)

    def traits(self) -> NodeTraits:
        """The parts of the node that constraints of pods are compared with."""
        return NodeTraits(self.name, self.labels or {}, self.taints)


@dataclass(frozen=True, slots=True)
class Agent:
    """A pod of the node agent: its name, its node, and the `address` HOST:PORT of its /metrics (empty if unknown).

    `ready` is true if its readiness probe, /readyz, succeeds.
    """

    pod: str
    node: str
    address: str = ""
    ready: bool = False
