"""Jobs as objects: what the API server fills in, refuses, and lets be changed."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.builders.objects import container, job
from tests.contract.cluster import JOBS, Cluster, unique


@pytest.fixture
def path(cluster: Cluster, name: str) -> Iterator[str]:
    """Where the Job `name` is; it is suspended, so that no controller makes pods."""
    yield f"{JOBS}/{name}"
    cluster.delete(f"{JOBS}/{name}?propagationPolicy=Background")


@pytest.fixture
def suspended(cluster: Cluster, name: str, path: str) -> str:
    assert cluster.post(JOBS, job(name, 2, suspend=True)).code == 201
    return path


def test_defaults_are_filled_in(cluster: Cluster, name: str, path: str) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [container()]}}
    made = cluster.post(
        JOBS, {"metadata": {"name": name}, "spec": {"suspend": True, "template": template}}
    ).body
    assert (made["kind"], made["apiVersion"], made["metadata"]["generation"]) == ("Job", "batch/v1", 1)
    spec = made["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 1, 6)
    assert (spec["completionMode"], spec["podReplacementPolicy"]) == ("NonIndexed", "TerminatingOrFailed")
    assert spec["template"]["spec"]["schedulerName"] == "default-scheduler"
    assert cluster.get(path).body["spec"] == spec


def test_what_was_written_stays_without_a_default(cluster: Cluster, name: str, path: str) -> None:
    limited = job(name, 4, suspend=True, backoffLimitPerIndex=1)
    del limited["spec"]["parallelism"]
    spec = cluster.post(JOBS, limited).body["spec"]
    assert (spec["parallelism"], spec["completions"], spec["backoffLimit"]) == (1, 4, 2**31 - 1)
    cluster.delete(f"{path}?propagationPolicy=Background")


def test_without_completions_any_success_ends_a_job_and_its_width_may_change(
    cluster: Cluster, name: str, path: str
) -> None:
    spec = cluster.post(JOBS, job(name, suspend=True, completionMode="NonIndexed", completions=None)).body[
        "spec"
    ]
    assert "completions" not in spec
    assert cluster.patch(path, {"spec": {"parallelism": 3}}).body["spec"]["parallelism"] == 3


def test_a_failure_policy_lets_only_failed_pods_be_replaced(cluster: Cluster, name: str, path: str) -> None:
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    made = cluster.post(JOBS, job(name, suspend=True, podFailurePolicy={"rules": [rule]}))
    assert made.body["spec"]["podReplacementPolicy"] == "Failed"
    assert cluster.get(path).code == 200


def test_its_own_uid_selects_its_pods_and_the_pods_names_say_whose_they_are(
    cluster: Cluster, name: str, suspended: str
) -> None:
    made = cluster.get(suspended).body
    uid, spec = made["metadata"]["uid"], made["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
        "controller-uid": uid, "job-name": name,
    }  # fmt: skip


def test_the_priority_of_its_pods_is_not_settled_in_a_job(cluster: Cluster, name: str, path: str) -> None:
    made = cluster.post(JOBS, job(name, suspend=True, pod={"priorityClassName": "no-such-class"}))
    assert made.code == 201
    spec = cluster.get(path).body["spec"]["template"]["spec"]
    assert (spec["priorityClassName"], "priority" in spec) == ("no-such-class", False)


def test_a_job_without_labels_gets_those_of_its_pods(cluster: Cluster, name: str, path: str) -> None:
    body = job(name, suspend=True)
    body["spec"]["template"]["metadata"] = {"labels": {"app": "x"}}
    assert cluster.post(JOBS, body).body["metadata"]["labels"]["app"] == "x"
    assert "job-name" not in body["metadata"].get("labels", {})
    assert cluster.get(path).code == 200


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"completions": None}, "spec.completions: Required value: when completion mode is Indexed"),
        ({"parallelism": -1}, "spec.parallelism: Invalid value: -1: must be greater than or equal to 0"),
        ({"backoffLimit": -1}, "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0"),
        ({"template": {"spec": {"containers": [container()]}}},
         'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'),
        ({"template": {"spec": {"restartPolicy": "Never", "containers": []}}},
         "spec.template.spec.containers: Required value"),
        ({"completionMode": "NonIndexed", "backoffLimitPerIndex": 1},
         "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"),
        ({"podFailurePolicy": {"rules": []}, "podReplacementPolicy": "TerminatingOrFailed"},
         'spec.podReplacementPolicy: Unsupported value: "TerminatingOrFailed": supported values: "Failed"'),
    ],
)  # fmt: skip
def test_a_job_that_cannot_be_run_is_invalid(
    cluster: Cluster, name: str, spec: dict[str, Any], message: str
) -> None:
    answer = cluster.post(JOBS, job(name, **{"suspend": True, **spec}))
    assert answer.refusal == (422, "Invalid")
    assert f'Job.batch "{name}" is invalid' in answer.message
    assert message in answer.message


@pytest.mark.parametrize("long", ["x" * 62, "a.b"])
def test_the_names_of_its_pods_are_host_names(cluster: Cluster, long: str) -> None:
    answer = cluster.post(JOBS, job(long, suspend=True))
    assert answer.refusal == (422, "Invalid")
    said = f'metadata.name: Invalid value: "{long}": will not able to create pod with invalid DNS label: {long}-0'
    assert said in answer.message


def test_a_long_name_sets_a_limit_to_the_width(cluster: Cluster) -> None:
    long = unique("x").ljust(61, "x")
    assert cluster.post(JOBS, job(long, 9, suspend=True)).code == 201
    assert cluster.patch(f"{JOBS}/{long}", {"spec": {"completions": 10, "parallelism": 10}}).code == 200
    answer = cluster.patch(f"{JOBS}/{long}", {"spec": {"completions": 11, "parallelism": 11}})
    assert answer.refusal == (422, "Invalid")
    assert f"will not able to create pod with invalid DNS label: {long}-10" in answer.message
    cluster.delete(f"{JOBS}/{long}?propagationPolicy=Background")


def test_both_numbers_of_an_indexed_job_change_together(cluster: Cluster, suspended: str) -> None:
    made = cluster.patch(suspended, {"spec": {"completions": 5, "parallelism": 5}})
    assert (made.code, made.body["spec"]["completions"], made.body["metadata"]["generation"]) == (200, 5, 2)
    answer = cluster.patch(suspended, {"spec": {"completions": 4}})
    assert answer.refusal == (422, "Invalid")
    assert (
        "spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"
        in answer.message
    )
    assert cluster.patch(suspended, {"spec": {"parallelism": 3}}).body["spec"]["completions"] == 5


def test_completions_of_a_job_without_indexes_stay(cluster: Cluster, name: str, path: str) -> None:
    cluster.post(JOBS, job(name, 2, suspend=True, completionMode="NonIndexed"))
    answer = cluster.patch(path, {"spec": {"completions": 3, "parallelism": 3}})
    assert answer.refusal == (422, "Invalid")
    assert "spec.completions: Invalid value: 3: field is immutable" in answer.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("completionMode", "NonIndexed"),
        ("managedBy", "example.com/other"),
        ("backoffLimitPerIndex", 1),
        ("selector", {"matchLabels": {"a": "b"}}),
        ("successPolicy", {"rules": [{"succeededCount": 1}]}),
        (
            "podFailurePolicy",
            {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]},
        ),
    ],
)
def test_the_form_of_a_job_stays(cluster: Cluster, suspended: str, field: str, value: object) -> None:
    answer = cluster.patch(suspended, {"spec": {field: value}})
    assert answer.refusal == (422, "Invalid")
    assert f"spec.{field}: Invalid value: " in answer.message
    assert "field is immutable" in answer.message


@pytest.mark.parametrize(
    "change",
    [{"suspend": False}, {"backoffLimit": 9}, {"podReplacementPolicy": "Failed"}, {"parallelism": 1}],
)
def test_how_it_runs_may_change(cluster: Cluster, suspended: str, change: dict[str, Any]) -> None:
    after = cluster.patch(suspended, {"spec": change}).body
    assert after["spec"].items() >= change.items()
    assert after["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"nodeSelector": {"zone": "a"}}},
        {"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}},
        {"spec": {"schedulingGates": [{"name": "example.com/wait"}]}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"labels": {"a": "b"}}},
    ],
)
def test_before_it_begins_its_pods_places_may_change(
    cluster: Cluster, suspended: str, change: dict[str, Any]
) -> None:
    assert cluster.patch(suspended, {"spec": {"template": change}}).code == 200


def test_its_program_may_not_change(cluster: Cluster, suspended: str) -> None:
    change = {"spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}}}
    answer = cluster.patch(suspended, change)
    assert answer.refusal == (422, "Invalid")
    assert "spec.template" in answer.message
    assert "field is immutable" in answer.message


def test_a_job_and_its_status_are_written_by_different_routes(cluster: Cluster, suspended: str) -> None:
    cluster.patch(suspended, {"status": {"active": 5}})
    assert cluster.get(suspended).body["status"].get("active", 0) == 0
    change = {"spec": {"parallelism": 1}, "metadata": {"annotations": {"example.com/by": "status"}}}
    answer = cluster.patch(f"{suspended}/status", change)
    assert answer.code == 200
    after = cluster.get(suspended).body
    assert (after["spec"]["parallelism"], after["metadata"]["generation"]) == (2, 1)
    assert after["metadata"]["annotations"]["example.com/by"] == "status"


def test_jobs_are_listed_by_label_and_watched(cluster: Cluster, name: str, path: str) -> None:
    body = job(name, suspend=True)
    body["metadata"]["labels"] = {"test": name}
    version = cluster.post(JOBS, body).version
    (found,) = cluster.get(f"/apis/batch/v1/jobs?labelSelector=test={name}").body["items"]
    assert found["metadata"]["name"] == name
    with cluster.watch(JOBS, resourceVersion=version, labelSelector=f"test={name}") as watch:
        cluster.patch(path, {"metadata": {"annotations": {"example.com/a": "1"}}})
        seen = next(item for _, item in watch if item["metadata"].get("annotations"))
    assert seen["metadata"]["annotations"]["example.com/a"] == "1"


def test_a_deleted_job_waits_for_what_its_deletion_asks_for(
    cluster: Cluster, name: str, suspended: str
) -> None:
    cluster.patch(suspended, {"metadata": {"finalizers": ["example.com/keep"]}})
    answer = cluster.delete(f"{suspended}?propagationPolicy=Background")
    assert (answer.code, answer.body["kind"]) == (200, "Job")
    left = cluster.get(suspended).body["metadata"]
    assert left["finalizers"] == ["example.com/keep"]
    assert "deletionTimestamp" in left
    cluster.patch(suspended, {"metadata": {"finalizers": None}})
    assert cluster.get(suspended).refusal == (404, "NotFound")
    assert cluster.get(suspended).message == f'jobs.batch "{name}" not found'


def test_in_the_background_a_job_is_gone_at_once(cluster: Cluster, name: str, suspended: str) -> None:
    answer = cluster.delete(suspended, {"propagationPolicy": "Background"})
    assert (answer.code, answer.body["status"]) == (200, "Success")
    assert {"name": name, "group": "batch", "kind": "jobs"}.items() <= answer.body["details"].items()
    assert cluster.get(suspended).code == 404
