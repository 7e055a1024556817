"""The recording rules and the alerts, evaluated by Prometheus' own engine over series that a test writes down."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hack.generate.monitoring.alerts import ALERTS
from hack.generate.monitoring.boards import BOARDS
from hack.generate.monitoring.rules import NAMESPACE_CARDS
from tests.hack.generate.monitoring.promtool import RULES, check_alerts, promtool
from tests.hack.generate.monitoring.queries import runnable

NAMED = {alert.name: alert for alert in ALERTS}
CARD = 'node="n1", card="GPU-1"'
SERVE, AGE = 'vgpu_nodes{serving="yes"}', 'vgpu_inventory_age_seconds{node="n1"}'
DOWN = 'vgpu_node_not_serving{node="n1", cause="CAUSE"}'
SLICE = f'{CARD}, namespace="team", container="main"'
TEAM_A = {"node": "n1", "card": "GPU-1", "namespace": "team", "container": "main", "pod": "a"}
# From kube-state-metrics: the pod is of a ReplicaSet, which is of a Deployment.
_CONTROLS = 'namespace="team", owner_is_controller="true"'
_ABOVE = 'replicaset="serve-5d", owner_kind="Deployment", owner_name="serve"'
OWNERS = {
    **{f'vgpu_slice_memory_limit_bytes{{{SLICE}, pod="{pod}"}}': "1x200" for pod in ("a", "b")},
    f'kube_pod_owner{{{_CONTROLS}, pod="a", owner_kind="ReplicaSet", owner_name="serve-5d"}}': "1x200",
    f"kube_replicaset_owner{{{_CONTROLS}, {_ABOVE}}}": "1x200",
}
INFO = f'vgpu_card_info{{{CARD}, family="hygon.com/dcu", model="Z100"}}'
MEMORY = f"vgpu_card_memory_bytes{{{CARD}}}"
STUCK = 'vgpu_job_stuck_seconds{namespace="team", job="train"}'
GRANTED = f"vgpu_card_granted_memory_bytes{{{CARD}}}"


@dataclass(frozen=True)
class Fires:
    """An alert that fires at `minute` over these series, with these labels and texts."""

    alert: str
    minute: int
    series: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    summary: str = ""
    description: str = ""

    @property
    def test(self) -> Mapping[str, Any]:
        """The test as promtool reads it."""
        alert = NAMED[self.alert]
        annotations = {"summary": self.summary, "description": self.description, "runbook": alert.page}
        labels = {**self.labels, "severity": alert.severity.value}
        return _test(
            self.series, self.alert, self.minute, [{"exp_labels": labels, "exp_annotations": annotations}]
        )


def _test(
    series: Mapping[str, str], alert: str, minute: int, expected: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": [{"eval_time": f"{minute}m", "alertname": alert, "exp_alerts": [*expected]}],
    }


FIRES = [
    Fires(
        "VgpuAgentDown", 20, {SERVE: "0x60", AGE: "0x4 stale", DOWN.replace("CAUSE", "agent"): "1x60"},
        {"node": "n1", "cause": "agent"}, "The node agent on n1 does not serve.",
        "No agent is ready on node n1: pods with slices cannot start there, and the use of its cards is not known. Pods"
        " that run go on.",
    ),
    Fires(
        "VgpuAgentDown", 30, {SERVE: "3x60", AGE: "0x4 stale", AGE.replace("n1", "n2"): "0x60"},
        {}, "2 node agents are not scraped.",
        "2 agents serve, and Prometheus has had no samples of them for 10 minutes: what is granted and used there is"
        " not known.",
    ),
    Fires(
        "VgpuAgentDown", 20, {SERVE: "0x60", AGE: "0x60", DOWN.replace("CAUSE", "inventory"): "1x60"},
        {"node": "n1", "cause": "inventory"}, "The node agent on n1 does not serve.",
        "The inventory of node n1 says that its agent does not serve: pods with slices cannot start there, and the use"
        " of its cards is not known. Pods that run go on.",
    ),
    Fires(
        "VgpuCardUnhealthy", 5, {f"vgpu_card_healthy{{{CARD}}}": "1 0x9"}, {"node": "n1", "card": "GPU-1"},
        "Card GPU-1 on n1 is unhealthy.",
        "The driver reports a fault of card GPU-1 on node n1. It gets no new slices; the pods that hold slices of it"
        " may fail.",
    ),
    Fires(
        "VgpuOverlap", 5,
        {f'vgpu_slice_core_groups{{{SLICE}, pod="{pod}"}}': "40x9" for pod in "ab"}
        | {f"vgpu_card_core_groups{{{CARD}}}": "60x9"},
        {"node": "n1", "card": "GPU-1"}, "Slices of a card overlap.",
        "Containers hold more core groups of card GPU-1 on node n1 than it has. This should never happen: the pod that"
        " was bound later is deleted within seconds.",
    ),
    Fires(
        "VgpuOverlap", 5, {'vgpu_crowded_cards{cause="overlap"}': "1x9", 'vgpu_crowded_cards{cause="shrunk"}': "1x9"},
        {"cause": "overlap"}, "Slices of a card overlap.",
        "On 1 cards two grants conflict. This should never happen: the pod that was bound later is deleted within"
        " seconds.",
    ),
    Fires(
        "VgpuSliceUnenforced", 5, {'vgpu_reported_slices{node="n1", state="unenforced"}': "2x9"},
        {"node": "n1", "state": "unenforced"}, "2 containers on n1 use a card without its limits (unenforced).",
        "On node n1, 2 containers have slices whose limits may not hold: they use a card past the library, without a"
        " slot in the usage region. Other pods on the card may run out of memory.",
    ),
    Fires(
        "VgpuAllocationHigh", 40, {INFO: "1x60", MEMORY: "100x60", GRANTED: "96x60"},
        {"family": "hygon.com/dcu", "model": "Z100"}, "96% of the Z100 cards is granted.",
        "Of the memory or the core groups of all cards of model Z100 (hygon.com/dcu), 96% has been granted for 30"
        " minutes: larger requests will wait.",
    ),
    Fires(
        "VgpuPodsWaiting", 31, {'vgpu_unplaced_oldest_seconds{reason="memory"}': "0+60x60"}, {"reason": "memory"},
        "A pod has waited 31m 0s for a slice (memory).",
        "The oldest pod that waits for a slice for the reason memory was created 31m 0s ago.",
    ),
    Fires(
        "VgpuSliceIdle", 125, {f'vgpu_slice_idle_seconds{{{SLICE}, pod="a"}}': "7500x200", **OWNERS},
        {**TEAM_A, "owner_kind": "Deployment", "owner_name": "serve"},
        "Deployment team/serve has not used a slice for 2h 5m 0s.",
        "Container main of pod team/a holds a slice of card GPU-1 on node n1, and has neither computed on it nor"
        " changed its memory there for 2h 5m 0s.",
    ),
    Fires(
        "VgpuMemoryRefused", 40, {f'vgpu_slice_denied_allocations_total{{{SLICE}, pod="a"}}': "0+1x60"}, TEAM_A,
        "Container main of pod team/a is refused memory again and again.",
        "For 30 minutes, container main of pod team/a has asked for more memory of card GPU-1 on node n1 than its slice"
        " has: it ends and starts again, or gives back memory each time and computes more slowly.",
    ),
    Fires(
        # Each run is refused twice and ends; no scrape sees a count of 0.
        "VgpuMemoryRefused", 60,
        {f'vgpu_slice_denied_allocations_total{{{SLICE}, pod="a"}}': " ".join(["2 stale _ _ _"] * 14),
         'kube_pod_container_status_restarts_total{namespace="team", pod="a", container="main"}': "0+1x70"}, TEAM_A,
        "Container main of pod team/a is refused memory again and again.",
        "For 30 minutes, container main of pod team/a has asked for more memory of card GPU-1 on node n1 than its slice"
        " has: it ends and starts again, or gives back memory each time and computes more slowly.",
    ),
    Fires(
        "VgpuJobStuck", 31, {STUCK: "_x10 600+60x60"}, {"namespace": "team", "job": "train"},
        "Job team/train has made no progress for 31m 0s.",
        "The program of Job team/train has reported no progress for 31m 0s, more than ten times its usual interval. The"
        " Job holds its cards meanwhile.",
    ),
    Fires(
        "VgpuQueueWaiting", 15, {'vgpu_queue_longest_wait_seconds{pool="", queue="night"}': "85800+60x20"},
        {"queue": "night"},
        "A Job in queue night has waited 1d 0h 5m 0s for room.",
        "The Job that has waited longest in queue night was created or stopped 1d 0h 5m 0s ago, and has found no room"
        " since.",
    ),
    Fires(
        "VgpuMemoryUnaccounted", 15, {f"vgpu_card_memory_unaccounted_bytes{{{CARD}}}": "3221225472x20"},
        {"node": "n1", "card": "GPU-1"}, "3GiB of card GPU-1 on n1 is in use that no slice accounts for.",
        "Of card GPU-1 on node n1, 3GiB more is in use than the libraries of all containers count: a program bypasses"
        " the library, or runs outside of Kubernetes. Slices may get less memory than they were granted.",
    ),
    Fires(
        "VgpuWritableFull", 10, {'vgpu_writable_spare_containers{node="n1"}': "1 0x20"}, {"node": "n1"},
        "The tmpfs for usage files on n1 is full, or not mounted.",
        "On node n1 the usage region and the progress file of the next container have no room on the agent's tmpfs:"
        " they lie on the node's disk. Limits hold all the same.",
    ),
    Fires(
        "VgpuAnnotationsFaulty", 15, {'vgpu_faulty_annotations{kind="grant"}': "2x20"}, {"kind": "grant"},
        "2 annotations are ignored (grant).",
        "2 annotations of kind grant are malformed or contradict the cluster, and are ignored: `vgpu check` names them."
        " Cards of an ignored inventory get no pods; an ignored grant holds nothing.",
    ),
    Fires(
        "VgpuVersionsDiffer", 1445,
        {'vgpu_build_info{service="node", version="1.2", pod="a"}': "1x1500",
         'vgpu_build_info{service="node", version="1.1", pod="b"}': "1x1500",
         'vgpu_build_info{service="node", version="1.2", pod="c"}': "1x1500"}, {},
        "2 versions of vgpu run.",
        "For a day processes of 2 versions have run: 2 of node 1.2; 1 of node 1.1; an upgrade has stopped.",
    ),
    Fires(
        "VgpuNoLeader", 5, {'vgpu_leader{pod="a"}': "0x9", 'vgpu_leader{pod="b"}': "0x9"}, {},
        "No replica of the cluster service leads.",
        "No replica of vgpu-cluster has led for 2 minutes, or none is scraped: pods that ask for a slice wait. Pods"
        " that run go on.",
    ),
    Fires(
        "VgpuInventoryStale", 6, {AGE: "0+60x10"}, {"node": "n1"},
        "The inventory of n1 is 6m 0s old.",
        "The agent on node n1 has not been able to compare or write its node's inventory for 6m 0s: a change of its"
        " cards is not known to the cluster.",
    ),
    Fires(
        "VgpuJobEngineNoLeader", 30, {'vgpu_job_engine_leader{pod="a"}': "1x9 stale"}, {},
        "No replica of the job engine leads.",
        "The job engine was there in the last 6 hours, and no replica of it has led for 5 minutes: Jobs in queues"
        " neither start nor change their width. Jobs that run go on.",
    ),
]  # fmt: skip

# Series that are no cause for the alert, and why.
SILENT = [
    ("VgpuAgentDown", 60, {SERVE: "1x60", AGE: "0x60"}, "it serves"),
    ("VgpuAgentDown", 60, {SERVE: "1x60", AGE: "0x9 stale 0x50"}, "it is rolled"),
    ("VgpuAgentDown", 9, {DOWN.replace("CAUSE", "agent"): "1x60"}, "it has not lasted"),
    ("VgpuAgentDown", 60, {AGE: "0x60"}, "no replica leads"),
    ("VgpuCardUnhealthy", 5, {f"vgpu_card_healthy{{{CARD}}}": "1x9"}, "it is healthy"),
    ("VgpuOverlap", 9,
     {f'vgpu_slice_core_groups{{{SLICE}, pod="a"}}': "60x9", f"vgpu_card_core_groups{{{CARD}}}": "60x9",
      'vgpu_crowded_cards{cause="overlap"}': "0x9", 'vgpu_crowded_cards{cause="shrunk"}': "1x9"}, "the card shrank"),
    ("VgpuOverlap", 4, {'vgpu_crowded_cards{cause="overlap"}': "0 0 1 0x9"}, "the later pod was deleted"),
    ("VgpuSliceUnenforced", 9, {'vgpu_reported_slices{node="n1", state="outliving"}': "2x9"}, "their pod ends"),
    ("VgpuAllocationHigh", 60, {INFO: "1x60", MEMORY: "100x60", GRANTED: "95x60"}, "there is room"),
    ("VgpuPodsWaiting", 60, {'vgpu_unplaced_oldest_seconds{reason="held"}': "0+60x60"}, "its owner holds it"),
    ("VgpuPodsWaiting", 29, {'vgpu_unplaced_oldest_seconds{reason="memory"}': "0+60x60"}, "it has not lasted"),
    ("VgpuSliceIdle", 119, {f'vgpu_slice_idle_seconds{{{SLICE}, pod="a"}}': "0+60x200"}, "it has not lasted"),
    ("VgpuSliceIdle", 200, {f'vgpu_slice_idle_seconds{{{SLICE}, pod="a"}}': "0x199 0"}, "it computes"),
    ("VgpuSliceIdle", 200, {f'vgpu_slice_compute_ratio{{{SLICE}, pod="a"}}': "0x200"}, "its idle time is not known"),
    ("VgpuMemoryRefused", 60, {f'vgpu_slice_denied_allocations_total{{{SLICE}, pod="a"}}': "0x9 1x60"}, "it was once"),
    ("VgpuMemoryRefused", 29, {f'vgpu_slice_denied_allocations_total{{{SLICE}, pod="a"}}': "0+1x60"},
     "it has not lasted"),
    ("VgpuMemoryRefused", 60,
     {f'vgpu_slice_denied_allocations_total{{{SLICE}, pod="a"}}': "0x60",
      'kube_pod_container_status_restarts_total{namespace="team", pod="a", container="main"}': "0+1x60"},
     "it restarts for another reason"),
    ("VgpuJobStuck", 29, {STUCK: "_x10 600+60x60"}, "it has not lasted"),
    ("VgpuJobStuck", 60, {STUCK: "_x10 600+60x15 stale"}, "it goes on"),
    ("VgpuQueueWaiting", 9, {'vgpu_queue_longest_wait_seconds{pool="", queue="night"}': "85800+60x20"},
     "it has not lasted"),
    ("VgpuQueueWaiting", 15, {'vgpu_queue_longest_wait_seconds{pool="", queue="night"}': "85800+60x5 0+60x20"},
     "the Job started, and another one waits"),
    ("VgpuMemoryUnaccounted", 60, {f"vgpu_card_memory_unaccounted_bytes{{{CARD}}}": "1073741824x60"},
     "it is no more than a unit"),
    ("VgpuMemoryUnaccounted", 60, {f"vgpu_card_memory_unaccounted_bytes{{{CARD}}}": "3221225472x5 0x60"},
     "a process that had ended"),
    ("VgpuWritableFull", 60, {'vgpu_writable_spare_containers{node="n1"}': "1x60"}, "there is room for one"),
    ("VgpuWritableFull", 9, {'vgpu_writable_spare_containers{node="n1"}': "0x3 256x60"}, "the agent has just started"),
    ("VgpuAnnotationsFaulty", 60, {f'vgpu_faulty_annotations{{kind="{kind}"}}': "0x60" for kind in ("grant", "resize")},
     "all are sound"),
    ("VgpuAnnotationsFaulty", 60, {'vgpu_faulty_annotations{kind="grant"}': "1x5 0x60"}, "it was repaired"),
    ("VgpuVersionsDiffer", 300,
     {f'vgpu_build_info{{service="node", version="{version}", pod="a"}}': "1x300" for version in ("1.1", "1.2")},
     "an upgrade takes hours"),
    ("VgpuNoLeader", 9, {'vgpu_leader{pod="a"}': "1x4 0x5", 'vgpu_leader{pod="b"}': "0x5 1x5"}, "another one leads"),
    ("VgpuInventoryStale", 9, {AGE: "0x9"}, "it is up to date"),
    ("VgpuInventoryStale", 4, {AGE: "0+60x10"}, "it has not lasted"),
    ("VgpuJobEngineNoLeader", 60, {'vgpu_leader{pod="a"}': "1x60"}, "it was never installed"),
    ("VgpuJobEngineNoLeader", 500, {'vgpu_job_engine_leader{pod="a"}': "1x9 stale"}, "it was removed long ago"),
]  # fmt: skip


def test_the_rules_are_as_prometheus_reads_them() -> None:
    promtool("check", "rules", RULES)


# Tests that last for hours evaluate the rules every five minutes.
SPANS = pytest.mark.parametrize(
    ("span", "minutes"), [(range(500), 1), (range(500, 2000), 5)], ids=["short", "long"]
)


@SPANS
def test_an_alert_fires_and_says_where(tmp_path: Path, span: range, minutes: int) -> None:
    check_alerts(tmp_path, [case.test for case in FIRES if case.minute in span], minutes)


@SPANS
def test_an_alert_is_silent_without_a_cause(tmp_path: Path, span: range, minutes: int) -> None:
    tests = [_test(series, alert, minute, []) for alert, minute, series, _ in SILENT if minute in span]
    check_alerts(tmp_path, tests, minutes)


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    assert {case.alert for case in FIRES} == {alert for alert, *_ in SILENT} == NAMED.keys()


def test_while_an_agent_is_replaced_no_share_is_counted_twice(tmp_path: Path) -> None:
    two = {GRANTED.replace("{", f'{{pod="{pod}", ', 1): "50x9" for pod in ("old", "new")}
    series = {INFO: "1x9", MEMORY: "100x9", **two}
    shares = [
        ("vgpu:card_memory_granted:ratio", '{card="GPU-1", family="hygon.com/dcu", model="Z100", node="n1"}'),
        ("vgpu:node_memory_granted:ratio", '{node="n1"}'),
        ("vgpu:cluster_memory_granted:ratio", "{}"),
    ]
    expected = [
        {"expr": name, "eval_time": "5m", "exp_samples": [{"labels": name + labels, "value": 0.5}]}
        for name, labels in shares
    ]
    check_alerts(tmp_path, [{**_test(series, "VgpuOverlap", 5, []), "promql_expr_test": expected}])


def test_shares_are_of_the_cards_whose_agents_are_there(tmp_path: Path) -> None:
    series = {}
    for node, granted, later in (("n1", 50, " stale"), ("n2", 20, "x9")):
        labels = f'node="{node}", card="GPU-{node}"'
        series[f'vgpu_card_info{{{labels}, family="hygon.com/dcu", model="Z100"}}'] = f"1{later}"
        series[f"vgpu_card_memory_bytes{{{labels}}}"] = f"100{later}"
        series[f"vgpu_card_granted_memory_bytes{{{labels}}}"] = f"{granted}{later}"
    name = "vgpu:cluster_memory_granted:ratio"
    expected = [
        {"expr": name, "eval_time": at, "exp_samples": [{"labels": name, "value": value}]}
        for at, value in (("0m", 0.35), ("5m", 0.2))
    ]
    check_alerts(tmp_path, [{**_test(series, "VgpuOverlap", 5, []), "promql_expr_test": expected}])


def test_use_of_compute_is_by_card_node_model_and_cluster_of_the_cards_that_tell(tmp_path: Path) -> None:
    series = {}
    for node, card, model, groups, busy in (
        ("n1", "GPU-1", "Z100", 60, "0.5"),
        ("n1", "GPU-2", "K100", 180, "1"),
        ("n2", "GPU-3", "K100", 60, "0"),
        ("n2", "GPU-4", "K100", 60, None),
    ):
        labels = f'node="{node}", card="{card}"'
        series[f'vgpu_card_info{{{labels}, family="hygon.com/dcu", model="{model}"}}'] = "1x9"
        series[f"vgpu_card_core_groups{{{labels}}}"] = f"{groups}x9"
        if busy:
            series[f"vgpu_card_busy_ratio{{{labels}}}"] = f"{busy}x9"
    wanted = {
        ("card", 'card="GPU-1"'): 0.5,
        ("node", 'node="n1"'): 0.875,
        ("node", 'node="n2"'): 0,
        ("model", 'model="K100"'): 0.75,
        ("cluster", ""): 0.7,
    }
    expected = [
        {
            "expr": f"sum (vgpu:{level}_busy:ratio{{{where}}})",
            "eval_time": "5m",
            "exp_samples": [{"labels": "{}", "value": value}],
        }
        for (level, where), value in wanted.items()
    ]
    none = {"expr": 'vgpu:card_busy:ratio{card="GPU-4"}', "eval_time": "5m", "exp_samples": []}
    check_alerts(tmp_path, [{**_test(series, "VgpuOverlap", 5, []), "promql_expr_test": [*expected, none]}])


def test_the_share_of_a_quota_is_of_our_resources_alone(tmp_path: Path) -> None:
    def quota(kind: str, resource: str) -> str:
        return (
            f'kube_resourcequota{{namespace="team", resourcequota="q", type="{kind}", resource="{resource}"}}'
        )

    mem, cpu = "requests.hygon.com/dcu-mem", "requests.cpu"
    series = {
        quota("used", mem): "3x9",
        quota("hard", mem): "12x9",
        quota("used", cpu): "1x9",
        quota("hard", cpu): "2x9",
    }
    name = "vgpu:namespace_quota_used:ratio"
    labels = f'{name}{{namespace="team", resource="{mem}", resourcequota="q"}}'
    expected = [{"expr": name, "eval_time": "5m", "exp_samples": [{"labels": labels, "value": 0.25}]}]
    check_alerts(tmp_path, [{**_test(series, "VgpuOverlap", 5, []), "promql_expr_test": expected}])


def test_the_board_lists_the_owner_of_a_slice_that_was_idle_for_hours_and_of_no_other(tmp_path: Path) -> None:
    gib = 1 << 30
    series = {
        **OWNERS,
        f'vgpu_slice_memory_limit_bytes{{{SLICE}, pod="a"}}': f"{12 * gib}x200",
        f'vgpu_slice_memory_limit_bytes{{{SLICE}, pod="b"}}': f"{4 * gib}x200",
        f'vgpu_slice_idle_seconds{{{SLICE}, pod="a"}}': "0+60x200",
        f'vgpu_slice_idle_seconds{{{SLICE}, pod="b"}}': "1200x200",
    }
    panels = [panel for board in BOARDS for panel in board.panels() if panel.title == "Idle slices by owner"]
    assert panels
    owner = '{namespace="team", owner_kind="Deployment", owner_name="serve"}'
    wanted = {"slices": 1, "memory": 12 * gib, "longest": 7500}
    expected = [
        {
            "expr": runnable(query.expr),
            "eval_time": "125m",
            "exp_samples": [{"labels": owner, "value": wanted[query.legend]}],
        }
        for panel in panels
        for query in panel.queries
    ]
    check_alerts(tmp_path, [{**_test(series, "VgpuOverlap", 125, []), "promql_expr_test": expected}])


def test_the_owner_of_a_slice_is_the_controller_of_its_pod_and_a_pod_without_one_is_its_own(
    tmp_path: Path,
) -> None:
    idle = 'vgpu_slice_idle_seconds{{{}, pod="{}"}}'
    series = {idle.format(SLICE, pod): "60x9" for pod in ("a", "b", "c")} | OWNERS
    series[f'kube_pod_owner{{{_CONTROLS}, pod="b", owner_kind="Job", owner_name="train"}}'] = "1x9"
    series[idle.format(SLICE, "a").replace("{", '{instance="new agent", ', 1)] = "10x9"
    owned = "sum by (owner_kind, owner_name) (vgpu:slice_idle:seconds)"
    series[
        'kube_pod_owner{namespace="team", owner_is_controller="true", pod="no slice", owner_kind="Job"}'
    ] = "1x9"
    wanted = {("Deployment", "serve"): 10, ("Job", "train"): 60, ("Pod", "c"): 60}
    samples = [
        {"labels": f'{{owner_kind="{kind}", owner_name="{name}"}}', "value": value}
        for (kind, name), value in wanted.items()
    ]
    expected = [
        {"expr": owned, "eval_time": "5m", "exp_samples": samples},
        {
            "expr": "count (vgpu:pod_owner:info)",
            "eval_time": "5m",
            "exp_samples": [{"labels": "{}", "value": 2}],
        },
    ]
    check_alerts(tmp_path, [{**_test(series, "VgpuOverlap", 5, []), "promql_expr_test": expected}])


def test_a_slice_counts_as_the_larger_of_its_shares_of_a_card(tmp_path: Path) -> None:
    """As `vgpu usage` counts it: by memory for pod a, by core groups for pod b."""
    series = {MEMORY: "100x9", f"vgpu_card_core_groups{{{CARD}}}": "60x9"}
    for pod, memory, groups, used, computing in (("a", 50, 15, 10, "1"), ("b", 20, 45, 20, "0.5")):
        for name, value in {
            "memory_limit_bytes": memory, "core_groups": groups, "memory_used_bytes": used, "compute_ratio": computing,
        }.items():  # fmt: skip
            series[f'vgpu_slice_{name}{{{SLICE}, pod="{pod}"}}'] = f"{value}x9"
    wanted = {"granted": 1.25, "memory_used": 0.3, "busy": 0.625}
    expected = [
        {
            "expr": f"round ({NAMESPACE_CARDS[what]}, 0.001)",
            "eval_time": "5m",
            "exp_samples": [{"labels": '{namespace="team"}', "value": value}],
        }
        for what, value in wanted.items()
    ]
    check_alerts(tmp_path, [{**_test(series, "VgpuOverlap", 5, []), "promql_expr_test": expected}])
