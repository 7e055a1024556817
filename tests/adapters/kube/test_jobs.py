"""JSON of Jobs: what is read, and how little is kept of what anybody may write."""

import json
from typing import Any

import pytest

from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.structs import DecodeError
from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.contract.resize import api_time
from device_plugin.core.node_constraints import NodeConstraints, Toleration
from device_plugin.core.pods import Container, ContainerKind, Pod
from device_plugin.kube.api import JOBS

MEM = "hygon.com/dcu-mem"
CONTAINER = {
    "name": "main",
    "resources": {"limits": {MEM: "4", "cpu": "1"}, "requests": {MEM: "4", "cpu": "1"}},
}
MINIMAL = {"spec": {"template": {"spec": {"containers": [CONTAINER]}}}}


def read(body: dict[str, Any], **metadata: Any) -> Job:
    metadata = {"name": "train", "namespace": "default", "uid": "u", **metadata}
    return decode.read(JOBS, json.dumps({"metadata": metadata, **body}).encode(), frozenset({MEM}))


def test_a_grace_period_without_end_is_cut_to_one_after_which_there_is_a_date() -> None:
    pods = {"containers": [CONTAINER], "terminationGracePeriodSeconds": 2**62}
    found = read({"spec": {"template": {"spec": pods}}})
    assert api_time(1_800_000_000 + found.grace_seconds) == "2028-01-16T08:00:00Z"


def test_what_a_job_leaves_out_has_kubernetes_defaults() -> None:
    found = read(MINIMAL)
    assert (found.suspend, found.parallelism, found.completions, found.indexed) == (False, 1, None, False)
    assert (found.backoff_limit, found.backoff_limit_per_index, found.grace_seconds) == (6, None, 30)
    assert (found.active, found.ready, found.terminating, found.conditions) == (
        0,
        0,
        0,
        (),
    )
    assert not found.ended


def test_everything_that_is_read_of_a_job() -> None:
    owner = {"kind": "JobSet", "name": "set", "uid": "s", "controller": True}
    spec = {
        "suspend": True, "parallelism": 4, "completions": 8, "completionMode": "Indexed",
        "podReplacementPolicy": "Failed", "backoffLimit": 0, "backoffLimitPerIndex": 2, "successPolicy": {"rules": []},
        "managedBy": "example.com/other",
        "template": {
            "metadata": {"labels": {"vgpu.io/group": "g"}, "annotations": {"vgpu.io/policy": "pack"}},
            "spec": {
                "containers": [CONTAINER], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                "priorityClassName": "high", "schedulerName": "vgpu-scheduler", "preemptionPolicy": "Never",
            },
        },
    }  # fmt: skip
    suspended = {
        "type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended",
        "lastTransitionTime": "2026-11-22T10:00:00Z",
    }  # fmt: skip
    status = {
        "active": 1, "ready": 2, "succeeded": 3, "failed": 4, "terminating": 5, "completedIndexes": "0,2-3",
        "startTime": "2026-11-22T09:00:00Z",
        "conditions": [suspended, {"type": "Failed", "status": "False"}],
    }  # fmt: skip
    found = read(
        {"spec": spec, "status": status},
        resourceVersion="7", creationTimestamp="2026-11-22T08:00:00Z", deletionTimestamp="x",
        labels={"vgpu.io/queue": "default", "kueue.x-k8s.io/queue-name": "q", "app": "x"},
        annotations={"vgpu.io/min-replicas": "2", "other": "x"}, ownerReferences=[owner],
    )  # fmt: skip
    template = found.template
    assert found == Job(
        "default", "train", "u", "7", "2026-11-22T08:00:00Z", deleting=True,
        labels={"vgpu.io/queue": "default", "kueue.x-k8s.io/queue-name": "q"},
        annotations={"vgpu.io/min-replicas": "2"}, owner="JobSet", owner_name="set", owner_uid="s",
        suspend=True, parallelism=4, completions=8, indexed=True, replacement="Failed", backoff_limit=0,
        backoff_limit_per_index=2, success_policy=True, managed_by="example.com/other", restart_policy="Never",
        grace_seconds=0, priority_class="high", template=template, started="2026-11-22T09:00:00Z",
        active=1, ready=2, succeeded=3, failed=4, terminating=5, completed_indexes="0,2-3",
        nodes=NodeConstraints(tolerations=(Toleration(MEM, any_value=True),)),
        conditions=(JobCondition("Suspended", "JobSuspended", "Job suspended", "2026-11-22T10:00:00Z"),),
    )  # fmt: skip
    assert template == Pod(
        "default", "", "", scheduler="vgpu-scheduler", annotations={"vgpu.io/policy": "pack"},
        labels={"vgpu.io/group": "g"}, containers=(Container("main", ContainerKind.MAIN, {MEM: "4"}),),
        host=template.host, preempts=False, constraints=template.constraints,
    )  # fmt: skip
    assert template.host.cpu_milli == 1000


@pytest.mark.parametrize(("kind", "ended"), [("Complete", True), ("Failed", True), ("FailureTarget", False)])
def test_a_job_has_ended_when_its_condition_says_so(kind: str, ended: bool) -> None:
    assert read({**MINIMAL, "status": {"conditions": [{"type": kind, "status": "True"}]}}).ended is ended


@pytest.mark.parametrize("spec", [None, {}, {"template": {}}, {"template": {"spec": {"containers": 3}}}])
def test_an_object_of_another_form_is_no_job(spec: object) -> None:
    with pytest.raises(DecodeError):
        read({"spec": spec})


def test_a_template_has_no_grant() -> None:
    template = {"metadata": {"annotations": {"vgpu.io/grant": "{}"}}, "spec": {"containers": []}}
    assert read({"spec": {"template": template}}).template.annotations is None


@pytest.mark.no_cover
def test_of_what_anybody_may_write_into_a_job_little_is_kept() -> None:
    much = "x" * 200_000
    conditions = [{"type": much, "status": "True", "reason": much, "message": much}] * 100
    found = read(
        {
            **MINIMAL,
            "status": {"completedIndexes": ",".join(map(str, range(0, 90_000, 2))), "conditions": conditions},
        },
        labels={f"vgpu.io/{n}": "x" for n in range(1000)},
        annotations={
            "vgpu.io/duration": much,
            "vgpu.io/card-model": much,
            "vgpu.io/resize": much,
            "other": much,
        },
        ownerReferences=[{"kind": much, "name": much, "uid": much, "controller": True}],
    )
    assert len(found.labels) == 64
    kept = {key: len(text) for key, text in found.annotations.items()}
    assert kept == {"vgpu.io/duration": 64, "vgpu.io/card-model": 4097, "vgpu.io/resize": 65537}
    assert (len(found.owner), len(found.owner_name), len(found.owner_uid)) == (63, 253, 63)
    assert len(found.conditions) == 8
    assert sum(len(one.type + one.reason + one.message) for one in found.conditions) < 4000
    indexes = found.completed_indexes.split(",")
    assert [int(index) for index in indexes] == [2 * n for n in range(len(indexes))]
    assert len(found.completed_indexes) <= 32 * 1024


def test_no_number_of_other_keys_hides_one_that_is_read() -> None:
    others = {f"kueue.x-k8s.io/{number:03}": "x" for number in range(80)}
    found = read(
        MINIMAL, labels={**others, "vgpu.io/queue": "q"}, annotations={**others, "vgpu.io/resize": "r"}
    )
    assert (found.labels["vgpu.io/queue"], found.annotations["vgpu.io/resize"]) == ("q", "r")
    assert len(found.labels) == len(found.annotations) == 64
