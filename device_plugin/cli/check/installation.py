"""An installation as it was read, and the outcome of a check of it."""

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
from device_plugin.core.errors import AnnotationError
from device_plugin.core.pods import Node
from device_plugin.core.requests import DEFAULT_PREFIXES
from device_plugin.kube.api import Object

NODE_AGENTS = "vgpu-node"
# Most names that a text has.
NAMES = 8
Objects = Sequence[Object] | None
"""Objects as JSON; None where they could not be read."""


class CheckState(Enum):
    """The outcome of a check."""

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
    """An installation, as far as it could be read; the other parts are None, or have an entry in `reading.missing`.

    `missing` gives the reason for each field that is None. Without MutatingAdmissionPolicy in the API server
    `has_mutating` is false, and nothing of it is missing. `leases_at` and `node_leases_at` are the local times at which
    these lists had come, in seconds since 1970: other lists take longer than a Lease is valid. `agents` are the pods of
    the node agents, `replicas` those of the cluster service, `notices` events Preflight of nodes, and `refusals` events
    FailedCreate of the installation's namespace. `server` is the version of the API server, `v1.36.3`; empty where it
    is not known.
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
    server: str = ""
    missing: Mapping[str, str] = field(default_factory=dict)
    namespace: str = NAMESPACE

    def inventories(self) -> Mapping[str, Inventory]:
        """The inventories that can be read, by node."""
        found = {}
        for node in self.nodes or ():
            try:
                inventory = node.shared()
            except AnnotationError:
                continue
            if inventory is not None:
                found[node.name] = inventory
        return found

    def workload(self, name: str) -> Object | None:
        """The Deployment or DaemonSet of this name; None if it was not read or is not there."""
        return next((each for each in self.workloads or () if name_of(each) == name), None)

    def prefixes(self) -> Sequence[str]:
        """The resource prefixes of the installation's cards, and of all that inventories show."""
        shown = {card.family for inventory in self.inventories().values() for card in inventory.cards}
        served = allocator_of(self.workloads, self.namespace).prefixes
        return sorted({*(served or DEFAULT_PREFIXES), *shown})


def allocator_of(workloads: Objects, namespace: str) -> AllocatorDeployment:
    """The settings of the cluster service's Deployment; those of manifests/base if it was not read or is not there."""
    found = (each for each in workloads or () if name_of(each) == DEPLOYMENT)
    return next(map(read_deployment, found), base_deployment(namespace))


def pod_spec(workload: Object) -> Object:
    """The spec of a workload's pods."""
    template = (workload.get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


def containers(workload: Object) -> Sequence[Object]:
    """The containers of a workload's pods."""
    return pod_spec(workload).get("containers") or []


def problem(check: str, text: str, cure: str) -> Finding:
    """A problem of a check."""
    return Finding(check, CheckState.PROBLEM, text, cure)


def unknown(installed: Installation, check: str, *lists: str) -> Iterator[Finding]:
    """A finding for each of `lists` that could not be read."""
    for name in lists:
        if name in installed.missing:
            yield Finding(check, CheckState.UNKNOWN, installed.missing[name])


def name_of(found: Object) -> str:
    """The name of an object; empty if it has none, as in an answer of another server."""
    metadata = found.get("metadata")
    return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""


def few(names: Sequence[str]) -> str:
    """At most NAMES names, and the number of the others."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"
