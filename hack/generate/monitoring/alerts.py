"""The alerts. Each has a page in docs/alerts/ with its meaning, what to look at and what to do."""

import re
from dataclasses import dataclass
from enum import Enum

from device_plugin.core.idle import IDLE_SECONDS
from device_plugin.core.jobs.history import STUCK_S
from device_plugin.core.pages import SITE
from hack.generate.monitoring.queries import SLICE, each, either, total
from hack.generate.monitoring.rules import IDLE

PAGES = "docs/alerts"
# The annotation `runbook_url`, with the name of an alert's page in place of NAME. Alertmanager and Grafana make a link
# of it, so it must be a whole address: it is empty, and alerts do not have it, if a release has no published pages.
RUNBOOK = f"{SITE}/alerts/NAME.html" if SITE else ""


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
        if minutes >= 120 and minutes % 60 == 0:
            return f"{minutes // 60} hours"
        return "a minute" if minutes == 1 else f"{minutes} minutes"

    @property
    def page(self) -> str:
        """The path of the alert's page, such as docs/alerts/agent-down.md for VgpuAgentDown."""
        return f"{PAGES}/{self.page_name}.md"

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
# Minutes without progress after which the job engine calls a Job stuck, at the earliest.
_STUCK = int(STUCK_S / 60)
# Refusals of memory in the last 15 minutes. A container that starts again waits up to 5 minutes between two starts, and
# its count begins at 0 each time. If each run ends before the next scrape, the counts of all runs may be equal; then
# the restarts that kube-state-metrics counts show the loop.
_DENIED, _WINDOW = "vgpu_slice_denied_allocations_total", "15m"
_CONTAINER = "namespace, pod, container"
_REFUSED = (
    f"max by ({SLICE}) (increase({_DENIED}[{_WINDOW}])) > 0",
    f"max by ({SLICE}) (max_over_time({_DENIED}[{_WINDOW}])) > 0 and on ({_CONTAINER})"
    f" max by ({_CONTAINER}) (increase(kube_pod_container_status_restarts_total[{_WINDOW}])) > 0",
)
# Less than a memory unit, of 1 GiB by default, takes no unit from another slice; and the driver's own use is in it.
_UNACCOUNTED = 1 << 30
# A Job that has never run goes before its equals after an hour, one that was stopped after 9 hours at the latest; and
# the longest turn of a Job that runs is 10 hours. A wait of a day is longer than these together.
_WAITED = 24 * 60 - 10
# The number of versions, and the first ten processes by service and version, as a template of Prometheus.
_VERSIONS = "count (count by (version) (vgpu_build_info)) > 1"
_EACH_VERSION = (
    "{{ range query `topk (10, count by (service, version) (vgpu_build_info))` }} {{ .Value }} of {{ .Labels.service }}"
    " {{ .Labels.version }};{{ end }}"
)

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
        "VgpuMemoryRefused", Severity.INFO, 30,
        "a container has been refused memory again and again for {time}",
        either(*_REFUSED),
        "Container {{ $labels.container }} of pod {{ $labels.namespace }}/{{ $labels.pod }} is refused memory again and"
        " again.",
        "For 30 minutes, container {{ $labels.container }} of pod {{ $labels.namespace }}/{{ $labels.pod }} has asked"
        " for more memory of card {{ $labels.card }} on node {{ $labels.node }} than its slice has: it ends and starts"
        " again, or gives back memory each time and computes more slowly.",
    ),
    Alert(
        # Three times the engine's own limit: a large checkpoint on slow storage may take that long.
        "VgpuJobStuck", Severity.INFO, 30 - _STUCK,
        "a Job that runs has made no progress for {time}, and ten times its usual interval",
        each("vgpu_job_stuck_seconds") + " > 0",
        "Job {{ $labels.namespace }}/{{ $labels.job }} has made no progress for {{ $value | humanizeDuration }}.",
        "The program of Job {{ $labels.namespace }}/{{ $labels.job }} has reported no progress for"
        " {{ $value | humanizeDuration }}, more than ten times its usual interval. The Job holds its cards meanwhile.",
        begins=_STUCK,
    ),
    Alert(
        "VgpuQueueWaiting", Severity.INFO, 10,
        "a Job in a queue has waited for room for {time}",
        each("vgpu_queue_longest_wait_seconds") + f" > {_WAITED * 60}",
        "A Job in queue {{ $labels.queue }} has waited {{ $value | humanizeDuration }} for room.",
        "The Job that has waited longest in queue {{ $labels.queue }} was created or stopped"
        " {{ $value | humanizeDuration }} ago, and has found no room since.",
        begins=_WAITED,
    ),
    Alert(
        "VgpuMemoryUnaccounted", Severity.WARNING, 10,
        "more than 1 GiB of a card has been in use for {time} that no slice accounts for",
        f"{each('vgpu_card_memory_unaccounted_bytes')} > {_UNACCOUNTED}",
        "{{ $value | humanize1024 }}B of card {{ $labels.card }} on {{ $labels.node }} is in use that no slice accounts"
        " for.",
        "Of card {{ $labels.card }} on node {{ $labels.node }}, {{ $value | humanize1024 }}B more is in use than the"
        " libraries of all containers count: a program bypasses the library, or runs outside of Kubernetes. Slices may"
        " get less memory than they were granted.",
    ),
    Alert(
        # An agent that has just started mounts the tmpfs; that takes seconds.
        "VgpuWritableFull", Severity.WARNING, 5,
        "the tmpfs of a node has had no room for another container's files for {time}",
        each("vgpu_writable_spare_containers") + " == 0",
        "The tmpfs for usage files on {{ $labels.node }} is full, or not mounted.",
        "On node {{ $labels.node }} the usage region and the progress file of the next container have no room on the"
        " agent's tmpfs: they lie on the node's disk. Limits hold all the same.",
    ),
    Alert(
        # A grant and an inventory that do not fit each other for a moment do so again within seconds.
        "VgpuAnnotationsFaulty", Severity.WARNING, 10,
        "annotations of vgpu have been ignored for {time}, because they cannot be read or contradict the cluster",
        each("vgpu_faulty_annotations") + " > 0",
        "{{ $value }} annotations are ignored ({{ $labels.kind }}).",
        "{{ $value }} annotations of kind {{ $labels.kind }} are malformed or contradict the cluster, and are ignored:"
        " `vgpu check` names them. Cards of an ignored inventory get no pods; an ignored grant holds nothing.",
    ),
    Alert(
        # Agents are replaced one at a time, so that an upgrade of a large cluster takes hours.
        "VgpuVersionsDiffer", Severity.INFO, 24 * 60,
        "processes of different versions have run for {time}",
        _VERSIONS,
        "{{ $value }} versions of vgpu run.",
        f"For a day processes of {{{{ $value }}}} versions have run:{_EACH_VERSION} an upgrade has stopped.",
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
