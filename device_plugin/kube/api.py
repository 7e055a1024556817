"""The Kubernetes API as a port: generic verbs on objects of any kind, and the values that they take and give.

A `Kind` says where objects live in the API and what they are read as. The same objects can be read in several ways:
whole as a core type, as `Metadata` only (the server then sends nothing else), or as plain JSON made into a type of the
caller's by a function of its own. So a service that needs one more kind writes one more `Kind`, and no adapter.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from device_plugin.core.batch import FailedCreation, Job, QueuedJob
from device_plugin.core.contract import annotations
from device_plugin.core.contract.resize import MAX_RECORD
from device_plugin.core.jobs.spec import NamedPriorityClass, PriorityClass
from device_plugin.core.pods import Agent, Node, Pod

Item = TypeVar("Item")
Read = TypeVar("Read", covariant=True)
Object = Mapping[str, Any]
"""An object of the API as JSON."""


METADATA_ANNOTATIONS = (annotations.CARDS, annotations.CORDONED, annotations.CORDON_NOTES, annotations.GRANT)


class Metadata(NamedTuple):
    """The metadata of an object of any kind; `labels` holds only those whose keys begin with `vgpu.io/`.

    `annotations` holds only METADATA_ANNOTATIONS.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    version: str = ""
    generation: int = 0
    created: str = ""
    deleting: bool = False
    labels: Mapping[str, str] = MappingProxyType({})
    annotations: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Kind(Generic[Read]):
    """A kind of Kubernetes object, and the Python type that its objects are decoded to.

    `item` is a type that the adapter can decode (Pod, Node, Job, Metadata), or `dict` for JSON; with `parse` it may be
    any type. If `parse` raises KeyError, TypeError, AttributeError or ValueError, as for JSON of another form, the
    object counts as unreadable. If `partial`, the server sends only the metadata of the objects.
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
    """The node agent in its pod; it can be asked at its port `http` while it runs."""
    spec, status = pod["spec"], pod.get("status") or {}
    ports = [port for container in spec["containers"] for port in container.get("ports") or ()]
    port = next((port["containerPort"] for port in ports if port.get("name") == "http"), 0)
    host = status.get("podIP") if status.get("phase") == "Running" and port else None
    if host and ":" in host:
        host = f"[{host}]"
    states = {condition["type"]: condition["status"] for condition in status.get("conditions") or ()}
    address = f"{host}:{port}" if host else ""
    return Agent(pod["metadata"]["name"], spec.get("nodeName") or "", address, states.get("Ready") == "True")


def _queued(job: Object) -> QueuedJob:
    """The metadata of a Job, with its record cut one character beyond the longest that is read."""
    metadata = job["metadata"]
    labels, kept = metadata.get("labels") or {}, metadata.get("annotations") or {}
    return QueuedJob(
        metadata["namespace"], metadata["name"], metadata["uid"],
        labels.get(annotations.GROUP, ""), kept.get(annotations.RESIZE, "")[: MAX_RECORD + 1],
    )  # fmt: skip


def _priority_class(found: Object) -> NamedPriorityClass:
    priority = PriorityClass(int(found["value"]), found.get("preemptionPolicy") != "Never")
    return NamedPriorityClass(found["metadata"]["name"], priority, bool(found.get("globalDefault")))


def _failed_creation(event: Object) -> FailedCreation:
    """The text of an event about a pod that was not accepted, and the last time at which it was written."""
    last = event.get("lastTimestamp") or (event.get("series") or {}).get("lastObservedTime")
    at = last or event.get("eventTime") or event["metadata"]["creationTimestamp"]
    return FailedCreation(str(event.get("message") or ""), str(at))


PODS = Kind("", "v1", "pods", "Pod", Pod)
NODES = Kind("", "v1", "nodes", "Node", Node)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", Metadata, partial=True)
JOBS = Kind("batch", "v1", "jobs", "Job", Job)
QUEUED_JOBS = Kind("batch", "v1", "jobs", "Job", QueuedJob, _queued, partial=True)
"""Jobs of queues, read as what the allocator needs of them."""
PRIORITY_CLASSES = Kind(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", NamedPriorityClass, _priority_class
)
AGENTS = Kind("", "v1", "pods", "Pod", Agent, _agent)
AGENT_LABELS = "app.kubernetes.io/name=vgpu,app.kubernetes.io/component=node"
"""Pods of the node agent, read as what can be asked for loads, and whether they are ready."""
EVENTS: Kind[dict[str, Any]] = Kind("", "v1", "events", "Event", dict)
FAILED_CREATIONS = Kind("", "v1", "events", "Event", FailedCreation, _failed_creation)
"""Events of the reason FailedCreate."""


class Named(Protocol):
    """The name of an object: a Pod, a BindCall, a Metadata, or a Ref. An empty `uid` matches any object of the name."""

    @property
    def namespace(self) -> str:
        """Empty for kinds without namespaces."""

    @property
    def name(self) -> str:
        """Unique in the namespace at any one time."""

    @property
    def uid(self) -> str:
        """The UID, which no later object of that name has."""


@dataclass(frozen=True, slots=True)
class Ref:
    """The name of an object, as a plain value."""

    name: str
    namespace: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Where:
    """A selection of objects: of a namespace (empty: all), with these labels and fields, as kubectl writes them."""

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
    """The types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


class Api(Protocol):
    """Calls to the Kubernetes API server. Each may raise any ApiError, and may be made from any thread."""

    def get(self, kind: Kind[Item], of: Named) -> Item:
        """The object of this name as it is now, never from a cache; its UID is for the caller to compare."""

    def list(self, kind: Kind[Item], where: Where = EVERYWHERE) -> Listed[Item]:
        """Objects as a quorum has them. Objects that cannot be read are left out, and logged."""

    def create(self, kind: Kind[Item], body: Object, namespace: str = "") -> Item:
        """Create an object; returns it as stored. Raises ConflictError if the name is taken."""

    def replace(self, kind: Kind[Item], of: Named, body: Object) -> Item:
        """Write an object whole. With metadata.resourceVersion in `body`, raises ConflictError if it changed since."""

    def patch(
        self, kind: Kind[Item], of: Named, change: Object, *, subresource: str = "", by_key: bool = False
    ) -> Item:
        """Merge `change` into an object of this UID; None takes a field away.

        A list takes the place of the old one. With `by_key` its members are merged by the key by which Kubernetes
        distinguishes them, conditions by their types. With metadata.resourceVersion in `change`, raises ConflictError
        if the object changed since.
        """

    def delete(self, kind: Kind[Any], of: Named, *, grace_seconds: int | None = None) -> None:
        """Delete the object, a pod with its own grace period unless one is given; what it owns is deleted after it.

        Raises GoneError also where another one of that name is there by now.
        """

    def evict(self, pod: Named, *, dry: bool = False) -> None:
        """Evict the pod, or if `dry` only ask whether it may go.

        Raises RefusedError of status 429 where a PodDisruptionBudget forbids it now; GoneError as `delete` does.
        """

    def bind(self, pod: Named, node: str, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Bind the pod of this UID, with annotations and labels in the same write; both sides give up after 3 s."""

    def post_event(
        self, kind: Kind[Any], of: Named, reason: str, message: str, *, warning: bool = True
    ) -> None:
        """Write an event about an object: `reason` in CamelCase, `message` a sentence."""
