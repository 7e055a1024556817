"""The values of `vgpu check`: an installation as it was read, and the finding of a check."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from device_plugin.cli.access.caller import NAMESPACE
from device_plugin.cli.reading.allocator_deployment import (
    DEPLOYMENT,
    AllocatorDeployment,
    base_deployment,
    read_deployment,
)
from device_plugin.cli.reading.cluster import ClusterReading
from device_plugin.core.contract.cards import Inventory
from device_plugin.core.counted import few_of
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Node
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import Object

NODE_AGENTS = ("vgpu-node", "vgpu-node-hygon")
"""The DaemonSets of agents: Hygon's nodes have one of their own."""
# Most names in a text.
NAMES = 8
Objects = Sequence[Object] | None
"""Objects as JSON; None where they could not be read."""


class CheckState(Enum):
    """The outcome of a check: all is well, there is a problem, or the check could not be made."""

    OK = "ok"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of a check, or one of its problems with its cure."""

    check: str
    state: CheckState
    text: str
    cure: str = ""


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation, as far as the caller may read it.

    A field is None if it could not be read; `missing` has the reason by the field's name, and `reading.missing` the
    reasons for parts of `reading`.

    - `agents` and `replicas` are the pods of the node agents and of the cluster service.
    - `has_mutating` is false if the API server has no MutatingAdmissionPolicy; then no reason is in `missing`.
    - `leases_at` is the local time, in seconds since 1970, at which `leases` had been read, and `node_leases_at` is the
      same for `node_leases`. The ages of Leases count from these times, because it takes longer to read all other lists
      than a Lease is valid.
    - `notices` are the nodes' events with the reason Preflight, and `refusals` the namespace's events with the reason
      FailedCreate.
    - `classes` are the DeviceClasses and `resource_slices` the ResourceSlices of all drivers; they are read only if the
      cluster service serves ResourceClaims.
    - `server` is the version of the API server, such as `v1.36.3`; empty if unknown.
    """

    reading: ClusterReading
    nodes: Sequence[Node] | None = None
    workloads: Objects = None
    agents: Objects = None
    replicas: Objects = None
    policies: Objects = None
    bindings: Objects = None
    mutating: Objects = None
    mutating_bindings: Objects = None
    has_mutating: bool = True
    leases: Objects = None
    leases_at: float = 0.0
    node_leases: Objects = None
    node_leases_at: float = 0.0
    notices: Objects = None
    refusals: Objects = None
    classes: Objects = None
    resource_slices: Objects = None
    server: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)
    namespace: str = NAMESPACE

    def inventories(self) -> Mapping[str, Inventory]:
        """Returns the inventories that can be read, by node."""
        found = {}
        for node in self.nodes or ():
            try:
                inventory = node.shared()
            except AnnotationError:
                continue
            if inventory is not None:
                found[node.name] = inventory
        return found

    def claims(self) -> bool:
        """True if the cluster service serves ResourceClaims."""
        return allocator_of(self.workloads, self.namespace).claims

    def workload(self, name: str) -> Object | None:
        """Returns the Deployment or DaemonSet of this name; None if it was not read or does not exist."""
        return next((each for each in self.workloads or () if name_of(each) == name), None)

    def prefixes(self) -> Sequence[str]:
        """Returns the resource prefixes of the cluster service's settings and of all cards in inventories."""
        shown = {card.family for inventory in self.inventories().values() for card in inventory.cards}
        served = allocator_of(self.workloads, self.namespace).prefixes
        return sorted({*(served or DEFAULT_PREFIXES), *shown})


def allocator_of(workloads: Objects, namespace: str) -> AllocatorDeployment:
    """Returns the settings in the cluster service's Deployment; without one, the settings of manifests/base."""
    found = (each for each in workloads or () if name_of(each) == DEPLOYMENT)
    return next(map(read_deployment, found), base_deployment(namespace))


def pod_spec(workload: Object) -> Object:
    """Returns the spec of a workload's pods."""
    template = (workload.get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


def containers(workload: Object) -> Sequence[Object]:
    """Returns the containers of a workload's pods."""
    return pod_spec(workload).get("containers") or []


def problem(check: str, text: str, cure: str) -> Finding:
    """Returns a finding that is a problem."""
    return Finding(check, CheckState.PROBLEM, text, cure)


def unknown(installed: Installation, check: str, *lists: str) -> Iterator[Finding]:
    """Yields a finding of state UNKNOWN for each of `lists` that could not be read."""
    for name in lists:
        if name in installed.missing:
            yield Finding(check, CheckState.UNKNOWN, installed.missing[name])


def name_of(found: Object) -> str:
    """Returns the name of an object; empty if it has none.

    An object has no name if the server that answered is not an API server, for example.
    """
    metadata = found.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def few(names: Sequence[str]) -> str:
    """Returns text with at most NAMES names, and the number of the others."""
    return few_of(names, NAMES)
