"""Writes of the allocator's account to pods: its touch, what kube-scheduler says of placing, and no more."""

from typing import Any

import pytest

from tests.builders.objects import annotated
from tests.contract.cluster import Cluster
from tests.contract.test_grace import denied

TOUCHED = "vgpu.io/touched"
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
READY = {"type": "Ready", "status": "True"}


def conditions(*found: dict[str, str]) -> dict[str, Any]:
    return {"status": {"conditions": list(found)}}


def test_the_allocator_touches_a_pod(cluster: Cluster, pending: str) -> None:
    for value in ("2026-01-01T00:00:00Z", "2026-01-01T00:00:01Z", None):
        assert cluster.patch(f"{pending}/status", annotated(**{TOUCHED: value}), "allocator").code == 200


def test_kube_scheduler_writes_with_its_account_whether_a_pod_was_placed(
    cluster: Cluster, pending: str
) -> None:
    status = f"{pending}/status"
    assert cluster.patch(status, conditions(READY)).code == 200
    for found in ([READY, UNSCHEDULABLE], [READY, UNSCHEDULABLE, DISRUPTED], [READY]):
        assert cluster.patch(status, conditions(*found), "allocator").code == 200
    assert cluster.patch(status, {"status": {"nominatedNodeName": "n1"}}, "allocator").code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"status": {"phase": "Failed"}}, {"status": {"message": "none"}}, {"status": {"podIP": "10.0.0.1"}},
        conditions(UNSCHEDULABLE, READY), annotated(other="1"), annotated(mine="2"), annotated(mine=None),
        {"metadata": {"labels": {"other": "1"}}}, {"metadata": {"finalizers": ["vgpu.io/contract"]}},
    ],
)  # fmt: skip
def test_it_writes_nothing_else_of_a_status(cluster: Cluster, pending: str, change: dict[str, Any]) -> None:
    assert cluster.patch(f"{pending}/status", annotated(mine="1")).code == 200
    denied(
        cluster.patch(f"{pending}/status", change, "allocator"),
        "'vgpu-touches'",
        "the allocator writes only the annotation vgpu.io/touched",
    )
