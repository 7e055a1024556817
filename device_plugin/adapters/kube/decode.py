"""Kubernetes' JSON into the types that kinds are read as. Structs name only the needed fields: the rest is skipped.

Field names are those of k8s.io/api core/v1.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from device_plugin.adapters.kube import pod_requests
from device_plugin.core import annotations
from device_plugin.core.grants import MAX_CONTAINERS
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.obstacles import NONE, Obstacles
from device_plugin.core.pods import Container, ContainerKind, Node, Pod
from device_plugin.core.requests import ANNOTATIONS, LABELS, MAX_LIST, MAX_WORD
from device_plugin.core.roles import MAX_ORDER
from device_plugin.kube.api import Kind, Metadata

Object = TypeVar("Object")
Text = bytes | bytearray | msgspec.Raw
# Names of the resources that are kept of containers' limits; None keeps every extended resource.
Resources = Collection[str] | None


class _Struct(msgspec.Struct, rename="camel", gc=False):
    pass


class _Owner(_Struct):
    kind: str = ""
    uid: str = ""
    controller: bool | None = None


class _Meta(_Struct):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    generation: int = 0
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    owner_references: list[_Owner] | None = None


class _Resources(_Struct):
    limits: dict[str, str | int] | None = None
    requests: dict[str, str | int] | None = None


class _Container(_Struct):
    name: str
    resources: _Resources | None = None
    restart_policy: str | None = None


class _Gate(_Struct):
    name: str = ""


class _Claim(_Struct):
    claim_name: str = ""


class _Volume(_Struct):
    persistent_volume_claim: _Claim | None = None


class _PodSpec(_Struct):
    containers: list[_Container]
    init_containers: list[_Container] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    node_selector: msgspec.Raw = msgspec.Raw()
    affinity: msgspec.Raw = msgspec.Raw()
    tolerations: msgspec.Raw = msgspec.Raw()
    overhead: dict[str, str | int] | None = None
    resources: _Resources | None = None
    scheduling_gates: list[_Gate] | None = None
    volumes: list[_Volume] | None = None


class _Condition(_Struct):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class _PodStatus(_Struct):
    phase: str = "Pending"
    conditions: list[_Condition] | None = None
    nominated_node_name: str = ""


class _Pod(_Struct):
    metadata: _Meta
    spec: _PodSpec
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _NodeInfo(_Struct):
    kubelet_version: str = ""
    container_runtime_version: str = ""


class _NodeStatus(_Struct):
    node_info: _NodeInfo = msgspec.field(default_factory=_NodeInfo)
    capacity: dict[str, str | int] | None = None
    allocatable: dict[str, str | int] | None = None


class _Node(_Struct):
    metadata: _Meta
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _Version(_Struct):
    resource_version: str = ""


class _Any(_Struct):
    metadata: _Meta


class _Versioned(_Struct):
    metadata: _Version


class _Part(_Version):
    # Not `continue`, which is a word of Python.
    rest: str = msgspec.field(default="", name="continue")


class _List(_Struct):
    metadata: _Part
    items: list[msgspec.Raw] | None = None


class _Event(_Struct):
    type: str
    object: msgspec.Raw


class _Status(_Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


# Annotations and labels that are read are kept, cut one character beyond the longest that is accepted, so that a longer
# one is still refused: a tenant may write 256 KiB into each of ten thousand pods.
_READ = (*ANNOTATIONS, *LABELS, annotations.RANK, annotations.REPLICA_TYPE, annotations.REPLICA_INDEX)
_KEPT = dict.fromkeys(_READ, MAX_LIST + 1)
_KEPT[annotations.ROLE_ORDER] = MAX_ORDER + 1
_KEPT[annotations.GRANT] = annotations.MAX_BYTES + 1
# Bounds of texts that are only shown: entries, characters of an entry, and characters of kube-scheduler's message.
_FEW, _SHOWN, _SAID = 4, 127, 300
# Most of our keys that are kept of an object of which only the metadata is read.
PREFIX, MOST_KEYS = "vgpu.io/", 64
_NOTHING = (b"", b"null", b"{}")
# Most characters of an owner's kind and uid, which the API server does not check.
_OWNER = 63


class DecodeError(ValueError):
    """The text is not the object that it should be."""


def _decoder(kind: type[Object]) -> Callable[[Text], Object]:
    decoder = msgspec.json.Decoder(kind)

    def decode(text: Text) -> Object:
        try:
            return decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise DecodeError(str(error)) from error

    return decode


_read_pod, _read_node, _read_any = _decoder(_Pod), _decoder(_Node), _decoder(_Any)
_read_list, _read_event, _read_status = _decoder(_List), _decoder(_Event), _decoder(_Status)
_read_versioned, _read_labels = _decoder(_Versioned), _decoder(dict[str, str])
_read_json = _decoder(dict[str, Any])


def pod(text: Text, resources: Resources = None) -> Pod:
    """The Pod in the JSON text of a v1 Pod. Raises DecodeError."""
    raw = _read_pod(text)
    kept = _ours(raw.metadata.annotations)
    asking = _asking(raw.spec, resources, (kept or {}).get(annotations.GRANT, ""))
    owner = next((o for o in raw.metadata.owner_references or () if o.controller), _Owner())
    scheduled = next((c for c in raw.status.conditions or () if c.type == "PodScheduled"), _Condition())
    return Pod(
        namespace=raw.metadata.namespace,
        name=raw.metadata.name,
        uid=raw.metadata.uid,
        node=raw.spec.node_name or "",
        phase=raw.status.phase,
        scheduler=raw.spec.scheduler_name or "",
        deleting=raw.metadata.deletion_timestamp is not None,
        created=raw.metadata.creation_timestamp or "",
        bound=(scheduled.last_transition_time or "") if scheduled.status == "True" else "",
        annotations=kept,
        labels=_ours(raw.metadata.labels),
        containers=asking,
        host=_host(raw.spec),
        priority=raw.spec.priority or 0,
        preempts=raw.spec.preemption_policy != "Never",
        owner=owner.kind[:_OWNER],
        owner_uid=owner.uid[:_OWNER],
        constraints=_constraints(raw.spec),
        nominated=raw.status.nominated_node_name,
        refused=_refused(scheduled),
        obstacles=_obstacles(raw.spec, scheduled) if asking and not raw.spec.node_name else NONE,
    )


def node(text: Text) -> Node:
    """The Node in the JSON text of a v1 Node. Raises DecodeError."""
    raw = _read_node(text)
    info, capacity = raw.status.node_info, raw.status.capacity or {}
    kept = raw.metadata.annotations or {}
    return Node(
        name=raw.metadata.name,
        inventory=kept.get(annotations.CARDS, ""),
        uid=raw.metadata.uid,
        kubelet=info.kubelet_version,
        runtime=info.container_runtime_version,
        capacity={name: str(amount) for name, amount in capacity.items() if "/" in name},
        room=pod_requests.offered(raw.status.allocatable or {}),
        cordoned=kept.get(annotations.CORDONED, ""),
    )


def metadata(text: Text) -> Metadata:
    """The metadata of an object of any kind, which may be all that the text has. Raises DecodeError."""
    raw = _read_any(text).metadata
    return Metadata(
        raw.name, raw.namespace, raw.uid, raw.resource_version, raw.generation, raw.creation_timestamp or "",
        raw.deletion_timestamp is not None, _prefixed(raw.labels), _prefixed(raw.annotations),
    )  # fmt: skip


_READERS: Mapping[type[Any], Callable[[Text], Any]] = {
    Node: node,
    Metadata: metadata,
    dict: _read_json,
}


def read(kind: Kind[Object], text: Text, resources: Resources = None) -> Object:
    """An object of this kind. Raises DecodeError."""
    if kind.parse is None:
        if kind.item is Pod:
            return cast(Object, pod(text, resources))
        found: Object = _READERS[kind.item](text)
        return found
    try:
        return kind.parse(_read_json(text))
    except (ValueError, LookupError, TypeError, AttributeError) as error:  # JSON of another form
        raise DecodeError(f"no {kind.name}: {type(error).__name__}: {error}") from error


class Page(NamedTuple):
    """Undecoded items of a list, its resource version, and the token for the next page, empty after the last one."""

    items: list[msgspec.Raw]
    version: str
    rest: str


def listed(text: Text) -> Page:
    """A page of a list. Raises DecodeError."""
    raw = _read_list(text)
    return Page(raw.items or [], raw.metadata.resource_version, raw.metadata.rest)


def event(line: bytes) -> tuple[str, msgspec.Raw]:
    """Type and object of a watch event. Raises DecodeError."""
    raw = _read_event(line)
    return raw.type, raw.object


def version(text: Text) -> str:
    """The resource version of any object. Raises DecodeError."""
    return _read_versioned(text).metadata.resource_version


def status(text: Text) -> tuple[int, str, str]:
    """Code, reason and message of a v1 Status; zeros and empties if it is none."""
    try:
        raw = _read_status(text)
    except DecodeError:
        return 0, "", bytes(text)[:200].decode(errors="replace")
    return raw.code, raw.reason, raw.message


def _asking(spec: _PodSpec, resources: Resources, grant: str) -> tuple[Container, ...]:
    """The containers whose limits name one of `resources`, and those that the grant names.

    A pod may have thousands of containers, and a container thousands of resources that nobody offers. Of a pod without
    a grant so many containers are kept that one with too many is still refused. A grant is that of a pod that was not
    refused; it names containers that asked for resources which are perhaps no longer configured.
    """
    containers = [(raw, _init_kind(raw)) for raw in spec.init_containers or ()]
    containers += [(raw, ContainerKind.MAIN) for raw in spec.containers]
    found = (_container(raw, kind, resources) for raw, kind in containers if raw.resources)
    if grant:
        return tuple(one for one in found if one.limits or f'"{one.name}"' in grant)
    return tuple(islice((one for one in found if one.limits), MAX_CONTAINERS + 1))


def _container(raw: _Container, kind: ContainerKind, resources: Resources) -> Container:
    limits = (raw.resources.limits if raw.resources else None) or {}
    names: Iterable[str] = (name for name in limits if "/" in name) if resources is None else resources
    # One character beyond the longest quantity that is accepted, so that a longer one is still refused.
    return Container(
        raw.name, kind, {name: str(limits[name])[: MAX_WORD + 1] for name in names if name in limits}
    )


def _init_kind(raw: _Container) -> ContainerKind:
    return ContainerKind.SIDECAR if raw.restart_policy == "Always" else ContainerKind.INIT


def _ours(kept: Mapping[str, str] | None) -> Mapping[str, str] | None:
    return {key: text[: _KEPT[key]] for key, text in (kept or {}).items() if key in _KEPT} or None


def _prefixed(kept: Mapping[str, str] | None) -> Mapping[str, str]:
    """The annotations or labels with our prefix, of any kind of object: MOST_KEYS at most, each cut as a grant is."""
    ours = {key: text for key, text in (kept or {}).items() if key.startswith(PREFIX)}
    return {key: text[: annotations.MAX_BYTES + 1] for key, text in islice(ours.items(), MOST_KEYS)}


def _constraints(spec: _PodSpec) -> int:
    return hash(tuple(bytes(part) for part in (spec.node_selector, spec.affinity, spec.tolerations)))


def _host(spec: _PodSpec) -> HostAmounts:
    return pod_requests.requested(
        (_asked(container.resources) for container in spec.containers),
        ((_asked(c.resources), c.restart_policy == "Always") for c in spec.init_containers or ()),
        _asked(spec.resources),
        spec.overhead or {},
    )


def _asked(raw: _Resources | None) -> Mapping[str, str | int]:
    return (raw.requests if raw else None) or {}


def _refused(scheduled: _Condition) -> int:
    """A fingerprint of why kube-scheduler last took the pod back; 0 if it never did."""
    if scheduled.status != "False" or scheduled.reason == "SchedulingGated":
        return 0
    return hash((scheduled.reason, scheduled.message)) or 1


def _obstacles(spec: _PodSpec, scheduled: _Condition) -> Obstacles:
    claims = (volume.persistent_volume_claim for volume in spec.volumes or ())
    found = Obstacles(
        _few(gate.name for gate in spec.scheduling_gates or ()),
        _selector(spec),
        _few(claim.claim_name for claim in claims if claim is not None),
        scheduled.message[:_SAID] if scheduled.status == "False" else "",
    )
    return NONE if found == NONE else found


def _selector(spec: _PodSpec) -> str:
    parts = []
    if bytes(spec.node_selector) not in _NOTHING:
        wanted = _read_labels(spec.node_selector)
        parts.append(f"nodeSelector {', '.join(_few(f'{key}={wanted[key]}' for key in wanted))}")
    if bytes(spec.affinity) not in _NOTHING:
        parts.append("affinity")
    return " and ".join(parts)


def _few(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text[:_SHOWN] for text in islice(texts, _FEW))
