"""Decodes v1 Pods, and the templates of pods. A tenant's texts are cut to the length that is needed."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from device_plugin.adapters.kube import pod_requests, structs
from device_plugin.adapters.kube.structs import MAX_NAME, MAX_OWNER, SAID, SHOWN, Text, controller, decoder
from device_plugin.core.batch import COMPLETION_INDEX
from device_plugin.core.claims import MAX_CLAIMS
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import MAX_CONTAINERS
from device_plugin.core.contract.quantities import LONGEST
from device_plugin.core.hosts import NOTHING, HostAmounts
from device_plugin.core.idle import LONGEST_LIMIT
from device_plugin.core.obstacles import NONE, Obstacles
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import ANNOTATIONS, LABELS, MAX_LIST
from device_plugin.core.roles import MAX_ORDER
from device_plugin.core.workload_kinds import POD_LABELS

# Names of the resources that are kept of containers' limits; None keeps every extended resource.
Resources = frozenset[str] | None

# Annotations and labels that are read are kept, cut one character beyond the longest that is accepted, so that a longer
# one is still refused: a tenant may write 256 KiB into each of ten thousand pods.
_READ = (*ANNOTATIONS, *LABELS, annotations.RANK, annotations.REPLICA_TYPE, annotations.REPLICA_INDEX)
_KEPT = dict.fromkeys(_READ, MAX_LIST + 1)
_KEPT[annotations.ROLE_ORDER] = MAX_ORDER + 1
_KEPT[annotations.GRANT] = annotations.MAX_BYTES + 1
_KEPT[annotations.CHECKPOINT] = 256
_KEPT[annotations.IDLE_LIMIT] = LONGEST_LIMIT + 1
# Entries of a list that is only shown.
_FEW = 4
_NOTHING = (b"", b"null", b"{}")
# Claims of a container that are kept: a second one shows that there are too many.
_MOST_CLAIMS = 2
# Digits of a pod's number: an Indexed Job has fewer than a million pods.
_DIGITS = 6
# Bytes of a text of resources that is remembered; longer ones, of which a tenant may write thousands, are read anew.
_SHORT = 512
# Names and times that many pods have in common, of at most 253 characters: equal ones share one object, to save memory.
_shared = lru_cache(1 << 15)(str)
_NO_CONDITION = structs.Condition()
_decoded, _labels = decoder(structs.RawPod), decoder(dict[str, str])
_decoded_resources = decoder(structs.RawResources)


# The limits that are kept of a container's resources, what it requests of its host, the names of its claims, and the
# requests of these that it uses.
_Resources = tuple[Mapping[str, str], HostAmounts, tuple[str, ...], tuple[str, ...]]
_EMPTY: _Resources = ({}, NOTHING, (), ())


class _Asked(NamedTuple):
    """A pod's container, with its kept limits, its requests of CPU, memory and disk, and the ResourceClaims it uses."""

    name: str
    kind: ContainerKind
    limits: Mapping[str, str]
    host: HostAmounts
    claims: tuple[str, ...]
    of_claims: tuple[str, ...]


def read_pod(text: Text, resources: Resources = None) -> Pod:
    """Returns the Pod in the JSON text of a v1 Pod. Raises DecodeError."""
    return as_pod(_decoded(text), resources)


def as_pod(raw: structs.RawPod, resources: Resources = None) -> Pod:
    """Returns the Pod that a decoded v1 Pod shows."""
    metadata, spec, status = raw.metadata, raw.spec, raw.status
    kept = _ours(metadata.annotations)
    asked = _asked(spec, resources)
    asking = _asking(asked, kept.get(annotations.GRANT, "") if kept else "")
    owner, scheduled = controller(metadata), _scheduled(status.conditions)
    return Pod(
        namespace=_shared(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        node=_shared(spec.node_name or ""),
        phase=_shared(status.phase),
        scheduler=_shared((spec.scheduler_name or "")[:MAX_NAME]),
        deleting=metadata.deletion_timestamp is not None,
        ends=metadata.deletion_timestamp or "",
        created=_shared(metadata.creation_timestamp or ""),
        bound=_shared(scheduled.last_transition_time or "") if scheduled.status == "True" else "",
        annotations=kept,
        labels=_ours(metadata.labels),
        containers=asking,
        host=_host(spec, asked),
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        owner=owner.kind[:MAX_OWNER],
        owner_name=owner.name[:MAX_NAME],
        owner_uid=owner.uid[:MAX_OWNER],
        index=_index(metadata.labels),
        constraints=_constraints(spec),
        nominated=status.nominated_node_name,
        refused=_refused(scheduled),
        obstacles=_obstacles(spec, scheduled) if asking and not spec.node_name else NONE,
        workload=_workload(metadata.labels),
        claims=_claims(asking, spec, status.resource_claim_statuses) if spec.resource_claims else None,
    )


def brief_pod(raw: structs.RawPod) -> Pod:
    """Returns the Pod with its names, node and phase alone: enough to release the slices of a pod that is gone."""
    metadata = raw.metadata
    return Pod(
        metadata.namespace, metadata.name, metadata.uid, node=raw.spec.node_name or "", phase=raw.status.phase
    )


def _scheduled(conditions: Iterable[structs.Condition] | None) -> structs.Condition:
    """Returns the condition PodScheduled; an empty one if there is none."""
    for condition in conditions or ():
        if condition.type == "PodScheduled":
            return condition
    return _NO_CONDITION


def _workload(labels: Mapping[str, str] | None) -> str:
    """Returns the label, as `key=value`, by which a controller names the workload of its pod; empty without one."""
    return next((f"{key}={labels[key]}" for key in POD_LABELS if labels.get(key)), "") if labels else ""


def _index(labels: Mapping[str, str] | None) -> int | None:
    """Returns the pod's number in its Job; None if the label, which a tenant may write, has no such number."""
    text = labels.get(COMPLETION_INDEX, "") if labels else ""
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= _DIGITS else None


def template_pod(namespace: str, raw: structs.RawTemplate, resources: Resources) -> Pod:
    """Returns the pod that a controller makes from this template, without a name. A grant in a template is ignored."""
    kept = _ours((raw.metadata or structs.TemplateMeta()).annotations) or {}
    spec = raw.spec
    asked = _asked(spec, resources)
    asking = _asking(asked, "")
    return Pod(
        namespace,
        "",
        "",
        scheduler=spec.scheduler_name or "",
        annotations={key: text for key, text in kept.items() if key != annotations.GRANT} or None,
        labels=_ours((raw.metadata or structs.TemplateMeta()).labels),
        containers=asking,
        host=_host(spec, asked),
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        constraints=_constraints(spec),
        obstacles=_obstacles(spec, structs.Condition()),
        claims=_claims(asking, spec, None) if spec.resource_claims else None,
    )


def _asked(spec: structs.PodSpec, resources: Resources) -> Sequence[_Asked]:
    """Returns the containers of a pod's spec, the init containers first. Raises DecodeError.

    `resources` are the extended resources whose limits are kept; None keeps all.
    """
    found = [_asked_by(raw, _init_kind(raw), resources) for raw in spec.init_containers or ()]
    found += [_asked_by(raw, ContainerKind.MAIN, resources) for raw in spec.containers]
    return found


def _asked_by(raw: structs.RawContainer, kind: ContainerKind, resources: Resources) -> _Asked:
    return _Asked(_shared(raw.name), kind, *_resources(bytes(raw.resources), resources))


def _asking(asked: Iterable[_Asked], grant: str) -> tuple[Container, ...]:
    """Returns the containers that have kept limits or claims, and the containers that the grant names.

    A pod may have thousands of containers, and a container thousands of resources that no node offers. For a pod
    without a grant, MAX_CONTAINERS + 1 containers are kept at most, so that a pod with too many is still refused. For a
    pod with a grant all are kept: it was not refused, and its grant may name containers whose resources are no longer
    configured.
    """
    found = [
        Container(name, kind, limits, claims, of_claims)
        for name, kind, limits, _, claims, of_claims in asked
        if limits or claims or (grant and f'"{name}"' in grant)
    ]
    return tuple(found if grant else found[: MAX_CONTAINERS + 1])


def _claims(
    asking: Iterable[Container], spec: structs.PodSpec, made: Iterable[structs.PodClaim] | None
) -> Mapping[str, str]:
    """Returns the names of the pod's ResourceClaims, by the names that the spec gives them.

    Claims that containers use come first. `made` are the claims in the pod's status, which were made from templates.
    One more than MAX_CLAIMS is kept, so that a pod with too many is still refused.
    """
    used = {name for container in asking for name in container.claims}
    written = sorted(spec.resource_claims or (), key=lambda claim: claim.name not in used)[: MAX_CLAIMS + 1]
    names = {claim.name for claim in written}
    stored = {claim.name: claim.resource_claim_name or "" for claim in made or () if claim.name in names}
    return {
        claim.name[:MAX_NAME]: (claim.resource_claim_name or stored.get(claim.name, ""))[:MAX_NAME]
        for claim in written
    }


def _resources(text: bytes, resources: Resources) -> _Resources:
    """Returns the needed parts of a container's resources: limits, CPU, memory and disk, and the claims it uses.

    `resources` are the extended resources whose limits are needed; None: all. Raises DecodeError.
    """
    if text in _NOTHING:
        return _EMPTY
    return (_remembered_resources if len(text) <= _SHORT else _read_resources)(text, resources)


def _read_resources(text: bytes, resources: Resources) -> _Resources:
    raw = _decoded_resources(text)
    limits = raw.limits or {}
    # One character beyond the longest quantity that is accepted, so that a longer one is still refused.
    kept = {
        name: str(amount)[: LONGEST + 1]
        for name, amount in limits.items()
        if ("/" in name if resources is None else name in resources)
    }
    host = pod_requests.amounts(raw.requests or {})
    if not raw.claims:
        return kept, host, (), ()
    used = raw.claims[:_MOST_CLAIMS]
    requests = tuple(claim.request[:MAX_NAME] for claim in used)
    return kept, host, tuple(claim.name[:MAX_NAME] for claim in used), requests if any(requests) else ()


# Tens of thousands of pods have only a few distinct texts, and equal ones share one object.
_remembered_resources = lru_cache(4096)(_read_resources)


def _init_kind(raw: structs.RawContainer) -> ContainerKind:
    return ContainerKind.SIDECAR if raw.restart_policy == "Always" else ContainerKind.INIT


def _ours(kept: Mapping[str, str] | None) -> Mapping[str, str] | None:
    # Most pods have none of them.
    if not kept or _KEPT.keys().isdisjoint(kept):
        return None
    return {_shared(key): text[: _KEPT[key]] for key, text in kept.items() if key in _KEPT}


def _constraints(spec: structs.PodSpec) -> int:
    return hash((bytes(spec.node_selector), bytes(spec.affinity), bytes(spec.tolerations)))


def _host(spec: structs.PodSpec, asked: Sequence[_Asked]) -> HostAmounts:
    return pod_requests.requested(
        [each.host for each in asked if each.kind is ContainerKind.MAIN],
        [
            (each.host, each.kind is ContainerKind.SIDECAR)
            for each in asked
            if each.kind is not ContainerKind.MAIN
        ],
        (spec.resources.requests if spec.resources else None) or {},
        spec.overhead or {},
    )


def _refused(scheduled: structs.Condition) -> int:
    """Returns a hash of kube-scheduler's latest reason to refuse the pod; 0 if the pod was not refused."""
    if scheduled.status != "False" or scheduled.reason == "SchedulingGated":
        return 0
    return hash((scheduled.reason, scheduled.message)) or 1


def _obstacles(spec: structs.PodSpec, scheduled: structs.Condition) -> Obstacles:
    gates = _few(gate.name for gate in spec.scheduling_gates) if spec.scheduling_gates else ()
    claims = (volume.persistent_volume_claim for volume in spec.volumes or ())
    claimed = _few(claim.claim_name for claim in claims if claim is not None)
    said = scheduled.message[:SAID] if scheduled.status == "False" else ""
    selector = _selector(spec)
    return Obstacles(gates, selector, claimed, said) if gates or selector or claimed or said else NONE


def _selector(spec: structs.PodSpec) -> str:
    parts = []
    if bytes(spec.node_selector) not in _NOTHING:
        wanted = _labels(spec.node_selector)
        parts.append(f"nodeSelector {', '.join(_few(f'{key}={wanted[key]}' for key in wanted))}")
    if bytes(spec.affinity) not in _NOTHING:
        parts.append("affinity")
    return " and ".join(parts)


def _few(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(text[:SHOWN] for text in islice(texts, _FEW))
