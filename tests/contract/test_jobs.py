"""Jobs under their controller: which pods come and go, and what is counted. These tests do what a kubelet would."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.builders import objects
from tests.builders.objects import annotated, binding, container, job
from tests.contract.cluster import JOBS, PODS, Cluster, unique
from tests.deadline import until
from tests.release import OLDER, since

EVENTS = "/api/v1/namespaces/default/events"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
# The real controller waits 10 s before it replaces a failed pod, and looks for garbage less often.
SECONDS = 60.0
Object = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Running:
    """A Job of these tests, whose pods no scheduler takes."""

    cluster: Cluster
    name: str

    @property
    def path(self) -> str:
        return f"{JOBS}/{self.name}"

    def status(self) -> dict[str, Any]:
        return dict(self.cluster.get(self.path).body["status"])

    def condition(self, kind: str) -> Object:
        conditions = self.status().get("conditions", ())
        return next((one for one in conditions if one["type"] == kind), {})

    def every_pod(self) -> Sequence[Object]:
        selected = f"{PODS}?labelSelector=batch.kubernetes.io/job-name={self.name}"
        return list(self.cluster.get(selected).body["items"])

    def pods(self) -> dict[int, Object]:
        """The pods that have not ended and are not deleted, by index."""
        return {
            int(pod["metadata"]["annotations"][INDEX]): pod
            for pod in self.every_pod()
            if "deletionTimestamp" not in pod["metadata"] and not over(pod)
        }

    def runs(self, *indexes: int) -> dict[int, Object]:
        """Returns the pods once those of these indexes and no others are there, and the status counts them."""
        until(lambda: sorted(self.pods()) == sorted(indexes), f"pods of {indexes}", SECONDS)
        until(lambda: self.status().get("active", 0) == len(indexes), f"active: {len(indexes)}", SECONDS)
        return self.pods()

    def until_done(self, indexes: str) -> None:
        """Returns once the status says that these indexes have succeeded."""
        until(lambda: self.status().get("completedIndexes", "") == indexes, f"done: {indexes}", SECONDS)

    def patch(self, **spec: Any) -> None:
        answer = self.cluster.patch(self.path, {"spec": spec})
        assert answer.code == 200, answer.body

    def bind(self, *pods: Object) -> None:
        """Bound pods are not gone at once when they are deleted.

        Each has a node of its own: Kubernetes removes the pods of a node that it has missed for 40 s, in any test.
        """
        for pod in pods:
            name = pod["metadata"]["name"]
            assert self.cluster.post(f"{PODS}/{name}/binding", binding(name, unique("node"))).code == 201

    def report(self, pod: Object, **status: Any) -> None:
        answer = self.cluster.patch(f"{PODS}/{pod['metadata']['name']}/status", {"status": status})
        assert answer.code == 200, answer.body

    def ready(self, pod: Object, minute: int) -> None:
        """The pod runs, and is ready since that minute of an hour long ago."""
        moment = f"2026-01-01T00:{minute:02}:00Z"
        self.report(
            pod,
            phase="Running",
            conditions=[{"type": "Ready", "status": "True", "lastTransitionTime": moment}],
        )

    def evict(self, pod: Object) -> None:
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": "default"},
        }
        assert self.cluster.post(f"{PODS}/{name}/eviction", body).code == 201

    def remove(self, pod: Object) -> None:
        """The kubelet's last word about a pod."""
        self.cluster.delete(f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")

    def events(self, reason: str) -> list[str]:
        selected = f"{EVENTS}?fieldSelector=involvedObject.name={self.name},reason={reason}"
        return [event["message"] for event in self.cluster.get(selected).body["items"]]


def over(pod: Object) -> bool:
    return pod["status"]["phase"] in ("Succeeded", "Failed")


Start = Callable[..., Running]


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Start]:
    """A function that creates a Job of this width; what is left of it is removed afterwards."""
    made: list[Running] = []

    def create(width: int = 1, *, pod: Object | None = None, **spec: Any) -> Running:
        running = Running(cluster, unique("job"))
        made.append(running)
        body = job(running.name, width, pod={"schedulerName": "nobody", **(pod or {})}, **spec)
        answer = cluster.post(JOBS, body)
        assert answer.code == 201, answer.body
        return running

    yield create
    for running in made:
        cluster.delete(f"{running.path}?propagationPolicy=Background")
        for left in running.every_pod():
            cluster.patch(f"{PODS}/{left['metadata']['name']}", {"metadata": {"finalizers": None}})
            running.remove(left)


def test_each_index_has_a_pod_that_knows_its_index_and_its_job(start: Start) -> None:
    running = start(3)
    pods = running.runs(0, 1, 2)
    owned = running.cluster.get(running.path).body
    for index, pod in pods.items():
        metadata = pod["metadata"]
        assert metadata["name"].startswith(f"{running.name}-{index}-")
        assert metadata["finalizers"] == [TRACKING]
        assert metadata["annotations"][INDEX] == metadata["labels"][INDEX] == str(index)
        assert metadata["labels"]["job-name"] == running.name
        (owner,) = metadata["ownerReferences"]
        assert owner == {
            "apiVersion": "batch/v1", "kind": "Job", "name": running.name, "uid": owned["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        (variable,) = pod["spec"]["containers"][0]["env"]
        assert variable["name"] == "JOB_COMPLETION_INDEX"
        assert variable["valueFrom"]["fieldRef"]["fieldPath"] == f"metadata.labels['{INDEX}']"
        assert pod["spec"]["hostname"] == f"{running.name}-{index}"
    assert owned["status"]["startTime"]
    until(lambda: len(running.events("SuccessfulCreate")) == 3, "events", SECONDS)


def test_what_is_ready_is_counted(start: Start) -> None:
    running = start(2)
    running.ready(running.runs(0, 1)[1], 1)
    until(lambda: running.status()["ready"] == 1, "one ready", SECONDS)


def test_parallelism_alone_takes_the_pod_that_became_ready_last_even_of_index_0(start: Start) -> None:
    running = start(3)
    pods = running.runs(0, 1, 2)
    for index, pod in pods.items():
        running.ready(pod, 10 - index)
    until(lambda: running.status()["ready"] == 3, "all ready", SECONDS)
    running.patch(parallelism=2)
    running.runs(1, 2)
    running.patch(parallelism=3)
    running.runs(0, 1, 2)


def test_both_numbers_together_take_the_highest_indexes_and_give_them_back(start: Start) -> None:
    running = start(4)
    pods = running.runs(0, 1, 2, 3)
    for index, pod in pods.items():
        running.ready(pod, 10 - index)
    until(lambda: running.status()["ready"] == 4, "all ready", SECONDS)
    running.patch(parallelism=2, completions=2)
    kept = running.runs(0, 1)
    assert all(kept[index]["metadata"]["uid"] == pods[index]["metadata"]["uid"] for index in kept)
    until(lambda: len(running.events("SuccessfulDelete")) == 2, "events", SECONDS)
    running.patch(parallelism=4, completions=4)
    running.runs(0, 1, 2, 3)


def test_where_only_failed_pods_are_replaced_an_index_waits_for_the_end_of_its_pod(start: Start) -> None:
    running = start(3, podReplacementPolicy="Failed")
    pods = running.runs(0, 1, 2)
    running.bind(*pods.values())
    running.patch(parallelism=2, completions=2)
    running.runs(0, 1)
    until(lambda: running.status()["terminating"] == 1, "one terminating", SECONDS)
    running.patch(parallelism=4, completions=4)
    # That a pod of index 3 came shows that the controller has seen the new width.
    running.runs(0, 1, 3)
    running.report(pods[2], phase="Failed")
    running.remove(pods[2])
    running.runs(0, 1, 2, 3)
    assert "failed" not in running.status()


def test_otherwise_a_pod_is_replaced_while_it_ends(start: Start) -> None:
    running = start(2, podReplacementPolicy="TerminatingOrFailed")
    pods = running.runs(0, 1)
    running.bind(pods[1])
    running.patch(parallelism=1, completions=1)
    running.runs(0)
    running.patch(parallelism=2, completions=2)
    running.runs(0, 1)
    assert running.status()["terminating"] == 1


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
def test_a_shrink_is_no_failure(start: Start, policy: str) -> None:
    running = start(2, podReplacementPolicy=policy, backoffLimit=0)
    pods = running.runs(0, 1)
    running.bind(*pods.values())
    running.patch(parallelism=1, completions=1)
    running.runs(0)
    running.report(pods[1], phase="Failed")
    running.remove(pods[1])
    running.patch(parallelism=2, completions=2)
    running.runs(0, 1)
    assert "failed" not in running.status()


@pytest.mark.parametrize("policy", ["Failed", "TerminatingOrFailed"])
def test_a_suspension_ends_all_pods_and_is_no_failure(start: Start, policy: str) -> None:
    running = start(2, podReplacementPolicy=policy, backoffLimit=0)
    pods = running.runs(0, 1)
    running.bind(*pods.values())
    running.patch(suspend=True)
    running.runs()
    until(lambda: running.condition("Suspended").get("status") == "True", "Suspended", SECONDS)
    assert running.condition("Suspended")["reason"] == "JobSuspended"
    assert ("startTime" in running.status()) is OLDER, "since Kubernetes 1.36 it is as if it had not begun"
    for pod in pods.values():
        running.report(pod, phase="Failed")
        running.remove(pod)
    running.patch(suspend=False)
    running.runs(0, 1)
    assert running.condition("Suspended")["status"] == "False"
    assert running.status()["startTime"]
    assert "failed" not in running.status()


def test_a_condition_of_ones_own_is_merged_into_the_status_and_the_controller_keeps_it(start: Start) -> None:
    running = start(2, suspend=True)
    until(lambda: running.condition("Suspended").get("status") == "True", "Suspended", SECONDS)
    media, kind = "application/strategic-merge-patch+json", "example.com/own"
    for message in ("first", "second"):
        own = {"type": kind, "status": "True", "message": message}
        change = {**annotated(note=message), "status": {"conditions": [own]}, "spec": {"parallelism": 5}}
        assert running.cluster.patch(f"{running.path}/status", change, media=media).code == 200
    job = running.cluster.get(running.path).body
    assert (job["metadata"]["annotations"]["note"], job["spec"]["parallelism"]) == ("second", 2)
    assert running.condition("Suspended")["status"] == "True"
    running.patch(suspend=False)
    running.runs(0, 1)
    until(lambda: running.condition("Suspended")["status"] == "False", "Resumed", SECONDS)
    assert running.condition(kind)["message"] == "second"
    # A PUT of the whole Job without it, as `kubectl replace` sends one, changes no status.
    job = running.cluster.get(running.path).body
    del job["metadata"]["resourceVersion"]
    assert running.cluster.put(running.path, {**job, "status": {}}).code == 200
    assert running.condition(kind)["message"] == "second"


def test_a_job_that_begins_suspended_has_no_pods_and_has_not_started(start: Start) -> None:
    running = start(2, suspend=True)
    until(lambda: running.condition("Suspended").get("status") == "True", "Suspended", SECONDS)
    assert running.every_pod() == []
    assert "startTime" not in running.status()
    running.patch(suspend=False)
    running.runs(0, 1)
    until(lambda: running.status().get("startTime"), "startTime", SECONDS)


def test_a_pod_that_somebody_deletes_counts_as_failed_once_it_has_ended(start: Start) -> None:
    running = start(2, podReplacementPolicy="Failed", backoffLimit=0)
    pods = running.runs(0, 1)
    running.bind(*pods.values())
    running.cluster.delete(f"{PODS}/{pods[1]['metadata']['name']}")
    until(lambda: running.status()["terminating"] == 1, "one terminating", SECONDS)
    assert not running.condition("FailureTarget")
    running.report(pods[1], phase="Failed")
    until(lambda: running.condition("FailureTarget"), "FailureTarget", SECONDS)
    assert running.condition("FailureTarget")["reason"] == "BackoffLimitExceeded"
    for pod in pods.values():
        running.remove(pod)
    until(lambda: running.condition("Failed"), "Failed", SECONDS)
    assert running.condition("Failed")["message"] == "Job has reached the specified backoff limit"
    assert running.status()["failed"] == 2, "what ran when the Job failed has failed too"
    assert running.status()["uncountedTerminatedPods"] == {}
    assert "active" not in running.status()


def test_where_a_pod_is_replaced_while_it_ends_its_deletion_counts_at_once(start: Start) -> None:
    running = start(2, podReplacementPolicy="TerminatingOrFailed", backoffLimit=3)
    pods = running.runs(0, 1)
    running.bind(*pods.values())
    running.cluster.delete(f"{PODS}/{pods[1]['metadata']['name']}")
    until(lambda: running.status().get("failed") == 1, "one failed", SECONDS)
    uids = [pod["metadata"]["uid"] for pod in running.every_pod()]
    assert pods[1]["metadata"]["uid"] in uids, "it has not ended"


RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [128]}},
    {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
]


def exited(code: int) -> dict[str, Any]:
    """The status of container `main` after this exit code."""
    state = {"terminated": {"exitCode": code, "reason": "Error"}}
    image = {"image": "x", "imageID": "x", "ready": False, "restartCount": 0}
    return {"containerStatuses": [{"name": "main", "state": state, **image}]}


def test_failures_that_the_policy_ignores_are_not_counted(start: Start) -> None:
    evicted, killed = (start(2, podFailurePolicy={"rules": RULES}, backoffLimit=0) for _ in range(2))
    gone = [running.runs(0, 1)[1] for running in (evicted, killed)]
    evicted.bind(gone[0])
    evicted.evict(gone[0])
    evicted.report(gone[0], phase="Failed")
    evicted.remove(gone[0])
    killed.report(gone[1], phase="Failed", **exited(128))
    for running, pod in zip((evicted, killed), gone, strict=True):
        assert running.runs(0, 1)[1]["metadata"]["uid"] != pod["metadata"]["uid"]
        assert "failed" not in running.status()


def test_an_exit_code_may_end_the_job(start: Start) -> None:
    running = start(2, podFailurePolicy={"rules": RULES})
    pods = running.runs(0, 1)
    running.report(pods[1], phase="Failed", **exited(42))
    until(lambda: running.condition("Failed"), "Failed", SECONDS)
    failed = running.condition("Failed")
    assert failed["reason"] == "PodFailurePolicy"
    pod = f"default/{pods[1]['metadata']['name']}"
    assert (
        failed["message"]
        == f"Container main for pod {pod} failed with exit code 42 matching FailJob rule at index 2"
    )
    until(lambda: not running.pods(), "no pods", SECONDS)


def test_failures_up_to_the_limit_are_counted_and_replaced(start: Start) -> None:
    running = start(2, backoffLimit=1)
    pods = running.runs(0, 1)
    running.report(pods[0], phase="Failed", **exited(1))
    again = running.runs(0, 1)
    # The real one's 10 s run from the pod's creation: the next pod may come before this one is counted.
    until(lambda: running.status().get("failed") == 1, "one failed", SECONDS)
    running.report(again[0], phase="Failed", **exited(1))
    until(lambda: running.condition("Failed"), "Failed", SECONDS)
    assert running.condition("Failed")["reason"] == "BackoffLimitExceeded"


def test_a_job_is_complete_when_each_index_succeeded(start: Start) -> None:
    running = start(4)
    pods = running.runs(0, 1, 2, 3)
    for index, shown in ((0, "0"), (2, "0,2"), (1, "0-2")):
        running.report(pods[index], phase="Succeeded")
        running.until_done(shown)
    assert running.status()["succeeded"] == 3
    running.runs(3)
    running.report(pods[3], phase="Succeeded")
    until(lambda: running.condition("Complete"), "Complete", SECONDS)
    status = running.status()
    assert (status["succeeded"], status["completedIndexes"], status["ready"], status["terminating"]) == (
        4,
        "0-3",
        0,
        0,
    )
    assert status["completionTime"]
    assert running.condition("SuccessCriteriaMet")["reason"] == "CompletionsReached"
    assert all(TRACKING not in pod["metadata"].get("finalizers", ()) for pod in running.every_pod())


def test_an_index_that_succeeded_leaves_and_comes_back_runs_again(start: Start) -> None:
    running = start(3)
    running.report(running.runs(0, 1, 2)[2], phase="Succeeded")
    running.until_done("2")
    running.patch(parallelism=2, completions=2)
    running.until_done("")
    running.patch(parallelism=3, completions=3)
    running.runs(0, 1, 2)


def test_a_narrow_job_runs_its_indexes_in_their_order(start: Start) -> None:
    running = start(5, parallelism=2)
    pods = running.runs(0, 1)
    running.report(pods[1], phase="Succeeded")
    running.runs(0, 2)
    running.patch(parallelism=3)
    running.runs(0, 2, 3)
    running.patch(parallelism=0)
    running.runs()
    assert running.status()["completedIndexes"] == "1"


def test_without_indexes_successes_are_counted(start: Start) -> None:
    running = start(2, completionMode="NonIndexed")
    until(lambda: len(running.every_pod()) == 2, "two pods", SECONDS)
    for pod in running.every_pod():
        assert INDEX not in pod["metadata"]["labels"]
        running.report(pod, phase="Succeeded")
    until(lambda: running.condition("Complete"), "Complete", SECONDS)
    assert running.status()["succeeded"] == 2


def test_pods_that_are_refused_are_shown_by_events(start: Start) -> None:
    body = {"metadata": {"annotations": {"vgpu.io/grant": "{}"}}}
    running = start(2, suspend=True)
    assert running.cluster.patch(running.path, {"spec": {"template": body, "suspend": False}}).code == 200
    until(lambda: running.events("FailedCreate"), "FailedCreate", SECONDS)
    assert running.events("FailedCreate")[0].startswith("Error creating: pods ")
    assert "ValidatingAdmissionPolicy 'vgpu-grants'" in running.events("FailedCreate")[0]
    assert running.every_pod() == []
    assert "active" not in running.status()


def test_what_a_quota_leaves_runs_and_events_name_the_quota(
    cluster: Cluster, name: str, start: Start
) -> None:
    resource = f"example.com/{name}"
    quota = {"metadata": {"name": name}, "spec": {"hard": {f"requests.{resource}": "2"}}}
    assert cluster.post(QUOTAS, quota).code == 201

    asking = objects.pod(unique(), {resource: 3})

    def too_much() -> bool:
        # Until the real one has counted what is there, it accepts all or refuses all.
        return "exceeded quota" in cluster.post(f"{PODS}?dryRun=All", asking).body.get("message", "")

    until(too_much, "the quota holds", SECONDS)
    running = start(3, pod={"containers": [container(limits={resource: 1})]})
    # The second and the third are created at once: one of them is refused.
    until(lambda: running.status().get("active") == 2, "active: 2", SECONDS)
    assert len(running.pods()) == 2
    counts = {"requested": 1, "used": 2, "limited": 2}
    amounts = ", ".join(f"{word}: requests.{resource}={count}" for word, count in counts.items())
    text = f"is forbidden: exceeded quota: {name}, {amounts}"
    until(lambda: any(text in message for message in running.events("FailedCreate")), "FailedCreate", SECONDS)
    cluster.delete(f"{QUOTAS}/{name}")
    running.runs(0, 1, 2)


def test_an_annotation_reaches_a_pod_through_its_status_and_stays(start: Start) -> None:
    running = start(1)
    pod = running.runs(0)[0]
    change = {"metadata": {"uid": pod["metadata"]["uid"], "annotations": {"example.com/checkpoint": "1"}}}
    assert running.cluster.patch(f"{PODS}/{pod['metadata']['name']}/status", change).code == 200
    running.ready(pod, 1)
    until(lambda: running.status()["ready"] == 1, "ready", SECONDS)
    assert running.pods()[0]["metadata"]["annotations"]["example.com/checkpoint"] == "1"


def test_in_the_background_a_deleted_jobs_pods_follow_it(start: Start) -> None:
    running = start(2)
    running.runs(0, 1)
    assert running.cluster.delete(f"{running.path}?propagationPolicy=Background").code == 200
    assert running.cluster.get(running.path).code == 404
    until(lambda: not running.every_pod(), "no pods", SECONDS)


def test_in_the_foreground_a_deleted_job_waits_for_its_pods(start: Start) -> None:
    running = start(1)
    pod = running.runs(0)[0]
    running.bind(pod)
    assert running.cluster.delete(f"{running.path}?propagationPolicy=Foreground").code == 200
    until(lambda: "deletionTimestamp" in running.every_pod()[0]["metadata"], "the pod is deleted", SECONDS)
    assert running.cluster.get(running.path).body["metadata"]["finalizers"] == ["foregroundDeletion"]
    running.report(pod, phase="Failed")
    running.remove(pod)
    until(lambda: running.cluster.get(running.path).code == 404, "the Job is gone", SECONDS)


@pytest.mark.parametrize("query", ["", "?propagationPolicy=Orphan"])
def test_otherwise_a_deleted_job_leaves_its_pods(start: Start, query: str) -> None:
    running = start(1)
    pod = running.runs(0)[0]
    running.cluster.delete(f"{running.path}{query}")
    until(lambda: running.cluster.get(running.path).code == 404, "the Job is gone", SECONDS)
    (left,) = running.every_pod()
    assert left["metadata"]["uid"] == pod["metadata"]["uid"]
    assert "ownerReferences" not in left["metadata"]
    until(lambda: "finalizers" not in running.every_pod()[0]["metadata"], "no finalizer", SECONDS)


def test_another_controllers_job_is_left_alone(start: Start) -> None:
    other, own = start(1, managedBy="example.com/other"), start(1)
    own.runs(0)
    assert other.every_pod() == []
    assert other.status() == {}


@since("1.36", "a changeable template after a suspension")
def test_a_job_that_was_suspended_may_go_elsewhere(start: Start) -> None:
    running = start(1)
    running.runs(0)
    change = {"spec": {"template": {"spec": {"nodeSelector": {"zone": "a"}}}}}
    assert "field is immutable" in running.cluster.patch(running.path, change).message
    running.patch(suspend=True)
    running.runs()
    until(lambda: running.cluster.patch(running.path, change).code == 200, "another place", SECONDS)
