"""The admission policies of JobSets, RayJobs and the other kinds in a queue: who starts them, and what is refused."""

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from device_plugin.core.workload_kinds import (
    JOB_SET,
    MPI_JOB,
    PYTORCH_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    TRAIN_JOB,
    WorkloadKind,
)
from tests.builders.workloads import KINDS, QUEUED, body
from tests.contract.asking import refused
from tests.contract.cluster import Answer, Cluster, namespace
from tests.contract.kinds import installed
from tests.contract.test_grace import denied
from tests.release import OLDER, since

pytestmark = pytest.mark.usefixtures("job_policies", "installed_kinds")
RESIZE = "vgpu.io/resize"
RECORD = '{"v":1,"gen":1,"from":0,"to":1}'
OF_EACH_KIND = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


@pytest.fixture(scope="module")
def installed_kinds(cluster: Cluster) -> Iterator[None]:
    with installed(cluster):
        yield


def folder(kind: WorkloadKind, where: str = "default") -> str:
    return f"/apis/{kind.group}/{kind.version}/namespaces/{where}/{kind.plural}"


def suspended(found: Mapping[str, Any], kind: WorkloadKind) -> object:
    """The value of the field by which the kind is suspended; None without it."""
    value: Any = found["spec"]
    for field in kind.suspend:
        value = value.get(field, {} if field != "suspend" else None)
    return value


def suspending(kind: WorkloadKind, *, value: object) -> dict[str, Any]:
    """The patch that writes that field."""
    for field in reversed(kind.suspend):
        value = {field: value}
    return {"spec": value}


@pytest.fixture
def created(cluster: Cluster, name: str) -> Iterator[Callable[..., str]]:
    """A function that creates a suspended workload of one pod, and returns its path."""
    paths = []

    def create(kind: WorkloadKind, **more: Any) -> str:
        answer = cluster.post(folder(kind), body(kind, name, **more), "editor")
        assert answer.code == 201, answer.body
        paths.append(f"{folder(kind)}/{name}")
        return paths[-1]

    yield create
    for path in paths:
        cluster.delete(path)


def start(cluster: Cluster, kind: WorkloadKind, path: str, role: str) -> Answer:
    return cluster.patch(path, suspending(kind, value=False), role)


@since("1.36", "MutatingAdmissionPolicy")
@pytest.mark.parametrize("written", [None, False])
@OF_EACH_KIND
def test_a_workload_in_a_queue_is_created_suspended(
    cluster: Cluster, created: Callable[..., str], kind: WorkloadKind, written: bool | None
) -> None:
    found = cluster.get(created(kind, suspend=written)).body
    assert suspended(found, kind) is True


@OF_EACH_KIND
def test_without_the_label_it_starts_as_it_says(
    cluster: Cluster, created: Callable[..., str], kind: WorkloadKind
) -> None:
    found = cluster.get(created(kind, labels={}, suspend=False)).body
    assert suspended(found, kind) is False


@OF_EACH_KIND
def test_the_engine_starts_and_stops_it_and_people_who_may_admit(
    cluster: Cluster, created: Callable[..., str], kind: WorkloadKind
) -> None:
    path = created(kind)
    denied(start(cluster, kind, path, "editor"), "'vgpu-kind-starts'", "is started by the queue")
    for role in ("engine", "admin"):
        assert suspended(start(cluster, kind, path, role).body, kind) is False
        stopped = {**suspending(kind, value=True), "metadata": {"annotations": {RESIZE: RECORD}}}
        assert cluster.patch(path, stopped, "engine").code == 200
    assert start(cluster, kind, path, "engine").code == 200
    assert cluster.patch(path, suspending(kind, value=True), "editor").code == 200


@OF_EACH_KIND
def test_the_spec_of_a_running_one_stays_unless_it_is_suspended_too(
    cluster: Cluster, created: Callable[..., str], kind: WorkloadKind
) -> None:
    path = created(kind)
    assert cluster.patch(path, {"spec": {"note": "a"}}, "editor").code == 200
    assert start(cluster, kind, path, "engine").code == 200
    denied(cluster.patch(path, {"spec": {"note": "b"}}, "editor"), "'vgpu-kind-widths'", "suspend: true")
    both = suspending(kind, value=True)
    both["spec"]["note"] = "b"
    assert cluster.patch(path, both, "editor").code == 200


@OF_EACH_KIND
def test_the_engine_writes_nothing_else_of_it(
    cluster: Cluster, created: Callable[..., str], kind: WorkloadKind
) -> None:
    path = created(kind)
    others = {"labels": {"a": "b"}}, {"annotations": {"a": "b"}}
    for change in ({"spec": {"note": "x"}}, *({"metadata": each} for each in others)):
        denied(cluster.patch(path, change, "engine"), "'vgpu-kind-engine'", "only suspend")
    assert cluster.patch(path, {"metadata": {"labels": {"vgpu.io/queue": None}}}, "editor").code == 200
    denied(cluster.patch(path, suspending(kind, value=False), "engine"), "with the label vgpu.io/queue")


def _after_its_webhook(found: Mapping[str, Any]) -> list[Any]:
    """The sets of a JobSet as the webhook of JobSet 0.8 returns them: with an empty time in the templates' metadata."""
    sets: list[Any] = copy.deepcopy(found["spec"]["replicatedJobs"])
    for each in sets:
        for template in (each["template"], each["template"]["spec"]["template"]):
            template["metadata"] = {**template.get("metadata", {}), "creationTimestamp": None}
    return sets


def test_what_the_webhook_of_jobset_writes_is_no_change(
    cluster: Cluster, created: Callable[..., str]
) -> None:
    path = created(JOB_SET, sets=((1, 1), (2, 1)))
    sets = _after_its_webhook(cluster.get(path).body)
    other = copy.deepcopy(sets)
    other[1]["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    fewer, labelled = sets[:1], copy.deepcopy(sets)
    labelled[0]["template"]["metadata"]["labels"] = {"a": "b"}
    for wrong in (other, fewer, labelled):
        changed = {"spec": {"suspend": False, "replicatedJobs": wrong}}
        denied(cluster.patch(path, changed, "engine"), "'vgpu-kind-engine'", "only suspend")
    assert cluster.patch(path, {"spec": {"suspend": False, "replicatedJobs": sets}}, "engine").code == 200
    hold = {"annotations": {"vgpu.io/hold": "true"}}
    denied(
        cluster.patch(path, {"metadata": hold, "spec": {"replicatedJobs": other}}, "editor"), "suspend: true"
    )
    stored = cluster.get(path).body["spec"]["replicatedJobs"]
    for each in stored:
        del each["template"]["metadata"]
    written = {"metadata": hold, "spec": {"replicatedJobs": stored}}
    assert cluster.patch(path, written, "editor").code == 200


@OF_EACH_KIND
def test_only_the_engine_writes_and_removes_its_record(
    cluster: Cluster, created: Callable[..., str], kind: WorkloadKind
) -> None:
    path = created(kind)
    record = {"metadata": {"annotations": {RESIZE: RECORD}}}
    denied(cluster.patch(path, record, "editor"), "'vgpu-job-resizes'")
    assert cluster.patch(path, record, "engine").code == 200
    denied(
        cluster.patch(path, {"metadata": {"annotations": {RESIZE: None}}}, "editor"), "'vgpu-kind-records'"
    )


@pytest.mark.parametrize(
    ("kind", "more", "said"),
    [
        (JOB_SET, {"labels": {"vgpu.io/queue": ""}}, "is empty"),
        (JOB_SET, {"annotations": {"vgpu.io/min-replicas": "1"}}, "vgpu.io/min-replicas: remove it"),
        (RAY_JOB, {"labels": QUEUED | {"vgpu.io/group": "g"}}, "vgpu.io/group: remove it"),
    ],
)
def test_keys_that_are_not_read_there_are_refused(
    cluster: Cluster, name: str, kind: WorkloadKind, more: dict[str, Any], said: str
) -> None:
    refused(cluster.post(folder(kind), body(kind, name, **more), "editor"), "vgpu-kinds", said)


def _changed(kind: WorkloadKind, name: str, **spec: Any) -> dict[str, Any]:
    found = body(kind, name)
    found["spec"] |= spec
    return found


def _with_run_policy(kind: WorkloadKind, name: str, **fields: Any) -> dict[str, Any]:
    found = body(kind, name)
    found["spec"]["runPolicy"] |= fields
    return found


def test_what_the_queue_cannot_start_is_refused(cluster: Cluster, name: str) -> None:
    ray = body(RAY_JOB, name)
    ray["spec"]["rayClusterSpec"]["enableInTreeAutoscaling"] = True
    inner = body(JOB_SET, name)
    inner["spec"]["replicatedJobs"][0]["template"]["metadata"] = {"labels": dict(QUEUED)}
    foreign = "kueue.x-k8s.io/multikueue"
    for kind, found, said in (
        (RAY_CLUSTER, _changed(RAY_CLUSTER, name, enableInTreeAutoscaling=True), "enableInTreeAutoscaling"),
        (RAY_JOB, ray, "enableInTreeAutoscaling"),
        (RAY_JOB, _changed(RAY_JOB, name, clusterSelector={"ray.io/cluster": "a"}), "clusterSelector"),
        (JOB_SET, _changed(JOB_SET, name, managedBy=foreign), f"managedBy is {foreign}"),
        (MPI_JOB, _with_run_policy(MPI_JOB, name, managedBy=foreign), f"managedBy is {foreign}"),
        (JOB_SET, inner, "of the Jobs that the workload makes"),
        (TRAIN_JOB, _changed(TRAIN_JOB, name, labels=dict(QUEUED)), "of the Jobs that the workload makes"),
    ):
        refused(cluster.post(folder(kind), found, "editor"), "vgpu-kinds", said)


@pytest.mark.parametrize("written", [{}, {"shutdownAfterJobFinishes": False}])
def test_a_ray_job_that_keeps_its_cluster_after_its_end_is_refused(
    cluster: Cluster, name: str, written: Mapping[str, bool]
) -> None:
    found = body(RAY_JOB, name)
    del found["spec"]["shutdownAfterJobFinishes"]
    found["spec"] |= written
    said = "write shutdownAfterJobFinishes: true in spec"
    refused(cluster.post(folder(RAY_JOB), found, "editor"), "vgpu-kinds", said)
    del found["metadata"]["labels"]
    assert cluster.post(f"{folder(RAY_JOB)}?dryRun=All", found, "editor").code == 201


def test_an_mpi_job_that_keeps_its_workers_after_its_end_is_refused(cluster: Cluster, name: str) -> None:
    found = _with_run_policy(MPI_JOB, name, cleanPodPolicy="None")
    refused(cluster.post(folder(MPI_JOB), found, "editor"), "vgpu-kinds", "write cleanPodPolicy: Running")
    found["spec"]["runPolicy"]["cleanPodPolicy"] = "All"
    assert cluster.post(f"{folder(MPI_JOB)}?dryRun=All", found, "editor").code == 201


@since("1.36", "MutatingAdmissionPolicy")
@pytest.mark.parametrize("kind", [PYTORCH_JOB, MPI_JOB], ids=["PyTorchJob", "MPIJob"])
@pytest.mark.parametrize("written", [{}, {"runPolicy": {"backoffLimit": 3}}])
def test_its_running_pods_are_deleted_at_its_end_unless_its_author_says_which(
    cluster: Cluster, name: str, kind: WorkloadKind, written: Mapping[str, Any]
) -> None:
    found = body(kind, name)
    del found["spec"]["runPolicy"]
    found["spec"] |= written
    made = cluster.post(f"{folder(kind)}?dryRun=All", found, "editor")
    assert made.code == 201, made.body
    expected = {"suspend": True, "cleanPodPolicy": "Running", **written.get("runPolicy", {})}
    assert made.body["spec"]["runPolicy"] == expected
    found["spec"]["runPolicy"] = {"cleanPodPolicy": "All"}
    made = cluster.post(f"{folder(kind)}?dryRun=All", found, "editor")
    assert made.body["spec"]["runPolicy"] == {"suspend": True, "cleanPodPolicy": "All"}


def test_its_own_controller_in_managed_by_is_no_other(cluster: Cluster, name: str) -> None:
    found = _changed(JOB_SET, name, managedBy="jobset.sigs.k8s.io/jobset-controller")
    assert cluster.post(f"{folder(JOB_SET)}?dryRun=All", found, "editor").code == 201


@OF_EACH_KIND
def test_a_namespace_may_require_a_queue_and_names_the_queues(
    cluster: Cluster, name: str, kind: WorkloadKind
) -> None:
    with namespace(cluster, {"vgpu.io/queue-required": "true"}) as where:
        cluster.patch(f"/api/v1/namespaces/{where}", {"metadata": {"annotations": {"vgpu.io/queues": "a,b"}}})
        plain = body(kind, name, labels={})
        refused(
            cluster.post(folder(kind, where), plain, "editor"),
            "vgpu-queue-required-kinds",
            "write the label",
        )
        refused(cluster.post(folder(kind, where), body(kind, name), "editor"), "vgpu-kind-queues", "a, b")
        found = body(kind, name, labels={"vgpu.io/queue": "a"})
        assert cluster.post(folder(kind, where), found, "editor").code == 201
        if kind is not TRAIN_JOB:
            without = body(kind, f"{name}-x", ((1, 0),), labels={})
            assert cluster.post(folder(kind, where), without, "editor").code == 201


def test_a_job_set_that_was_there_before_a_queue_was_required_may_be_changed_otherwise(
    cluster: Cluster, name: str
) -> None:
    with namespace(cluster, {}) as where:
        path = f"{folder(JOB_SET, where)}/{name}"
        assert cluster.post(folder(JOB_SET, where), body(JOB_SET, name, labels={}), "editor").code == 201
        cluster.patch(
            f"/api/v1/namespaces/{where}", {"metadata": {"labels": {"vgpu.io/queue-required": "true"}}}
        )
        sets = _after_its_webhook(cluster.get(path).body)
        noted: dict[str, Any] = {"metadata": {"annotations": {"a": "b"}}, "spec": {"replicatedJobs": sets}}
        assert cluster.patch(path, noted, "editor").code == 200
        sets[0]["replicas"] = 2
        refused(cluster.patch(path, noted, "editor"), "vgpu-queue-required-kinds", "write the label")


def test_what_a_controller_makes_for_a_workload_is_not_held_back(cluster: Cluster, name: str) -> None:
    found = body(RAY_CLUSTER, name, suspend=None, annotations={RESIZE: RECORD})
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "a", "uid": "u", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    # An owner that a user writes counts for nothing. On older releases vgpu-kind-starts may refuse it first.
    denied(cluster.post(folder(RAY_CLUSTER), found, "editor"), "vgpu-kind-" if OLDER else "vgpu.io/resize")
    made = cluster.post(f"{folder(RAY_CLUSTER)}?dryRun=All", found, "kueue")
    assert made.code == 201, made.body
    assert "suspend" not in made.body["spec"]
    del found["metadata"]["annotations"]
    by_user = cluster.post(f"{folder(RAY_CLUSTER)}?dryRun=All", found, "editor")
    if OLDER:
        # Nothing adds `suspend` to the workload there.
        denied(by_user, "is started by the queue")
    else:
        assert by_user.body["spec"]["suspend"] is True


def test_a_running_workload_gets_the_label_only_suspended(
    cluster: Cluster, created: Callable[..., str]
) -> None:
    path = created(PYTORCH_JOB, labels={}, suspend=False)
    label: dict[str, Any] = {"metadata": {"labels": dict(QUEUED)}}
    denied(cluster.patch(path, label, "editor"), "is started by the queue")
    assert cluster.patch(path, {**label, **suspending(PYTORCH_JOB, value=True)}, "editor").code == 200
