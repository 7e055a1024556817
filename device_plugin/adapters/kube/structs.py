"""Kubernetes' JSON as msgspec structs, which name only the needed fields: the rest is skipped.

Field names are those of k8s.io/api core/v1 and batch/v1.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from device_plugin.core.contract import annotations

Object = TypeVar("Object")
Text = bytes | bytearray | msgspec.Raw
# Most characters of an owner's kind and uid, which the API server does not check, and of a name.
MAX_OWNER, MAX_NAME = 63, 253
# Bounds of texts that are only shown: characters of a word, and of a message.
SHOWN, SAID = 127, 300
# Most of our keys that are kept of an object of which not only known keys are read.
PREFIX, MOST_KEYS = annotations.PREFIX, 64
_READ = frozenset(
    (*(key.name for key in annotations.KEYS), annotations.KUEUE_QUEUE, annotations.KUEUE_ELASTIC)
)


class Struct(msgspec.Struct, rename="camel", gc=False):
    pass


class RawOwner(Struct):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class BareMeta(Struct):
    name: str
    uid: str = ""
    namespace: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class Meta(BareMeta):
    owner_references: list[RawOwner] | None = None


class Owned(Struct):
    metadata: Meta


class ContainerClaim(Struct):
    name: str = ""
    request: str = ""


class RawResources(Struct):
    limits: dict[str, str | int] | None = None
    requests: dict[str, str | int] | None = None
    claims: list[ContainerClaim] | None = None


class RawContainer(Struct):
    name: str
    # The text of RawResources.
    resources: msgspec.Raw = msgspec.Raw()
    restart_policy: str | None = None


class Gate(Struct):
    name: str = ""


class PersistentVolumeClaim(Struct):
    claim_name: str = ""


class Volume(Struct):
    persistent_volume_claim: PersistentVolumeClaim | None = None


class PodClaim(Struct):
    """A ResourceClaim in a pod's spec or in its status. `name` is the claim's name within the pod.

    `resource_claim_name` is the name of the object; None in the spec if the claim is made from a template.
    """

    name: str = ""
    resource_claim_name: str | None = None


class PodSpec(Struct):
    containers: list[RawContainer]
    init_containers: list[RawContainer] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    node_selector: msgspec.Raw = msgspec.Raw()
    affinity: msgspec.Raw = msgspec.Raw()
    tolerations: msgspec.Raw = msgspec.Raw()
    overhead: dict[str, str | int] | None = None
    resources: RawResources | None = None
    scheduling_gates: list[Gate] | None = None
    volumes: list[Volume] | None = None
    resource_claims: list[PodClaim] | None = None


class Condition(Struct):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodStatus(Struct):
    phase: str = "Pending"
    conditions: list[Condition] | None = None
    nominated_node_name: str = ""
    resource_claim_statuses: list[PodClaim] | None = None


class RawPod(Struct):
    metadata: Meta
    spec: PodSpec
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class TemplateMeta(Struct):
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class TemplateSpec(PodSpec):
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    priority_class_name: str = ""


class RawTemplate(Struct):
    spec: TemplateSpec
    metadata: TemplateMeta | None = None


class RawJobSpec(Struct):
    template: RawTemplate
    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    pod_replacement_policy: str | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    success_policy: dict[str, msgspec.Raw] | None = None
    managed_by: str | None = None


class RawJobStatus(Struct):
    start_time: str | None = None
    active: int = 0
    ready: int | None = None
    succeeded: int = 0
    failed: int = 0
    terminating: int | None = None
    completed_indexes: str = ""
    conditions: list[Condition] | None = None


class RawJob(Struct):
    metadata: Meta
    spec: RawJobSpec
    status: RawJobStatus = msgspec.field(default_factory=RawJobStatus)


class NodeRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: list[str] | None = None


class NodeTerm(Struct):
    match_expressions: list[NodeRequirement] | None = None
    match_fields: list[NodeRequirement] | None = None


class NodeTerms(Struct):
    node_selector_terms: list[NodeTerm] | None = None


class NodeAffinity(Struct):
    required: NodeTerms | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None


class RawToleration(Struct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class RawTaint(Struct):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(Struct):
    unschedulable: bool = False
    taints: list[RawTaint] | None = None


class NodeInfo(Struct):
    kubelet_version: str = ""
    container_runtime_version: str = ""


class NodeStatus(Struct):
    node_info: NodeInfo = msgspec.field(default_factory=NodeInfo)
    capacity: dict[str, str | int] | None = None
    allocatable: dict[str, str | int] | None = None


class RawNode(Struct):
    metadata: Meta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)


class Version(Struct):
    resource_version: str = ""


class Whole(Struct):
    metadata: BareMeta


class Versioned(Struct):
    metadata: Version


class ListMeta(Version):
    # Not `continue`, which is a word of Python.
    rest: str = msgspec.field(default="", name="continue")


class List(Struct):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class MetadataList(Struct):
    metadata: ListMeta
    items: list[Whole] | None = None


class RawEvent(Struct):
    type: str
    object: msgspec.Raw


class RawPodEvent(Struct):
    type: str
    object: RawPod


class Status(Struct):
    message: str = ""
    reason: str = ""
    code: int = 0


class DecodeError(ValueError):
    """The text does not hold an object of the expected form."""


def decoder(kind: type[Object]) -> Callable[[Text], Object]:
    """Returns a function that decodes JSON text to `kind`. The function raises DecodeError."""
    made = msgspec.json.Decoder(kind)

    def decode(text: Text) -> Object:
        try:
            return made.decode(text)
        except msgspec.MsgspecError as error:
            raise DecodeError(str(error)) from error

    return decode


_NO_OWNER = RawOwner()


def controller(metadata: Meta) -> RawOwner:
    """Returns the owner that is the object's controller; an empty RawOwner if there is none."""
    for owner in metadata.owner_references or ():
        if owner.controller:
            return owner
    return _NO_OWNER


def ours(kept: Mapping[str, str] | None, *prefixes: str) -> Sequence[tuple[str, str]]:
    """Returns the labels or annotations whose keys begin with one of `prefixes`: MOST_KEYS at most.

    The keys that vgpu reads come first, so that a tenant cannot push them out by adding other keys.
    """
    found = [item for item in (kept or {}).items() if item[0].startswith(prefixes)]
    return sorted(found, key=lambda item: item[0] not in _READ)[:MOST_KEYS]
