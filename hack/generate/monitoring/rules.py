"""The recording rules: amounts of cards with their model, and shares by card, node, model and namespace.

A rule is named LEVEL:WHAT:OPERATION, as Prometheus' documentation advises; the level says by which labels the series
are. A share counts only cards with both amounts: if the agent is away or the driver reports no use, a card is left out.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from hack.generate.monitoring.queries import SLICE, each, ratio, total, with_model

# Amounts by card: the name of the rule, and the metric.
AMOUNTS = {
    "vgpu:card_memory:bytes": "vgpu_card_memory_bytes",
    "vgpu:card_granted_memory:bytes": "vgpu_card_granted_memory_bytes",
    "vgpu:card_used_memory:bytes": "vgpu_card_memory_used_bytes",
    "vgpu:card_core_groups:sum": "vgpu_card_core_groups",
    "vgpu:card_granted_core_groups:sum": "vgpu_card_granted_core_groups",
}
# Core groups of a card, multiplied by the share of the last moment in which the card computed.
BUSY = "vgpu:card_busy_core_groups:sum"
# Shares: the name, and the two amounts of which one is divided by the other.
SHARES = {
    "memory_granted": ("vgpu:card_granted_memory:bytes", "vgpu:card_memory:bytes"),
    "memory_used": ("vgpu:card_used_memory:bytes", "vgpu:card_memory:bytes"),
    "core_groups_granted": ("vgpu:card_granted_core_groups:sum", "vgpu:card_core_groups:sum"),
    "busy": (BUSY, "vgpu:card_core_groups:sum"),
}
LEVELS = {
    "card": "node, card, family, model",
    "node": "node",
    "model": "family, model",
    "cluster": "",
}
# Cards that a namespace holds and uses, where a slice counts as `vgpu usage` counts it.
NAMESPACE_CARDS = {
    "granted": "vgpu:namespace_granted_cards:sum",
    "memory_used": "vgpu:namespace_memory_used_cards:sum",
    "busy": "vgpu:namespace_busy_cards:sum",
}
# The controllers of pods with slices, from kube-state-metrics: of a pod of a ReplicaSet, the Deployment.
OWNER = "vgpu:pod_owner:info"
# Slices with the time for which they have been idle, and their owner.
IDLE = "vgpu:slice_idle:seconds"
# The resources of cards in a ResourceQuota, of any prefix that ends in dcu, hcu or gpu.
QUOTED = 'resource=~"requests[.][a-z0-9.-]+/(dcu|hcu|gpu)(-mem|-cores|-percent|-slices)?"'


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A rule that stores the result of `expr` as the series `record`."""

    record: str
    expr: str


def recording_rules() -> Iterator[RecordingRule]:
    """All recording rules; a rule that other rules read comes before them."""
    for record, metric in AMOUNTS.items():
        yield RecordingRule(record, with_model(each(metric)))
    busy = f"{each('vgpu_card_busy_ratio')} * {each('vgpu_card_core_groups')}"
    yield RecordingRule(BUSY, with_model(busy))
    for level, by in LEVELS.items():
        for share, (part, whole) in SHARES.items():
            both = f"{_sum(part, by)} / {_sum(f'{whole} and on (node, card) {part}', by)}"
            yield RecordingRule(f"vgpu:{level}_{share}:ratio", both)
    yield RecordingRule(
        "vgpu:namespace_memory_used:bytes", total("vgpu_slice_memory_used_bytes", by="namespace")
    )
    slices, groups = each("vgpu_slice_compute_ratio"), each("vgpu_slice_core_groups")
    yield RecordingRule("vgpu:namespace_core_groups_busy:sum", f"sum by (namespace) ({slices} * {groups})")
    for what, amount in _cards().items():
        yield RecordingRule(NAMESPACE_CARDS[what], f"sum by (namespace) ({amount})")
    quota = ratio(_quota("used"), _quota("hard"), "namespace, resourcequota, resource")
    yield RecordingRule("vgpu:namespace_quota_used:ratio", quota)
    yield RecordingRule(OWNER, _owner())
    yield RecordingRule(IDLE, _idle())


def _cards() -> Mapping[str, str]:
    """Returns the queries for the part of a card that each slice holds, by memory uses, and computes on.

    A slice holds the larger of its shares of memory and of core groups: nobody else could have that part.
    """
    memory = _share("vgpu_slice_memory_limit_bytes", "vgpu_card_memory_bytes")
    groups = _share("vgpu_slice_core_groups", "vgpu_card_core_groups")
    return {
        "granted": f"({memory} > {groups}) or {groups}",
        "memory_used": _share("vgpu_slice_memory_used_bytes", "vgpu_card_memory_bytes"),
        "busy": f"{each('vgpu_slice_compute_ratio')} * ({groups})",
    }


def _share(amount: str, whole: str) -> str:
    return f"{each(amount)} / on (node, card) group_left () {each(whole)}"


def _owner() -> str:
    """Returns the query for the controller of each pod with a slice; the series have the value 1."""
    by, controls = "namespace, pod, owner_kind, owner_name", 'owner_is_controller="true"'
    sets = each("kube_pod_owner", where=f'owner_kind="ReplicaSet", {controls}', by=by)
    named = f'label_replace({sets}, "replicaset", "$1", "owner_name", "(.*)")'
    above = each("kube_replicaset_owner", where=controls, by="namespace, replicaset, owner_kind, owner_name")
    deployments = f"{named} * on (namespace, replicaset) group_left (owner_kind, owner_name) {above}"
    owners = f"max by ({by}) ({deployments}) or on (namespace, pod) {each('kube_pod_owner', where=controls, by=by)}"
    return f"({owners}) and on (namespace, pod) vgpu_slice_memory_limit_bytes"


def _idle() -> str:
    """Returns the query for the idle time of each slice with its owner; a pod without a controller is its own owner.

    If two agents of a node export a slice, the shorter time counts.
    """
    idle = f"min by ({SLICE}) (vgpu_slice_idle_seconds)"
    kind = f'label_replace({idle}, "owner_kind", "Pod", "", "")'
    alone = f'label_replace({kind}, "owner_name", "$1", "pod", "(.*)")'
    return f"{idle} * on (namespace, pod) group_left (owner_kind, owner_name) {OWNER} or on ({SLICE}) {alone}"


def _sum(amount: str, by: str) -> str:
    return f"sum by ({by}) ({amount})" if by else f"sum ({amount})"


def _quota(kind: str) -> str:
    where = f'type="{kind}", {QUOTED}'
    return each("kube_resourcequota", where=where, by="namespace, resourcequota, resource")
