"""Decodes Kubernetes' JSON: objects into the types of their kinds, and the parts of lists, watch events and errors."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from device_plugin.adapters.kube import pod_requests, structs
from device_plugin.adapters.kube.constraints import node_taints
from device_plugin.adapters.kube.jobs import read_job
from device_plugin.adapters.kube.pods import Resources, as_pod, brief_pod, read_pod
from device_plugin.adapters.kube.structs import PREFIX, DecodeError, Object, Text, decoder, ours
from device_plugin.adapters.kube.workloads import read_workload
from device_plugin.core.batch import Job
from device_plugin.core.contract import annotations
from device_plugin.core.contract.claims import Claim, read_claim, read_claim_event
from device_plugin.core.pods import Node, Pod
from device_plugin.core.workload_kinds import WORKLOAD_KINDS
from device_plugin.kube.api import METADATA_ANNOTATIONS, Change, Kind, Metadata

# Most characters of a Status's message: it may quote 1 MiB of an object that a tenant wrote.
MAX_MESSAGE = 4096
_read_node, _read_any = decoder(structs.RawNode), decoder(structs.Whole)
_read_list, _read_event, _read_status = (
    decoder(structs.List),
    decoder(structs.RawEvent),
    decoder(structs.Status),
)
_read_pod_event = decoder(structs.RawPodEvent)
_read_metadata_list = decoder(structs.MetadataList)
_read_versioned, _read_json = decoder(structs.Versioned), decoder(dict[str, Any])


def node(text: Text) -> Node:
    """Returns the Node in the JSON text of a v1 Node. Raises DecodeError."""
    raw = _read_node(text)
    info, capacity = raw.status.node_info, raw.status.capacity or {}
    kept, number = raw.metadata.annotations or {}, raw.metadata.resource_version
    return Node(
        name=raw.metadata.name,
        inventory=kept.get(annotations.CARDS, ""),
        uid=raw.metadata.uid,
        kubelet=info.kubelet_version,
        runtime=info.container_runtime_version,
        capacity={name: str(amount) for name, amount in capacity.items() if "/" in name},
        room=pod_requests.offered(raw.status.allocatable or {}),
        cordoned=kept.get(annotations.CORDONED, ""),
        cordon_notes=kept.get(annotations.CORDON_NOTES, ""),
        labels=raw.metadata.labels,
        taints=node_taints(raw.spec),
        version=int(number) if number.isdecimal() else 0,
        registers=tuple(key for key in annotations.REGISTERS if key in kept),
    )


def metadata(text: Text) -> Metadata:
    """Returns the metadata of an object of any kind; the text need hold nothing but the metadata.

    Raises DecodeError.
    """
    return _metadata(_read_any(text).metadata)


def _metadata(raw: structs.BareMeta) -> Metadata:
    return Metadata(
        raw.name, raw.namespace, raw.uid, raw.resource_version, raw.creation_timestamp or "",
        raw.deletion_timestamp is not None, _labels(raw.labels), _annotations(raw.annotations),
    )  # fmt: skip


def claim(text: Text) -> Claim:
    """Returns the Claim in the JSON text of a ResourceClaim. Raises DecodeError."""
    try:
        return read_claim(text)
    except ValueError as error:
        raise DecodeError(str(error)) from error


_READERS: Mapping[type[Any], Callable[[Text], Any]] = {
    Node: node,
    Claim: claim,
    Metadata: metadata,
    dict: _read_json,
}


_WORKLOADS = {(kind.group, kind.version, kind.name): kind for kind in WORKLOAD_KINDS}


def read(kind: Kind[Object], text: Text, resources: Resources = None) -> Object:
    """Returns the object of this kind that the text holds. Raises DecodeError."""
    if kind.parse is None:
        if kind.item is Pod:
            return cast(Object, read_pod(text, resources))
        if kind.item is Job:
            workload = _WORKLOADS.get((kind.group, kind.version, kind.name))
            return cast(
                Object, read_workload(workload, text, resources) if workload else read_job(text, resources)
            )
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
    """Returns the page of a list that the text holds. Raises DecodeError."""
    raw = _read_list(text)
    return Page(raw.items or [], raw.metadata.resource_version, raw.metadata.rest)


def metadata_listed(text: Text) -> tuple[Sequence[Metadata], str, str]:
    """Returns the items of a list decoded to Metadata, the list's resource version, and the token for the next page.

    One pass does it, because a large cluster's list has 200 MB. Raises DecodeError if an item cannot be decoded.
    """
    raw = _read_metadata_list(text)
    return (
        [_metadata(each.metadata) for each in raw.items or ()],
        raw.metadata.resource_version,
        raw.metadata.rest,
    )


def event(line: bytes) -> tuple[str, msgspec.Raw]:
    """Returns type and undecoded object of a watch event. Raises DecodeError."""
    raw = _read_event(line)
    return raw.type, raw.object


def pod_event(line: bytes, resources: Resources = None, *, brief_ends: bool = False) -> tuple[str, str, Pod]:
    """Type, resource version and pod of a watch event, read in one pass.

    Raises DecodeError if the event has no whole pod. With `brief_ends`, a pod that is gone has only its names, node and
    phase.
    """
    raw = _read_pod_event(line)
    brief = brief_ends and raw.type == Change.DELETED.value
    pod = brief_pod(raw.object) if brief else as_pod(raw.object, resources)
    return raw.type, raw.object.metadata.resource_version, pod


def claim_event(line: bytes) -> tuple[str, str, Claim]:
    """Type, resource version and claim of a watch event, read in one pass.

    Raises DecodeError if the event has no whole claim.
    """
    try:
        change, found = read_claim_event(line)
    except ValueError as error:
        raise DecodeError(str(error)) from error
    return change, found.version, found


def version(text: Text) -> str:
    """Returns the resource version of any object. Raises DecodeError."""
    return _read_versioned(text).metadata.resource_version


def status(text: Text) -> tuple[int, str, str]:
    """Returns code, reason and message of a v1 Status; for another text 0, no reason, and the text's beginning."""
    try:
        raw = _read_status(text)
    except DecodeError:
        return 0, "", bytes(text)[:200].decode(errors="replace")
    return raw.code, raw.reason, raw.message[:MAX_MESSAGE]


def _labels(kept: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns the labels whose keys have our prefix. Values are not cut: Kubernetes limits their length."""
    return dict(ours(kept, PREFIX))


def _annotations(kept: Mapping[str, str] | None) -> Mapping[str, str]:
    """Returns the METADATA_ANNOTATIONS, each cut to one character more than its longest allowed text.

    So a text that is too long is still seen as too long. Each of these annotations is looked up by its name:
    annotations that a tenant adds neither hide ours nor take memory.
    """
    if not kept:
        return {}
    return {key: kept[key][: most + 1] for key, most in METADATA_ANNOTATIONS.items() if key in kept}
