"""The protocol of the Kubernetes API: verbs for objects of any kind, and the values that they take and return.

A `Kind` names a resource of the API and the Python type to which its objects are decoded: a core type, `Metadata` (the
server then sends only the metadata), or any type that a function makes of JSON. A service that needs another kind
defines another `Kind`; the adapter stays as it is.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from device_plugin.core.batch import FailedCreation, Job
from device_plugin.core.contract import annotations, claims
from device_plugin.core.contract.claims import Allocation, read_allocation
from device_plugin.core.contract.resize import MAX_RECORD
from device_plugin.core.contract.resource_slices import StoredSlice, read_slice
from device_plugin.core.jobs.spec import NamedPriorityClass, PriorityClass
from device_plugin.core.pods import Agent, Node, Pod
from device_plugin.core.workload_kinds import JOB, WORKLOAD_KINDS, WorkloadKind

Item = TypeVar("Item")
Read = TypeVar("Read", covariant=True)
Object = Mapping[str, Any]
"""An object of the API as JSON."""


METADATA_ANNOTATIONS = {
    annotations.CARDS: annotations.MAX_BYTES,
    annotations.CORDONED: annotations.MAX_BYTES,
    annotations.CORDON_NOTES: annotations.MAX_BYTES,
    annotations.GRANT: annotations.MAX_BYTES,
    annotations.RESIZE: MAX_RECORD,
}
"""The annotations that Metadata holds, and the largest accepted number of characters of each."""


class Metadata(NamedTuple):
    """The metadata of an object of any kind.

    `labels` holds only labels whose keys begin with `vgpu.io/`. `annotations` holds only those of METADATA_ANNOTATIONS,
    which has a limit of length for each. A longer annotation is cut to one character above its limit, so that readers
    see that it is too long.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    version: str = ""
    created: str = ""
    deleting: bool = False
    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    @property
    def pods_label(self) -> str:
        """Always empty: pods name this object in their ownerReferences, and not by a label."""
        return ""


@dataclass(frozen=True)
class Kind(Generic[Read]):
    """A kind of Kubernetes object, and the Python type that its objects are decoded to.

    `item` is a type that the adapter can decode (Pod, Node, Job, Metadata), or `dict` for JSON. `parse`, if given,
    makes an `item` of any type from an object's JSON. If it raises KeyError, TypeError, AttributeError or ValueError,
    the object counts as unreadable. If `partial`, the server sends only the metadata of the objects.
    """

    group: str
    version: str
    plural: str
    name: str
    item: type[Read]
    parse: Callable[[Object], Read] | None = None
    partial: bool = False

    @property
    def metadata(self) -> "Kind[Metadata]":
        """A kind for this resource, decoded as Metadata: the server sends only the metadata of its objects."""
        return Kind(self.group, self.version, self.plural, self.name, Metadata, partial=True)

    @property
    def json(self) -> "Kind[dict[str, Any]]":
        """A kind for this resource, decoded as JSON dicts."""
        return Kind(self.group, self.version, self.plural, self.name, dict)

    @property
    def api_version(self) -> str:
        """The apiVersion of the kind, such as `v1` or `batch/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version


def _agent(pod: Object) -> Agent:
    """Returns the node agent that runs in this pod; its address, at the port `http`, is empty until the pod runs."""
    spec, status = pod["spec"], pod.get("status") or {}
    ports = [port for container in spec["containers"] for port in container.get("ports") or ()]
    port = next((port["containerPort"] for port in ports if port.get("name") == "http"), 0)
    host = status.get("podIP") if status.get("phase") == "Running" and port else None
    if host and ":" in host:
        host = f"[{host}]"
    states = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    address = f"{host}:{port}" if host else ""
    return Agent(pod["metadata"]["name"], spec.get("nodeName") or "", address, states.get("Ready") == "True")


def _priority_class(found: Object) -> NamedPriorityClass:
    priority = PriorityClass(int(found["value"]), found.get("preemptionPolicy") != "Never")
    return NamedPriorityClass(found["metadata"]["name"], priority, bool(found.get("globalDefault")))


def _failed_creation(event: Object) -> FailedCreation:
    """Returns the text of an event about a pod that the API server refused, and when the event last occurred."""
    last = event.get("lastTimestamp") or (event.get("series") or {}).get("lastObservedTime")
    at = last or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return FailedCreation(str(event.get("message") or ""), str(at))


PODS = Kind("", "v1", "pods", "Pod", Pod)
NODES = Kind("", "v1", "nodes", "Node", Node)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", Metadata, partial=True)
JOBS = Kind("batch", "v1", "jobs", "Job", Job)
WORKLOADS: Mapping[WorkloadKind, Kind[Job]] = {JOB: JOBS} | {
    kind: Kind(kind.group, kind.version, kind.plural, kind.name, Job) for kind in WORKLOAD_KINDS
}
"""The kinds of the API in which the job engine finds workloads: Jobs, and kinds that are decoded to a Job's form."""
PRIORITY_CLASSES = Kind(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", NamedPriorityClass, _priority_class
)
RESOURCE_CLAIMS = Kind(claims.GROUP, claims.VERSION, "resourceclaims", "ResourceClaim", claims.Claim)
AGENTS = Kind("", "v1", "pods", "Pod", Agent, _agent)
AGENT_LABELS = "app.kubernetes.io/name=vgpu,app.kubernetes.io/component in (node,node-hygon)"
"""Selects the pods of the node agents, which AGENTS decodes to their nodes, addresses and readiness."""
ALLOCATIONS = Kind(
    claims.GROUP, claims.VERSION, "resourceclaims", "ResourceClaim", Allocation, read_allocation
)
"""ResourceClaims, decoded to the devices that they were given."""
RESOURCE_SLICES = Kind(
    claims.GROUP, claims.VERSION, "resourceslices", "ResourceSlice", StoredSlice, read_slice
)
EVENTS: Kind[dict[str, Any]] = Kind("", "v1", "events", "Event", dict)
FAILED_CREATIONS = Kind("", "v1", "events", "Event", FailedCreation, _failed_creation)
"""Events of the reason FailedCreate."""


def git_version(text: Callable[[str], str]) -> str:
    """Returns the API server's version, such as `v1.36.3`. `text` returns the server's answer at a path.

    Raises the errors of `text`, and ValueError, LookupError or TypeError for an answer without a version.
    """
    return str(json.loads(text("/version"))["gitVersion"])


def controller_of(metadata: Object) -> Object:
    """Returns the owner reference of an object's controller; an empty mapping if the object has none."""
    owners = metadata.get("ownerReferences") or ()
    return next((each for each in owners if each.get("controller")), {})


class Named(Protocol):
    """The name of an object, as Pod, BindCall, Metadata and Ref have it.

    With an empty `uid` any object of this name is meant.
    """

    @property
    def namespace(self) -> str:
        """The namespace; empty for kinds without namespaces."""

    @property
    def name(self) -> str:
        """The name, which is unique in the namespace at any one time."""

    @property
    def uid(self) -> str:
        """The UID; a later object of the same name has another UID."""


@dataclass(frozen=True, slots=True)
class Ref:
    """Holds the name, namespace and UID of an object."""

    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """A selection of objects: by namespace (empty: all), and by label and field selectors in kubectl's syntax."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


EVERYWHERE = Where()


@dataclass(frozen=True, slots=True)
class Listed(Generic[Read]):
    """A list, and the resource version from which a watch continues it."""

    items: Sequence[Read]
    version: str = ""


class Change(Enum):
    """The types of watch events: an object was added, modified or deleted."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Api(Protocol):
    """Calls to the Kubernetes API server. Each may raise any ApiError, and may be made from any thread."""

    def get(self, kind: Kind[Item], of: Named) -> Item:
        """Returns the object of this name as it is now, never from a cache. The caller has to compare the UID."""

    def list(self, kind: Kind[Item], where: Where = EVERYWHERE) -> Listed[Item]:
        """Returns the objects as a quorum of etcd has them. Objects that cannot be decoded are left out and logged."""

    def create(self, kind: Kind[Item], body: Object, namespace: str = "") -> Item:
        """Create an object; returns it as stored. Raises ConflictError if the name is taken."""

    def replace(self, kind: Kind[Item], of: Named, body: Object) -> Item:
        """Replace a whole object; returns it as stored.

        With metadata.resourceVersion in `body`, raises ConflictError if the object has a newer version.
        """

    def patch(
        self, kind: Kind[Item], of: Named, change: Object, *, subresource: str = "", by_key: bool = False
    ) -> Item:
        """Merge `change` into the object of this UID, or into its `subresource`; returns the object as stored.

        A field whose new value is None is removed. A list replaces the old list; with `by_key`, its members are merged
        by Kubernetes' merge key, such as the type of a condition. With metadata.resourceVersion in `change`, raises
        ConflictError if the object has changed since that version. Client and server give up after 3 s.
        """

    def delete(self, kind: Kind[Any], of: Named, *, grace_seconds: int | None = None) -> None:
        """Delete the object; the API server then deletes the objects that the deleted object owns.

        `grace_seconds` replaces a pod's own grace period. Raises GoneError also if another object has the name now.
        """

    def evict(self, pod: Named, *, dry: bool = False) -> None:
        """Evict the pod; with `dry`, only ask the API server whether the eviction is allowed.

        Raises RefusedError with status 429 if a PodDisruptionBudget forbids it now, and GoneError as `delete` does.
        """

    def bind(self, pod: Named, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Bind the pod of this UID and write annotations and labels with it; client and server give up after 3 s.

        The API server stores the labels only from Kubernetes 1.35 on.
        """

    def post_event(
        self, kind: Kind[Any], of: Named, reason: str, message: str, *, warning: bool = True
    ) -> None:
        """Write an event about an object, of type Warning or Normal; `reason` is in CamelCase, `message` a sentence."""
