"""The alerts. Each has a page in docs/alerts/ with its meaning, what to look at and what to do."""

import re
from dataclasses import dataclass
from enum import Enum

from device_plugin.core.idle import IDLE_SECONDS
from hack.generate.monitoring.queries import each, either, total
from hack.generate.monitoring.rules import IDLE

PAGES = "docs/alerts"
# The annotation `runbook_url`, with the name of an alert's page in place of NAME.
RUNBOOK = f"{PAGES}/NAME.md"


class Severity(Enum):
    """The label `severity`: how soon a person should look at the alert."""

    CRITICAL = "critical"
    """Pods that ask for a slice fail or wait now, or limits do not hold."""
    WARNING = "warning"
    """A part of the cluster has stopped working; the rest goes on."""
    INFO = "info"
    """Nothing is broken; a person may want to act before requests have to wait."""


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that fires when `expr` has had a result for `lasts` minutes.

    `cause` completes the sentence "fires when …"; {time} in it is the time after which the alert fires. If `expr`
    compares an age, it has its first result after `begins` minutes.
    """

    name: str
    severity: Severity
    lasts: int
    cause: str
    expr: str
    summary: str
    description: str
    begins: int = 0

    @property
    def time(self) -> str:
        """The time from the cause to the alert, in words."""
        minutes = self.begins + self.lasts
        return "a minute" if minutes == 1 else f"{minutes} minutes"

    @property
    def page(self) -> str:
        """The path of the alert's page, such as docs/alerts/agent-down.md for VgpuAgentDown."""
        return RUNBOOK.replace("NAME", self.page_name)

    @property
    def page_name(self) -> str:
        """The name of the alert's page, such as agent-down for VgpuAgentDown."""
        return "-".join(re.findall("[A-Z][a-z]+", self.name.removeprefix("Vgpu"))).lower()


AGENT = each("vgpu_inventory_age_seconds")
# The number of agents that serve according to the leader, but have had no samples for 10 minutes.
_NOT_SCRAPED = (
    'max (vgpu_nodes{serving="yes"}) - (count (max by (node) (max_over_time(vgpu_inventory_age_seconds[10m])))'
    " or vector(0)) > 0"
)
# Minutes after which an inventory is old, a pod has waited long, and a slice counts as idle.
_OLD, _LONG, _IDLE = 2, 25, int(IDLE_SECONDS / 60)

ALERTS = (
    Alert(
        "VgpuAgentDown", Severity.CRITICAL, 10,
        "no agent has served on a node for {time}",
        either(each("vgpu_node_not_serving"), _NOT_SCRAPED),
        "{{ if $labels.node }}The node agent on {{ $labels.node }} does not serve.{{ else }}{{ $value }} node agents"
        " are not scraped.{{ end }}",
        "{{ if not $labels.node }}{{ $value }} agents serve, and Prometheus has had no samples of them for 10 minutes:"
        " what is granted and used there is not known.{{ else }}{{ if eq $labels.cause `agent` }}No agent is ready on"
        " node {{ $labels.node }}{{ else }}The inventory of node {{ $labels.node }} says that its agent does not"
        " serve{{ end }}: pods with slices cannot start there, and the use of its cards is not known. Pods that run go"
        " on.{{ end }}",
    ),
    Alert(
        "VgpuCardUnhealthy", Severity.WARNING, 1,
        "the driver has reported a fault of a card for {time}",
        "min by (node, card) (vgpu_card_healthy) == 0",
        "Card {{ $labels.card }} on {{ $labels.node }} is unhealthy.",
        "The driver reports a fault of card {{ $labels.card }} on node {{ $labels.node }}. It gets no new slices; the"
        " pods that hold slices of it may fail.",
    ),
    Alert(
        "VgpuOverlap", Severity.CRITICAL, 2,
        "two grants have had the same part of a card for {time}",
        either(
            each("vgpu_crowded_cards", where='cause="overlap"') + " > 0",
            f"{total('vgpu_slice_core_groups', by='node, card')} > on (node, card) {each('vgpu_card_core_groups')}",
        ),
        "Slices of a card overlap.",
        "{{ if $labels.card }}Containers hold more core groups of card {{ $labels.card }} on node {{ $labels.node }}"
        " than it has{{ else }}On {{ $value }} cards two grants conflict{{ end }}. This should never happen: the pod"
        " that was bound later is deleted within seconds.",
    ),
    Alert(
        "VgpuSliceUnenforced", Severity.CRITICAL, 2,
        "a container has used a card without its limits for {time}",
        each("vgpu_reported_slices", where='state=~"unenforced|covered"') + " > 0",
        "{{ $value }} containers on {{ $labels.node }} use a card without its limits ({{ $labels.state }}).",
        "On node {{ $labels.node }}, {{ $value }} containers have slices whose limits may not hold:"
        ' {{ if eq $labels.state "covered" }}a mount hides the files that limit them{{ else }}they use a card past the'
        " library, without a slot in the usage region{{ end }}. Other pods on the card may run out of memory.",
    ),
    Alert(
        "VgpuAllocationHigh", Severity.INFO, 30,
        "more than 95 % of the memory or core groups of a model has been granted for {time}",
        either("vgpu:model_memory_granted:ratio > 0.95", "vgpu:model_core_groups_granted:ratio > 0.95"),
        "{{ $value | humanizePercentage }} of the {{ $labels.model }} cards is granted.",
        "Of the memory or the core groups of all cards of model {{ $labels.model }} ({{ $labels.family }}),"
        " {{ $value | humanizePercentage }} has been granted for 30 minutes: larger requests will wait.",
    ),
    Alert(
        "VgpuPodsWaiting", Severity.WARNING, 5,
        "a pod has waited for a slice for {time}",
        each("vgpu_unplaced_oldest_seconds", where='reason!="held"') + f" > {_LONG * 60}",
        "A pod has waited {{ $value | humanizeDuration }} for a slice ({{ $labels.reason }}).",
        "The oldest pod that waits for a slice for the reason {{ $labels.reason }} was created"
        " {{ $value | humanizeDuration }} ago.",
        begins=_LONG,
    ),
    Alert(
        "VgpuSliceIdle", Severity.INFO, 120 - _IDLE,
        "a slice has been idle for {time}",
        f"{IDLE} >= {IDLE_SECONDS:.0f}",
        "{{ $labels.owner_kind }} {{ $labels.namespace }}/{{ $labels.owner_name }} has not used a slice for"
        " {{ $value | humanizeDuration }}.",
        "Container {{ $labels.container }} of pod {{ $labels.namespace }}/{{ $labels.pod }} holds a slice of card"
        " {{ $labels.card }} on node {{ $labels.node }}, and has neither computed on it nor changed its memory there"
        " for {{ $value | humanizeDuration }}.",
        begins=_IDLE,
    ),
    Alert(
        "VgpuNoLeader", Severity.CRITICAL, 2,
        "no replica of the cluster service has led for {time}",
        "absent(vgpu_leader == 1)",
        "No replica of the cluster service leads.",
        "No replica of vgpu-cluster has led for 2 minutes, or none is scraped: pods that ask for a slice wait. Pods"
        " that run go on.",
    ),
    Alert(
        "VgpuInventoryStale", Severity.WARNING, 3,
        "an agent has not known for {time} whether its inventory is right",
        f"{AGENT} > {_OLD * 60}",
        "The inventory of {{ $labels.node }} is {{ $value | humanizeDuration }} old.",
        "The agent on node {{ $labels.node }} has not been able to compare or write its node's inventory for"
        " {{ $value | humanizeDuration }}: a change of its cards is not known to the cluster.",
        begins=_OLD,
    ),
    Alert(
        "VgpuJobEngineNoLeader", Severity.WARNING, 5,
        "the job engine was there in the last 6 hours, and no replica of it has led for {time}",
        "max (max_over_time(vgpu_job_engine_leader[6h])) >= 0 unless max (vgpu_job_engine_leader) == 1",
        "No replica of the job engine leads.",
        "The job engine was there in the last 6 hours, and no replica of it has led for 5 minutes: Jobs in queues"
        " neither start nor change their width. Jobs that run go on.",
    ),
)  # fmt: skip
