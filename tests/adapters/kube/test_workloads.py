"""JobSets, RayJobs and the other kinds as they are decoded: their pods, labels, suspension, ends and problems."""

import json
from typing import Any

import pytest

from device_plugin.adapters.kube import decode
from device_plugin.adapters.kube.structs import DecodeError
from device_plugin.adapters.kube.workloads import MOST_SETS, read_workload
from device_plugin.core.batch import Job
from device_plugin.core.workload_kinds import (
    JOB_SET,
    MPI_JOB,
    MPI_JOB_V1,
    PYTORCH_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    TRAIN_JOB,
    WORKLOAD_KINDS,
    WorkloadKind,
)
from device_plugin.kube.api import WORKLOADS
from tests.builders.cards import FAMILY
from tests.builders.workloads import DIFFERING, KINDS, body, decoded, template, workload

LABELS = {
    JOB_SET: "jobset.sigs.k8s.io/jobset-name=a", RAY_JOB: "", RAY_CLUSTER: "ray.io/cluster=a",
    TRAIN_JOB: "jobset.sigs.k8s.io/jobset-name=a", PYTORCH_JOB: "training.kubeflow.org/job-name=a",
    MPI_JOB: "training.kubeflow.org/job-name=a",
}  # fmt: skip
OF_EACH = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def limits(job: Job) -> list[tuple[int, dict[str, str]]]:
    return [(each.count, dict(each.template.containers[0].limits)) for each in job.sets]


@OF_EACH
def test_its_width_is_the_number_of_its_pods_that_ask(kind: WorkloadKind) -> None:
    job = workload(kind, "a", ((3, 2),))
    assert (job.kind, job.suspend, job.width, job.key) == (
        kind,
        True,
        3,
        ("default", f"{kind.name.lower()}/a"),
    )
    assert limits(job) == [(3, {FAMILY: "2"})]
    assert (job.pods_label, job.problem, job.together) == (LABELS[kind], "", True)
    assert not workload(kind, "a", suspend=False).suspend
    assert not workload(kind, "a", suspend=None).suspend


@pytest.mark.parametrize("kind", DIFFERING, ids=[kind.name for kind in DIFFERING])
def test_pods_without_cards_do_not_count_unless_none_asks(kind: WorkloadKind) -> None:
    job = workload(kind, "a", ((2, 1), (3, 0), (1, 2)))
    assert (job.width, limits(job)) == (3, [(2, {FAMILY: "1"}), (1, {FAMILY: "2"})])
    without = workload(kind, "a", ((2, 0), (3, 0)))
    assert without.width == 5 + (kind in (RAY_JOB, RAY_CLUSTER))


@OF_EACH
def test_the_api_s_kind_decodes_it(kind: WorkloadKind) -> None:
    found = body(kind, "a")
    found["metadata"] |= {"namespace": "default", "uid": "u"}
    assert decode.read(WORKLOADS[kind], json.dumps(found).encode()).kind is kind


def with_status(kind: WorkloadKind, **status: Any) -> Job:
    return decoded(kind, {**body(kind, "a"), "status": status})


@pytest.mark.parametrize(
    ("kind", "complete"),
    [(JOB_SET, "Completed"), (TRAIN_JOB, "Complete"), (PYTORCH_JOB, "Succeeded"), (MPI_JOB, "Succeeded")],
)
def test_it_has_ended_by_a_true_condition(kind: WorkloadKind, complete: str) -> None:
    for word, end in ((complete, "Complete"), ("Failed", "Failed")):
        true = with_status(kind, conditions=[{"type": word, "status": "True", "lastTransitionTime": "t"}])
        assert true.end is not None
        assert (true.end.type, true.end.since) == (end, "t")
        assert not with_status(kind, conditions=[{"type": word, "status": "False"}]).ended
    suspended = with_status(
        kind, conditions=[{"type": "Suspended", "status": "True", "lastTransitionTime": "t"}]
    )
    assert [each.since for each in suspended.suspension] == ["t"]
    assert not suspended.ended


def test_a_ray_job_has_ended_by_its_deployment_status_and_a_ray_cluster_never() -> None:
    for word, ended in (("Complete", True), ("Failed", True), ("ValidationFailed", True), ("Running", False)):
        assert with_status(RAY_JOB, jobDeploymentStatus=word).ended is ended
    for word in ("Complete", "Failed"):
        assert not with_status(RAY_CLUSTER, conditions=[{"type": word, "status": "True"}]).ended


def test_the_pods_of_a_ray_job_name_its_cluster_once_there_is_one() -> None:
    assert with_status(RAY_JOB, rayClusterName="a-xyz").pods_label == "ray.io/cluster=a-xyz"
    assert with_status(RAY_JOB, rayClusterName=["a"]).pods_label == ""


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (JOB_SET, {"startupPolicy": {"startupPolicyOrder": "InOrder"}}),
        (MPI_JOB, {"launcherCreationPolicy": "WaitForWorkersReady"}),
    ],
)
def test_pods_of_which_some_wait_for_others_are_not_placed_together(
    kind: WorkloadKind, spec: dict[str, Any]
) -> None:
    found = body(kind, "a", ((1, 1), (1, 1)))
    assert decoded(kind, found).together
    found["spec"] |= spec
    assert not decoded(kind, found).together


def test_a_replicated_job_that_depends_on_another_waits_for_it() -> None:
    found = body(JOB_SET, "a", ((1, 1), (1, 1)))
    found["spec"]["replicatedJobs"][1]["dependsOn"] = [{"name": "set0", "status": "Ready"}]
    assert not decoded(JOB_SET, found).together


@pytest.mark.parametrize(
    ("kind", "spec", "said"),
    [
        (RAY_CLUSTER, {"enableInTreeAutoscaling": True}, "enableInTreeAutoscaling"),
        (RAY_JOB, {"rayClusterSpec": {"enableInTreeAutoscaling": True}}, "enableInTreeAutoscaling"),
        (RAY_JOB, {"clusterSelector": {"a": "b"}}, "clusterSelector"),
        (JOB_SET, {"managedBy": "kueue.x-k8s.io/multikueue"}, "managedBy is kueue.x-k8s.io/multikueue"),
        (MPI_JOB, {"runPolicy": {"managedBy": "x"}}, "managedBy is x"),
        (RAY_JOB, {"shutdownAfterJobFinishes": False}, "write shutdownAfterJobFinishes: true"),
        (RAY_JOB, {"shutdownAfterJobFinishes": "true"}, "write shutdownAfterJobFinishes: true"),
        (MPI_JOB, {"runPolicy": {"suspend": True}}, "write cleanPodPolicy: Running"),
        (
            MPI_JOB_V1,
            {"runPolicy": {"cleanPodPolicy": "None"}, "cleanPodPolicy": "All"},
            "write cleanPodPolicy",
        ),
        (TRAIN_JOB, {"trainer": {}}, "spec.trainer.resourcesPerNode"),
        (JOB_SET, {"replicatedJobs": []}, "has no pods"),
        (
            PYTORCH_JOB,
            {"pytorchReplicaSpecs": {str(n): {"template": template(1)} for n in range(99)}},
            "more than",
        ),
    ],
)
def test_what_the_engine_cannot_start_has_a_problem(kind: WorkloadKind, spec: Any, said: str) -> None:
    found = body(kind, "a")
    found["spec"] |= spec
    job = decoded(kind, found)
    assert said in job.problem
    assert len(job.sets) <= MOST_SETS


def test_an_mpi_job_of_v1_may_say_in_its_spec_which_pods_are_deleted() -> None:
    found = {**body(MPI_JOB, "a"), "apiVersion": "kubeflow.org/v1"}
    del found["spec"]["runPolicy"]["cleanPodPolicy"]
    found["spec"]["cleanPodPolicy"] = "Running"
    assert not decoded(MPI_JOB_V1, found).problem


def test_its_own_controller_in_managed_by_is_no_problem() -> None:
    found = body(JOB_SET, "a")
    found["spec"]["managedBy"] = "jobset.sigs.k8s.io/jobset-controller"
    assert not decoded(JOB_SET, found).problem


HOSTILE: tuple[Any, ...] = (
    None, 5, "x" * 300_000, [], [[]] * 999, {}, {"": None}, [{"template": 3}],
    {"a": {"template": {"spec": {"containers": [5]}}}}, -1, 2**63, True, {"status": "True", "type": ["a"]},
)  # fmt: skip


@pytest.mark.parametrize("kind", WORKLOAD_KINDS, ids=lambda kind: kind.name + kind.version)
def test_whatever_its_author_writes_it_is_read_or_refused_and_kept_small(kind: WorkloadKind) -> None:
    fields = (
        "replicatedJobs", "rayClusterSpec", "headGroupSpec", "workerGroupSpecs", "trainer", "pytorchReplicaSpecs",
        "mpiReplicaSpecs", "runPolicy", "suspend", "managedBy", "startupPolicy", "clusterSelector",
        "launcherCreationPolicy", "submitterPodTemplate", "shutdownAfterJobFinishes", "cleanPodPolicy",
    )  # fmt: skip
    for field in fields:
        for value in HOSTILE:
            for found in (
                {**body(KINDS[0], "a"), "spec": {field: value}, "status": value},
                {**body(KINDS[0], "a"), "spec": value, "status": {"conditions": value, "rayClusterName": value,
                 "jobDeploymentStatus": value}},
            ):  # fmt: skip
                try:
                    job = decoded(kind, found)
                except DecodeError:
                    continue
                assert len(str(job)) < 30_000


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(DecodeError):
        read_workload(JOB_SET, b'{"metadata": {"name": 5}}')
