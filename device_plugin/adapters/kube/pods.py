"""JSON of v1 Pods, and of templates that make pods, into values. A tenant's text is cut to the length that is read."""

from collections.abc import Collection, Iterable, Mapping
from itertools import islice

from device_plugin.adapters.kube import pod_requests, structs
from device_plugin.adapters.kube.structs import MAX_NAME, MAX_OWNER, SAID, SHOWN, Text, controller, decoder
from device_plugin.core.batch import COMPLETION_INDEX
from device_plugin.core.contract import annotations
from device_plugin.core.contract.grants import MAX_CONTAINERS
from device_plugin.core.hosts import HostAmounts
from device_plugin.core.obstacles import NONE, Obstacles
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.core.requests import ANNOTATIONS, LABELS, MAX_LIST, MAX_WORD
from device_plugin.core.roles import MAX_ORDER

# Names of the resources that are kept of containers' limits; None keeps every extended resource.
Resources = Collection[str] | None

# Annotations and labels that are read are kept, cut one character beyond the longest that is accepted, so that a longer
# one is still refused: a tenant may write 256 KiB into each of ten thousand pods.
_READ = (*ANNOTATIONS, *LABELS, annotations.RANK, annotations.REPLICA_TYPE, annotations.REPLICA_INDEX)
_KEPT = dict.fromkeys(_READ, MAX_LIST + 1)
_KEPT[annotations.ROLE_ORDER] = MAX_ORDER + 1
_KEPT[annotations.GRANT] = annotations.MAX_BYTES + 1
_KEPT[annotations.CHECKPOINT] = 256
# Entries of a list that is only shown.
_FEW = 4
_NOTHING = (b"", b"null", b"{}")
# Digits of a pod's number: an Indexed Job has fewer than a million pods.
_DIGITS = 6
_decoded, _labels = decoder(structs.Pod), decoder(dict[str, str])


def read_pod(text: Text, resources: Resources = None) -> Pod:
    """The Pod in the JSON text of a v1 Pod. Raises DecodeError."""
    raw = _decoded(text)
    kept = _ours(raw.metadata.annotations)
    asking = _asking(raw.spec, resources, (kept or {}).get(annotations.GRANT, ""))
    owner = controller(raw.metadata)
    scheduled = next(
        (c for c in raw.status.conditions or () if c.type == "PodScheduled"), structs.Condition()
    )
    return Pod(
        namespace=raw.metadata.namespace,
        name=raw.metadata.name,
        uid=raw.metadata.uid,
        node=raw.spec.node_name or "",
        phase=raw.status.phase,
        scheduler=raw.spec.scheduler_name or "",
        deleting=raw.metadata.deletion_timestamp is not None,
        ends=raw.metadata.deletion_timestamp or "",
        created=raw.metadata.creation_timestamp or "",
        bound=(scheduled.last_transition_time or "") if scheduled.status == "True" else "",
        annotations=kept,
        labels=_ours(raw.metadata.labels),
        containers=asking,
        host=_host(raw.spec),
        priority=raw.spec.priority or 0,
        preempts=raw.spec.preemption_policy != "Never",
        owner=owner.kind[:MAX_OWNER],
        owner_name=owner.name[:MAX_NAME],
        owner_uid=owner.uid[:MAX_OWNER],
        index=_index(raw.metadata.labels),
        constraints=_constraints(raw.spec),
        nominated=raw.status.nominated_node_name,
        refused=_refused(scheduled),
        obstacles=_obstacles(raw.spec, scheduled) if asking and not raw.spec.node_name else NONE,
    )


def _index(labels: Mapping[str, str] | None) -> int | None:
    """The pod's number in its Job, which a tenant may have written."""
    text = (labels or {}).get(COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def template_pod(namespace: str, raw: structs.Template, resources: Resources) -> Pod:
    """A pod as its controller makes it of this template, without a name; a grant is never its author's."""
    kept = _ours((raw.metadata or structs.TemplateMeta()).annotations) or {}
    spec = raw.spec
    return Pod(
        namespace,
        "",
        "",
        scheduler=spec.scheduler_name or "",
        annotations={key: text for key, text in kept.items() if key != annotations.GRANT} or None,
        labels=_ours((raw.metadata or structs.TemplateMeta()).labels),
        containers=_asking(spec, resources, ""),
        host=_host(spec),
        priority=spec.priority or 0,
        preempts=spec.preemption_policy != "Never",
        constraints=_constraints(spec),
        obstacles=_obstacles(spec, structs.Condition()),
    )


def _asking(spec: structs.PodSpec, resources: Resources, grant: str) -> tuple[Container, ...]:
    """The containers whose limits name one of `resources`, and those that the grant names.

    A pod may have thousands of containers, and a container thousands of resources that no node offers. Without a grant,
    one container more than a pod may have is kept, so that the pod is still refused. A grant is that of a pod that was
    not refused; it names containers that asked for resources which are perhaps no longer configured.
    """
    containers = [(raw, _init_kind(raw)) for raw in spec.init_containers or ()]
    containers += [(raw, ContainerKind.MAIN) for raw in spec.containers]
    found = (_container(raw, kind, resources) for raw, kind in containers if raw.resources)
    if grant:
        return tuple(one for one in found if one.limits or f'"{one.name}"' in grant)
    return tuple(islice((one for one in found if one.limits), MAX_CONTAINERS + 1))


def _container(raw: structs.Container, kind: ContainerKind, resources: Resources) -> Container:
    limits = (raw.resources.limits if raw.resources else None) or {}
    names: Iterable[str] = (name for name in limits if "/" in name) if resources is None else resources
    # One character beyond the longest quantity that is accepted, so that a longer one is still refused.
    return Container(
        raw.name, kind, {name: str(limits[name])[: MAX_WORD + 1] for name in names if name in limits}
    )


def _init_kind(raw: structs.Container) -> ContainerKind:
    return ContainerKind.SIDECAR if raw.restart_policy == "Always" else ContainerKind.INIT


def _ours(kept: Mapping[str, str] | None) -> Mapping[str, str] | None:
    return {key: text[: _KEPT[key]] for key, text in (kept or {}).items() if key in _KEPT} or None


def _constraints(spec: structs.PodSpec) -> int:
    return hash(tuple(bytes(part) for part in (spec.node_selector, spec.affinity, spec.tolerations)))


def _host(spec: structs.PodSpec) -> HostAmounts:
    return pod_requests.requested(
        (_asked(container.resources) for container in spec.containers),
        ((_asked(c.resources), c.restart_policy == "Always") for c in spec.init_containers or ()),
        _asked(spec.resources),
        spec.overhead or {},
    )


def _asked(raw: structs.Resources | None) -> Mapping[str, str | int]:
    return (raw.requests if raw else None) or {}


def _refused(scheduled: structs.Condition) -> int:
    """A fingerprint of why kube-scheduler last took the pod back; 0 if it never did."""
    if scheduled.status != "False" or scheduled.reason == "SchedulingGated":
        return 0
    return hash((scheduled.reason, scheduled.message)) or 1


def _obstacles(spec: structs.PodSpec, scheduled: structs.Condition) -> Obstacles:
    claims = (volume.persistent_volume_claim for volume in spec.volumes or ())
    found = Obstacles(
        _few(gate.name for gate in spec.scheduling_gates or ()),
        _selector(spec),
        _few(claim.claim_name for claim in claims if claim is not None),
        scheduled.message[:SAID] if scheduled.status == "False" else "",
    )
    return NONE if found == NONE else found


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
