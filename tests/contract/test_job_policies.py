"""The admission policies of the job engine: what is refused of Jobs in a queue, and what the message says to do."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

from device_plugin.adapters.kube.jobs import read_job
from tests.builders.bad_jobs import BAD, BAD_LABELS, QUEUED, SIZED, SPLIT
from tests.builders.cards import FAMILY, MEM
from tests.builders.objects import annotated, pod
from tests.builders.written_jobs import ELASTIC, as_object, job, read, template
from tests.contract.asking import asking, refused
from tests.contract.cluster import JOBS, Answer, Cluster, namespace, unique
from tests.contract.test_grace import denied
from tests.deadline import until
from tests.pages import blocks, documents
from tests.release import since

pytestmark = pytest.mark.usefixtures("job_policies")
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
RESIZE, POOL = "vgpu.io/resize", "vgpu.io/pool"
RECORD = '{"v":1,"gen":1,"from":8,"to":4}'
KUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture
def place(cluster: Cluster, name: str) -> Iterator[str]:
    """Where the Job `name` is."""
    yield f"{JOBS}/{name}"
    cluster.delete(f"{JOBS}/{name}?propagationPolicy=Background")


@pytest.fixture
def created(cluster: Cluster, name: str, place: str) -> Callable[..., str]:
    """A function that creates a suspended Job of one pod, and returns its path."""

    def create(
        labels: Mapping[str, str] = QUEUED, annotations: Mapping[str, str] | None = None, **fields: Any
    ) -> str:
        answer = cluster.post(JOBS, body(name, labels, annotations or {}, **fields), "editor")
        assert answer.code == 201, answer.body
        return place

    return create


def body(
    name: str, labels: Mapping[str, str] = QUEUED, annotations: Mapping[str, str] | None = None, **fields: Any
) -> dict[str, Any]:
    """A suspended Job of one pod."""
    width = {"parallelism": 1, "completions": 1}
    return as_object(job(labels, annotations or {}, name=name, **(width | fields)))


def start(cluster: Cluster, path: str, role: str) -> Answer:
    return cluster.patch(path, {"spec": {"suspend": False}}, role)


@since("1.36", "MutatingAdmissionPolicy")
@pytest.mark.parametrize("written", [None, False, True])
def test_a_job_in_a_queue_is_created_suspended(
    cluster: Cluster, name: str, place: str, written: bool | None
) -> None:
    wanted = body(name)
    wanted["spec"]["suspend"] = written
    for role in ("editor", "admin"):
        assert cluster.post(JOBS, wanted, role).body["spec"]["suspend"] is True
        cluster.delete(f"{place}?propagationPolicy=Background")


@pytest.mark.usefixtures("place")
def test_a_job_without_the_label_starts_as_it_says(cluster: Cluster, name: str) -> None:
    wanted = body(name, {}, {"min-replicas": "none"}, managed_by="example.com/none")
    wanted["spec"]["suspend"] = False
    assert cluster.post(JOBS, wanted, "editor").body["spec"]["suspend"] is False


@pytest.mark.parametrize("role", ["engine", "admin"])
def test_the_engine_starts_a_job_and_people_who_may_admit(cluster: Cluster, created: Any, role: str) -> None:
    assert start(cluster, created(), role).body["spec"]["suspend"] is False


def test_its_author_does_not(cluster: Cluster, created: Any) -> None:
    path = created()
    denied(
        start(cluster, path, "editor"),
        "'vgpu-job-starts'",
        "is started by the queue",
        "has the verb admit on jobs.vgpu.io",
    )
    both = {"metadata": {"labels": {"vgpu.io/queue": None}}, "spec": {"suspend": False}}
    denied(cluster.patch(path, both, "editor"), "is started by the queue")


def test_anybody_may_stop_it_and_change_what_does_not_start_it(cluster: Cluster, created: Any) -> None:
    path = created()
    assert start(cluster, path, "engine").code == 200
    assert cluster.patch(path, annotated(note="mine"), "editor").code == 200
    assert cluster.patch(path, {"spec": {"suspend": True}}, "editor").code == 200
    denied(start(cluster, path, "editor"), "is started by the queue")


def test_its_author_holds_and_releases_a_running_job_and_the_engine_does_not(
    cluster: Cluster, created: Any
) -> None:
    path = created()
    assert start(cluster, path, "engine").code == 200
    hold = annotated(**{"vgpu.io/hold": "true"})
    denied(cluster.patch(path, hold, "engine"), "the job engine writes of a Job only suspend")
    assert cluster.patch(path, hold, "editor").code == 200
    release: dict[str, Any] = {"metadata": {"annotations": {"vgpu.io/hold": None}}}
    denied(cluster.patch(path, release, "engine"), "the job engine writes of a Job only suspend")
    assert cluster.patch(path, release, "editor").code == 200


def test_without_its_label_it_is_its_authors_own(cluster: Cluster, created: Any) -> None:
    path = created()
    assert cluster.patch(path, {"metadata": {"labels": {"vgpu.io/queue": None}}}, "editor").code == 200
    assert start(cluster, path, "editor").code == 200


def test_a_running_job_gets_the_label_of_a_queue_only_suspended(
    cluster: Cluster, name: str, place: str
) -> None:
    wanted = body(name, {}, managed_by="")
    wanted["spec"]["suspend"] = False
    assert cluster.post(JOBS, wanted, "editor").code == 201
    label: dict[str, Any] = {"metadata": {"labels": {"vgpu.io/queue": "default"}}}
    denied(cluster.patch(place, label, "editor"), "'vgpu-job-starts'", "write suspend: true")
    assert cluster.patch(place, {**label, "spec": {"suspend": True}}, "editor").code == 200
    assert start(cluster, place, "engine").code == 200
    denied(
        cluster.patch(place, {"metadata": {"labels": {"vgpu.io/queue": "other"}}}, "editor"),
        "write suspend: true",
    )
    assert cluster.patch(place, annotated(note="mine"), "editor").code == 200


def wide(width: int, **spec: Any) -> dict[str, Any]:
    return {"spec": {"parallelism": width, "completions": width, **spec}}


def test_a_running_job_gets_more_pods_from_its_queue_and_from_people_who_may_admit(
    cluster: Cluster, created: Any
) -> None:
    path = created(QUEUED, {"min-replicas": "1", "max-replicas": "64"})
    assert cluster.patch(path, wide(2), "editor").code == 200, "it waits"
    assert start(cluster, path, "engine").code == 200
    words = "'vgpu-job-widths'", "gets more pods from the queue", "write vgpu.io/max-replicas"
    denied(cluster.patch(path, wide(3), "editor"), *words)
    more = {"metadata": {"annotations": {"vgpu.io/max-replicas": "1024"}}}
    denied(cluster.patch(path, {**more, **wide(1024)}, "editor"), *words)
    without = {"metadata": {"labels": {"vgpu.io/queue": None}}}
    denied(cluster.patch(path, {**without, **wide(3)}, "editor"), *words)
    for width, role in ((4, "engine"), (5, "admin"), (6, "controller"), (3, "editor"), (1, "editor")):
        assert cluster.patch(path, wide(width), role).code == 200, role
    denied(cluster.patch(path, wide(2), "editor"), *words)
    assert cluster.patch(path, wide(8, suspend=True), "editor").code == 200, "it waits again"
    denied(start(cluster, path, "editor"), "is started by the queue")


def test_the_window_of_a_running_split_is_the_queues_too(cluster: Cluster, created: Any) -> None:
    path = created(QUEUED, SPLIT, completions=3000)
    assert start(cluster, path, "engine").code == 200
    window: dict[str, Any] = {"spec": {"parallelism": 2}}
    denied(cluster.patch(path, window, "editor"), "'vgpu-job-widths'")
    assert cluster.patch(path, window, "engine").code == 200


def test_more_pods_of_kueues_job_are_given_by_kueue(cluster: Cluster, created: Any) -> None:
    path = created({**QUEUED, KUEUE: "theirs"})
    assert start(cluster, path, "kueue").code == 200
    denied(cluster.patch(path, wide(2), "editor"), "'vgpu-job-widths'")
    assert cluster.patch(path, wide(2), "kueue").code == 200


def test_the_label_of_kueue_lets_its_controller_widen_no_other_job(cluster: Cluster, created: Any) -> None:
    path = created()
    assert start(cluster, path, "engine").code == 200
    both = {"metadata": {"labels": {KUEUE: "theirs"}}, **wide(2)}
    denied(cluster.patch(path, both, "kueue"), "'vgpu-job-widths'")


def test_the_engine_writes_of_a_job_what_it_decides_and_nothing_else(cluster: Cluster, created: Any) -> None:
    path = created(QUEUED, {"min-replicas": "1", "max-replicas": "64"})
    pools = {"vgpu.io/pool": "a", "node-restriction.kubernetes.io/vgpu-pool": "a"}
    decided = wide(2, suspend=False, template={"spec": {"nodeSelector": pools}})
    assert (
        cluster.patch(path, {**decided, **annotated(**{RESIZE: RECORD, POOL: "x/a"})}, "engine").code == 200
    )
    assert cluster.patch(path, wide(1), "engine").code == 200
    assert cluster.patch(path, {"spec": {"suspend": True}}, "engine").code == 200
    others: list[dict[str, Any]] = [
        annotated(other="1"), annotated(**{"vgpu.io/max-replicas": "65"}), {"metadata": {"labels": {"other": "1"}}},
        {"metadata": {"labels": {"vgpu.io/queue": None}}}, {"metadata": {"finalizers": ["vgpu.io/contract"]}},
        {"spec": {"ttlSecondsAfterFinished": 1}}, {"spec": {"backoffLimit": 0}}, {"spec": {"activeDeadlineSeconds": 1}},
        {"spec": {"template": {"spec": {"nodeSelector": {"other": "1"}}}}},
        {"spec": {"template": {"spec": {"tolerations": [{"operator": "Exists"}]}}}},
        {"spec": {"template": {"metadata": {"labels": {"other": "1"}}}}},
    ]  # fmt: skip
    for change in others:
        answer = cluster.patch(path, change, "engine")
        denied(answer, "'vgpu-job-engine'", "the job engine writes of a Job only suspend")
    denied(cluster.patch(f"{path}/status", annotated(other="1"), "engine"), "'vgpu-job-engine'")


@pytest.mark.usefixtures("place")
def test_the_engine_writes_no_job_without_a_queue(cluster: Cluster, name: str, place: str) -> None:
    denied(cluster.post(JOBS, body(name), "engine"), "'vgpu-job-engine'")
    assert cluster.post(JOBS, body(name, {}), "editor").code == 201
    denied(start(cluster, place, "engine"), "writes only Jobs with the label vgpu.io/queue")


@contextmanager
def queues_of(cluster: Cluster, queues: str) -> Iterator[str]:
    """The Jobs' path of a new namespace whose annotation lists these queues."""
    with namespace(cluster, {}) as where:
        assert (
            cluster.patch(f"/api/v1/namespaces/{where}", annotated(**{"vgpu.io/queues": queues})).code == 200
        )
        jobs = f"/apis/batch/v1/namespaces/{where}/jobs"
        # Admission of the real one learns of the annotation by a watch.
        other = body(unique(), {"queue": "other"})
        until(lambda: cluster.post(f"{jobs}?dryRun=All", other).code == 422, "the namespace's queues count")
        yield jobs


def test_a_namespace_may_name_the_queues_that_its_annotation_lists(cluster: Cluster, name: str) -> None:
    with queues_of(cluster, "default,research") as jobs:
        answer = cluster.post(jobs, body(name, {"queue": "mine"}), "editor")
        words = "has no queue mine: write one of its queues into the label vgpu.io/queue: default, research"
        refused(answer, "vgpu-job-queues", words, "annotation vgpu.io/queues of the namespace")
        assert cluster.post(jobs, body(name, {"queue": "research"}), "editor").code == 201
        moved: dict[str, Any] = {"metadata": {"labels": {"vgpu.io/queue": "mine"}}}
        refused(cluster.patch(f"{jobs}/{name}", moved, "editor"), "vgpu-job-queues", "has no queue mine")
        moved["metadata"]["labels"]["vgpu.io/queue"] = "default"
        assert cluster.patch(f"{jobs}/{name}", moved, "editor").code == 200
        assert cluster.post(jobs, body(unique(), {}), "editor").code == 201
        cluster.delete(f"{jobs}/{name}?propagationPolicy=Background")


def test_a_job_that_waits_in_a_queue_of_before_can_be_written(cluster: Cluster, name: str) -> None:
    with namespace(cluster, {}) as where:
        jobs, own = f"/apis/batch/v1/namespaces/{where}/jobs", f"/api/v1/namespaces/{where}"
        assert cluster.post(jobs, body(name, {"queue": "mine"}), "editor").code == 201
        assert cluster.patch(own, annotated(**{"vgpu.io/queues": ""})).code == 200
        new = body(unique(), {"queue": "mine"})
        until(lambda: cluster.post(f"{jobs}?dryRun=All", new).code == 422, "the namespace's queues count")
        assert cluster.patch(f"{jobs}/{name}", annotated(note="mine"), "editor").code == 200


def test_with_kueues_label_kueue_starts_it(cluster: Cluster, created: Any) -> None:
    path = created({**QUEUED, KUEUE: "theirs"})
    denied(start(cluster, path, "editor"), "is started by the queue")
    assert start(cluster, path, "kueue").code == 200


@pytest.mark.parametrize("sub", ["", "/status"])
@pytest.mark.parametrize(("key", "value"), [(RESIZE, RECORD), (POOL, "hygon.com/dcu/a")])
def test_only_the_engine_writes_what_it_decided_and_anybody_removes_it(
    cluster: Cluster, created: Any, key: str, value: str, sub: str
) -> None:
    path = created()
    denied(cluster.patch(path + sub, annotated(**{key: value}), "tenant"), "only the job engine writes them")
    assert cluster.patch(path + sub, annotated(**{key: value}), "engine").code == 200
    denied(cluster.patch(path + sub, annotated(**{key: "{}"}), "tenant"), "only the job engine writes them")
    assert cluster.patch(path, annotated(note="mine"), "editor").code == 200
    assert cluster.patch(path + sub, annotated(**{key: None}), "tenant").code == 200
    assert key not in cluster.get(path).body["metadata"].get("annotations", {})


def test_a_resize_is_not_copied_into_a_new_job(cluster: Cluster, name: str) -> None:
    denied(
        cluster.post(JOBS, body(name, QUEUED, {"resize": RECORD}), "editor"),
        "'vgpu-job-resizes'",
        "leave them out",
    )
    denied(cluster.post(JOBS, body(name, {}, {"resize": RECORD}), "editor"), "leave them out")


def kept(message: str, kind: str = RESIZE) -> dict[str, Any]:
    """A change of one condition of a Job."""
    return {
        "status": {"conditions": [{"type": kind, "status": "True", "reason": "Kept", "message": message}]}
    }


def test_only_the_engine_keeps_what_a_job_has_had(cluster: Cluster, created: Any) -> None:
    status = f"{created()}/status"

    def patch(role: str, change: object) -> Answer:
        return cluster.patch(status, change, role, STRATEGIC)

    denied(patch("tenant", kept(RECORD)), "'vgpu-job-pasts'", "only the job engine writes it")
    both = {**annotated(**{RESIZE: RECORD}), **kept(RECORD)}
    assert patch("engine", both).code == 200
    denied(patch("tenant", kept("{}")), "only the job engine writes it")
    denied(cluster.patch(status, {"status": {"conditions": None}}, "tenant"), "only the job engine writes it")
    assert patch("tenant", kept("mine", "example.com/own")).code == 200
    assert cluster.patch(status, {"status": {"ready": 0}}).code == 200, "as the Job controller writes"
    assert patch("engine", kept("{}")).code == 200


@pytest.mark.parametrize(
    "change",
    [kept("", "example.com/other"), {"status": {"active": 3}}, {"status": {"conditions": None}}],
)
def test_the_engine_writes_nothing_else_of_a_status(
    cluster: Cluster, created: Any, change: dict[str, Any]
) -> None:
    status = f"{created()}/status"
    assert cluster.patch(status, kept("", "example.com/own"), "admin", STRATEGIC).code == 200
    media = STRATEGIC if change["status"].get("conditions") else MERGE
    denied(
        cluster.patch(status, change, "engine", media),
        "'vgpu-job-engine'",
        "and the condition vgpu.io/resize",
    )


def test_a_job_is_replaced_whole_without_what_the_engine_wrote(cluster: Cluster, created: Any) -> None:
    """As `kubectl replace` does it: the record goes, and what is kept stays."""
    path = created()
    both = {**annotated(**{RESIZE: RECORD}), **kept(RECORD)}
    assert cluster.patch(f"{path}/status", both, "engine", STRATEGIC).code == 200
    found = cluster.get(path).body
    # Without a version: the Job controller may write at the same time.
    del found["metadata"]["annotations"][RESIZE], found["metadata"]["resourceVersion"], found["status"]
    assert cluster.put(path, found, "editor").code == 200
    after = cluster.get(path).body
    assert RESIZE not in after["metadata"].get("annotations", {})
    assert RESIZE in [condition["type"] for condition in after["status"]["conditions"]]


CHECKPOINT = "vgpu.io/checkpoint"


def test_the_engine_asks_a_pod_for_a_checkpoint_and_changes_nothing_else(
    cluster: Cluster, pending: str
) -> None:
    status = f"{pending}/status"
    assert cluster.patch(status, annotated(**{CHECKPOINT: "{}"}), "engine").code == 200
    assert cluster.patch(status, annotated(**{CHECKPOINT: "{1}"}), "engine").code == 200
    assert cluster.patch(status, annotated(mine="1")).code == 200
    changes: list[dict[str, Any]] = [
        annotated(other="1"), annotated(mine=None), annotated(mine="2"), {"metadata": {"labels": {"other": "1"}}},
        {"metadata": {"finalizers": ["vgpu.io/contract"]}}, {"status": {"phase": "Failed"}},
        {"status": {"message": "none"}},
    ]  # fmt: skip
    for change in changes:
        denied(
            cluster.patch(status, change, "engine"), "'vgpu-job-checkpoints'", "writes only the annotation"
        )
    denied(cluster.patch(pending, annotated(**{CHECKPOINT: "{2}"}), "engine"), "by its status")
    assert cluster.patch(status, annotated(**{CHECKPOINT: None}), "engine").code == 200


@pytest.mark.parametrize("sub", ["", "/status"])
def test_a_request_for_a_checkpoint_stays_as_the_engine_wrote_it(
    cluster: Cluster, pending: str, sub: str
) -> None:
    assert cluster.patch(f"{pending}/status", annotated(**{CHECKPOINT: "{}"}), "engine").code == 200
    for value in (None, "{1}"):
        denied(cluster.patch(pending + sub, annotated(**{CHECKPOINT: value})), "say vgpu-checkpoint done")
    assert cluster.patch(pending + sub, annotated(mine="1")).code == 200
    assert cluster.patch(f"{pending}/status", annotated(**{CHECKPOINT: None}), "engine").code == 200


@pytest.fixture
def strict(cluster: Cluster) -> Iterator[str]:
    """The name of a namespace in which Jobs wait in queues."""
    with namespace(cluster, {"vgpu.io/queue-required": "true"}) as name:
        yield name


def test_where_queues_are_required_a_job_that_asks_has_one(cluster: Cluster, strict: str, name: str) -> None:
    jobs = f"/apis/batch/v1/namespaces/{strict}/jobs"
    refused(
        cluster.post(jobs, body(name, {})),
        "vgpu-queue-required-jobs",
        "write the label vgpu.io/queue with the queue's name",
    )
    assert cluster.post(jobs, body(name)).code == 201
    without = {"metadata": {"labels": {"vgpu.io/queue": None}}}
    refused(
        cluster.patch(f"{jobs}/{name}", without), "vgpu-queue-required-jobs", "write the label vgpu.io/queue"
    )
    assert cluster.post(jobs, body(unique(), {}, template=template({}))).code == 201
    cluster.delete(f"{jobs}/{name}?propagationPolicy=Background")


def test_where_queues_are_required_a_job_of_before_stays_without(cluster: Cluster, name: str) -> None:
    with namespace(cluster, {}) as where:
        jobs = f"/apis/batch/v1/namespaces/{where}/jobs"
        assert cluster.post(jobs, body(name, {})).code == 201
        required = {"metadata": {"labels": {"vgpu.io/queue-required": "true"}}}
        assert cluster.patch(f"/api/v1/namespaces/{where}", required).code == 200
        # Admission of the real one learns of the label by a watch.
        new = body(unique(), {})
        until(lambda: cluster.post(f"{jobs}?dryRun=All", new).code == 422, "queues are required")
        assert cluster.patch(f"{jobs}/{name}", annotated(note="mine")).code == 200


@since("1.36", "a suspended Job whose resources may be changed")
def test_where_queues_are_required_what_asks_is_what_a_job_asks_now(
    cluster: Cluster, strict: str, name: str
) -> None:
    jobs = f"/apis/batch/v1/namespaces/{strict}/jobs"
    assert cluster.post(jobs, body(name, {}, template=template({})), "editor").code == 201
    path = f"{jobs}/{name}"
    (container,) = cluster.get(path).body["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"limits": {MEM: "4"}, "requests": {MEM: "4"}}
    asks: dict[str, Any] = {"spec": {"template": {"spec": {"containers": [container]}}}}
    words = "vgpu-queue-required-jobs", "write the label vgpu.io/queue"
    refused(cluster.patch(path, asks, "editor"), *words)
    refused(cluster.patch(path, {"spec": {**asks["spec"], "suspend": False}}, "editor"), *words)
    queued = {**asks, "metadata": {"labels": {"vgpu.io/queue": "default"}}}
    answer = cluster.patch(path, queued, "editor")
    assert answer.code == 200, answer.body
    denied(start(cluster, path, "editor"), "is started by the queue")


def test_where_queues_are_required_a_job_of_before_gets_no_more_pods_past_them(
    cluster: Cluster, name: str
) -> None:
    with namespace(cluster, {}) as where:
        jobs = f"/apis/batch/v1/namespaces/{where}/jobs"
        assert cluster.post(jobs, body(name, {}), "editor").code == 201
        required = {"metadata": {"labels": {"vgpu.io/queue-required": "true"}}}
        assert cluster.patch(f"/api/v1/namespaces/{where}", required).code == 200
        new = body(unique(), {})
        until(lambda: cluster.post(f"{jobs}?dryRun=All", new).code == 422, "queues are required")
        path = f"{jobs}/{name}"
        words = "'vgpu-queue-required-jobs'", "gets no more pods", "and suspend: true, with which it waits"
        denied(cluster.patch(path, wide(2), "editor"), *words)
        denied(cluster.patch(path, wide(2, suspend=False), "editor"), *words)
        assert start(cluster, path, "editor").code == 200
        denied(cluster.patch(path, wide(2), "editor"), *words)
        assert cluster.patch(path, wide(4), "admin").code == 200
        assert cluster.patch(path, wide(1), "editor").code == 200
        queued = {"metadata": {"labels": {"vgpu.io/queue": "default"}}, **wide(2, suspend=True)}
        assert cluster.patch(path, queued, "editor").code == 200


def test_where_queues_are_required_a_pod_that_asks_is_made_by_a_controller(
    cluster: Cluster, strict: str, name: str
) -> None:
    pods = f"/api/v1/namespaces/{strict}/pods"
    owned = asking(name)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "0", "controller": True}
    owned["metadata"]["ownerReferences"] = [owner]
    made_up = asking(name)
    made_up["metadata"]["ownerReferences"] = [{**owner, "apiVersion": "v1", "kind": "ConfigMap"}]
    for role, wanted in (
        ("editor", asking(name)),
        ("editor", made_up),
        ("tenant", owned),
        ("controller", asking(name)),
    ):
        refused(
            cluster.post(pods, wanted, role),
            "vgpu-queue-required-pods",
            "write a Job with this pod as its template",
        )
    answers = [
        cluster.post(pods, owned, "controller"),
        cluster.post(pods, pod(unique()), "editor"),
        cluster.post(
            f"{pods}?dryRun=All", {**owned, "metadata": {**owned["metadata"], "name": unique()}}, "editor"
        ),
    ]
    assert [answer.code for answer in answers] == [201, 201, 201], answers


@pytest.mark.usefixtures("place")
def test_elsewhere_they_need_none(cluster: Cluster, name: str) -> None:
    assert cluster.post(JOBS, body(name, {})).code == 201


@pytest.mark.parametrize(("annotations", "fields", "words"), BAD)
def test_bad_input_says_what_to_write(
    cluster: Cluster, name: str, annotations: Mapping[str, str], fields: Mapping[str, Any], words: str
) -> None:
    wanted = as_object(job(QUEUED, annotations, name=name, **fields))
    refused(cluster.post(JOBS, wanted, "editor"), "vgpu-jobs", words)


@pytest.mark.parametrize(("labels", "words"), BAD_LABELS)
def test_bad_labels_say_what_to_write(
    cluster: Cluster, name: str, labels: Mapping[str, str], words: str
) -> None:
    refused(cluster.post(JOBS, as_object(job(labels, name=name)), "editor"), "vgpu-jobs", words)


def test_the_groups_of_a_job_and_of_its_pods_are_one(cluster: Cluster, name: str) -> None:
    wanted = job({**QUEUED, "group": "g"}, name=name, template=template(labels={"group": "other"}))
    words = "label vgpu.io/group is g on the Job and other on its pods: write one name in both places"
    refused(cluster.post(JOBS, as_object(wanted), "editor"), "vgpu-jobs", words)


@pytest.mark.parametrize(
    ("labels", "annotations", "fields"),
    [
        (QUEUED, {}, {"indexed": False, "replacement": "TerminatingOrFailed", "restart_policy": "OnFailure"}),
        (QUEUED, ELASTIC, {}),
        (QUEUED, ELASTIC, {"template": template(labels={"group": "g", "group-size": "2"})}),
        (QUEUED, {"min-replicas": "1", "max-replicas": "1024"}, {}),
        (QUEUED, {"widths": "1,2,4,8"}, {}),
        (QUEUED, {"widths": "4", "min-replicas": "2", "max-replicas": "8"}, {}),
        (QUEUED, {"widths": ",".join(map(str, range(1009, 1025)))}, {"parallelism": 1024, "completions": 1024}),
        (QUEUED, {"widths": "2,4,8"}, {"template": template(labels={"group": "g", "group-size": "2"})}),
        (QUEUED, {**SIZED, "widths": "2,8"}, {}),
        ({**QUEUED, KUEUE: "theirs"}, {"widths": "1,2"}, {"indexed": False}),
        (QUEUED, SPLIT, {"completions": 3000, "parallelism": 1}),
        ({**QUEUED, "split-of": "n", "part": "0"}, {}, {}),
        ({**QUEUED, "split-of": "n", "part": "3"}, {"split": "any", "barrier": "true"}, {}),
        (QUEUED, SIZED, {}),
        (QUEUED, {**SIZED, **ELASTIC, "app-type": "gpu", "card-model": "Z100"},
         {"template": template({FAMILY: "2"}, annotations={"card-model": "Z100"})}),
        ({**QUEUED, "group": "g", "role": "trainer"}, {**ELASTIC, "group-jobs": "3"}, {}),
        ({**QUEUED, "group": "g", "role": "ps"}, {"min-replicas": "4", "group-jobs": "1024"}, {}),
        ({**QUEUED, "group": "g", "role": "master"}, {},
         {"template": template({}, labels={"group": "g", "group-size": "2"})}),
        (QUEUED, {"expected-duration": "1d2h3m4s", "checkpoint-seconds": "3600"}, {}),
        (QUEUED, {"resumable": "true", "min-runtime": "1h30m"}, {}),
        ({**QUEUED, KUEUE: "theirs"}, {"resumable": "false"}, {}),
        (QUEUED, {"hold": "true"}, {}),
        ({**QUEUED, KUEUE: "theirs"}, ELASTIC, {"indexed": False, "completions": 8}),
    ],
)  # fmt: skip
def test_what_people_write(
    cluster: Cluster, name: str, place: str, labels: Mapping[str, str], annotations: Mapping[str, str],
    fields: Mapping[str, Any],
) -> None:  # fmt: skip
    answer = cluster.post(JOBS, as_object(job(labels, annotations, name=name, **fields)), "editor")
    assert answer.code == 201, answer.body
    assert cluster.get(place).code == 200


def test_what_is_written_later_is_read_too(cluster: Cluster, created: Any) -> None:
    path = created(QUEUED, ELASTIC, parallelism=4, completions=4)
    refused(
        cluster.patch(path, annotated(**{"vgpu.io/min-replicas": "9"}), "editor"),
        "vgpu-jobs",
        "write a minimum that is",
    )
    refused(
        cluster.patch(path, {"spec": {"completions": 9, "parallelism": 9}}, "editor"),
        "vgpu-jobs",
        "write a width",
    )
    assert cluster.patch(path, {"spec": {"completions": 8, "parallelism": 8}}, "engine").code == 200


def test_of_a_job_that_has_run_other_widths_may_be_listed_and_no_other_one_written(
    cluster: Cluster, created: Any
) -> None:
    path = created(QUEUED, {"widths": "2,3"}, parallelism=3, completions=3)
    other = annotated(**{"vgpu.io/widths": "1,2,8"})
    words = (
        "completions and parallelism are 3, and vgpu.io/widths allows 1, 2, 8: write one of these into both"
    )
    refused(cluster.patch(path, other, "editor"), "vgpu-jobs", words)
    assert start(cluster, path, "engine").code == 200
    assert cluster.patch(path, other, "editor").code == 200
    for wrong in (4, 1025):
        width = {"spec": {"completions": wrong, "parallelism": wrong}}
        refused(cluster.patch(path, width, "engine"), "vgpu-jobs", "write")
    stopped = {**annotated(**{RESIZE: RECORD}), "spec": {"suspend": True}}
    assert cluster.patch(path, stopped, "engine").code == 200, "it is stopped as wide as it was"
    goes_on = {"spec": {"suspend": False, "completions": 2, "parallelism": 2}}
    assert cluster.patch(path, goes_on, "engine").code == 200


def test_a_job_that_is_older_than_the_policy_can_be_written_and_deleted(
    cluster: Cluster, name: str, place: str
) -> None:
    """It gets its label by a write, as no policy looks at Jobs without one."""
    wanted = body(name, {}, {"min-replicas": "none"})
    wanted["metadata"]["finalizers"] = ["vgpu.io/contract"]
    assert cluster.post(JOBS, wanted).code == 201
    labelled = cluster.patch(place, {"metadata": {"labels": {"vgpu.io/queue": "default"}}})
    refused(labelled, "vgpu-jobs", "annotation vgpu.io/min-replicas is 'none'")
    assert cluster.patch(place, {"metadata": {"finalizers": []}}).code == 200


def test_what_the_page_says_starts_all_jobs_that_wait_once_the_engine_is_removed(cluster: Cluster) -> None:
    (text,) = [text for page, text in blocks("sh") if page.name == "jobs.md" and "components/jobs" in text]
    (selector,), (patch,) = re.findall(r"-l '(.*?)'", text), re.findall(r"-p '(.*?)'", text)
    labels = {"waits": QUEUED, "theirs": {**QUEUED, KUEUE: "theirs"}, "other": {}}
    paths = {each: f"{JOBS}/{unique(each)}" for each in labels}
    for each, path in paths.items():
        assert cluster.post(JOBS, body(path.rpartition("/")[2], labels[each])).code == 201
    assert cluster.patch(paths["waits"], annotated(**{RESIZE: RECORD}), "engine").code == 200
    listed = cluster.get(f"{JOBS}?{urlencode({'labelSelector': selector})}").body["items"]
    found = {f"{JOBS}/{item['metadata']['name']}" for item in listed} & set(paths.values())
    assert found == {paths["waits"]}
    released = cluster.patch(paths["waits"], json.loads(patch)).body
    assert released["spec"]["suspend"] is False
    assert RESIZE not in released["metadata"].get("annotations", {})
    for path in paths.values():
        cluster.delete(f"{path}?propagationPolicy=Background")


@pytest.mark.parametrize(
    "shown",
    [found for page, found in documents() if page.name == "jobs.md" and found.get("kind") == "Job"],
    ids=lambda found: found["metadata"]["name"],
)
def test_a_job_that_the_page_shows_is_accepted_and_read(
    cluster: Cluster, name: str, place: str, shown: dict[str, Any]
) -> None:
    wanted = {**shown, "metadata": {**shown["metadata"], "name": name}}
    wanted["spec"] = {**wanted["spec"], "suspend": True}
    assert cluster.post(JOBS, wanted, "editor").code == 201
    found = read(read_job(json.dumps(cluster.get(place).body).encode()))
    assert (found.key, found.queue) == (("default", name), "default")
