"""The job engine on a real cluster: what its shrinks cost, and what it does when others write too."""

from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from device_plugin.core.annotations import CHECKPOINT_SECONDS, MAX_REPLICAS, MIN_REPLICAS
from device_plugin.kube.api import JOBS, Kind, Ref
from hack.testbed import audit, layout
from tests import deadline
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl, api
from tests.e2e.machines import Machines
from tests.e2e.queued_jobs import pods, queued, running
from tests.e2e.service import SYSTEM
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import PREFIX

ENGINE, SECONDS, ATTEMPTS = "vgpu-jobs", 120, 10
QUOTAS = Kind("", "v1", "resourcequotas", "ResourceQuota", dict)
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one-card"}}


@pytest.fixture
def log(machines: Machines) -> Path:
    """The audit log of the project's own cluster."""
    assert machines
    return layout.here().audit


def elastic(name: str, least: int, most: int, **annotations: str) -> dict[str, Any]:
    made = queued(name, most)
    bounds = {MIN_REPLICAS: str(least), MAX_REPLICAS: str(most)}
    made["metadata"]["annotations"] = {**bounds, **annotations}
    return made


def written(log: Path, after: int) -> list[str]:
    """What the engine changed of Jobs and pods since the log had this size."""
    changed = ("jobs", "pods/status")
    calls = [call for call in audit.calls(log, after) if call.service == ENGINE and call.writes]
    return [f"{call.resource} {call.name}" for call in calls if call.resource in changed and call.code == 200]


def test_a_job_gives_way_and_grows_back_with_the_writes_that_it_must_cost(
    kubectl: Kubectl, log: Path
) -> None:
    width = len(inventory(nodes.first())["cards"])
    kubectl.create(elastic("wide", 1, width, **{CHECKPOINT_SECONDS: "2"}))
    assert eventually(partial(running, kubectl, "wide", width), SECONDS)
    first, size = pods(kubectl, "wide")[0]["metadata"]["name"], log.stat().st_size
    kubectl.create(queued("small", 1))
    assert eventually(partial(running, kubectl, "small", 1), SECONDS)
    assert running(kubectl, "wide", width - 1)
    assert pods(kubectl, "wide")[0]["metadata"]["name"] == first, "the highest index left"
    # The record, the request for a checkpoint, both numbers, and the start of the other Job with the record's end.
    asked = ["jobs wide", f"pods/status {first}", "jobs wide", "jobs small"]
    assert eventually(lambda: written(log, size)[:4] == asked, 30), written(log, size)

    size = log.stat().st_size
    kubectl("delete", "job", "small", "--cascade=foreground")
    assert eventually(partial(running, kubectl, "wide", width), SECONDS)
    assert eventually(lambda: written(log, size)[-2:] == ["jobs wide"] * 2, 30), written(log, size)


def test_a_job_that_somebody_changes_all_the_time_is_started_all_the_same(
    kubectl: Kubectl, log: Path
) -> None:
    size = log.stat().st_size

    def read_again() -> bool:
        calls = [call for call in audit.calls(log, size) if call.service == ENGINE]
        return any((call.verb, call.resource) == ("get", "jobs") for call in calls)

    for attempt in range(ATTEMPTS):
        name = f"busy-{attempt}"
        kubectl.create(queued(name, 1))
        change_until_started(kubectl, name)
        assert eventually(partial(running, kubectl, name, 1), SECONDS)
        kubectl("delete", "job", name, "--cascade=foreground")
        if within(read_again, 5):  # the log is written in batches
            return
    pytest.fail(f"no write of the engine met a change in {ATTEMPTS} attempts")


def change_until_started(kubectl: Kubectl, name: str) -> None:
    """Change the Job again and again: what the engine bases its write on is an older version then."""
    changes = count()

    def started() -> bool:
        change = {"metadata": {"annotations": {"example.com/number": str(next(changes))}}}
        job = api().patch(JOBS.json, Ref(name, kubectl.namespace), change)
        return not job["spec"]["suspend"]

    assert deadline.eventually(started, SECONDS, every=0.0)


def test_a_job_whose_pods_a_quota_refuses_runs_with_those_that_it_allows(kubectl: Kubectl) -> None:
    kubectl.create({**QUOTA, "spec": {"hard": {f"requests.{PREFIX}": "1"}}})
    assert eventually(lambda: "used" in kubectl.get(QUOTAS, "one-card")["status"], 30)
    kubectl.create(elastic("poor", 1, 2))
    assert eventually(lambda: kubectl.get(JOBS, "poor")["spec"]["parallelism"] == 1, SECONDS)
    assert eventually(partial(running, kubectl, "poor", 1), SECONDS)
    assert any("one-card" in event for event in kubectl.events("poor")), kubectl.events("poor")


def test_a_job_is_started_though_all_replicas_of_the_engine_are_replaced(kubectl: Kubectl) -> None:
    SYSTEM("delete", "pod", "--selector=app.kubernetes.io/component=jobs", "--wait=false")
    kubectl.create(queued("later", 1))
    assert eventually(partial(running, kubectl, "later", 1), SECONDS)
