"""Evictions: deletions that respect disruption budgets."""

from typing import Any

from tests.builders.objects import binding
from tests.contract.cluster import Cluster, nowhere


def eviction(name: str, **options: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        "deleteOptions": options,
    }


def test_a_running_pod_is_marked_and_keeps_its_grace(cluster: Cluster, name: str, pending: str) -> None:
    cluster.post(f"{pending}/binding", binding(name, nowhere(name)))
    answer = cluster.post(f"{pending}/eviction", eviction(name), "allocator")
    assert (answer.code, answer.body["status"]) == (201, "Success")
    metadata = cluster.get(pending).body["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" in metadata


def test_a_pod_says_that_it_was_evicted(cluster: Cluster, name: str, pending: str) -> None:
    cluster.post(f"{pending}/binding", binding(name, nowhere(name)))
    cluster.post(f"{pending}/eviction", eviction(name), "allocator")
    conditions = {item["type"]: item for item in cluster.get(pending).body["status"]["conditions"]}
    assert conditions["PodScheduled"]["status"] == "True"
    why = {"status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    assert conditions["DisruptionTarget"].items() >= why.items()


def test_a_pod_that_runs_nowhere_is_gone_at_once(cluster: Cluster, name: str, pending: str) -> None:
    assert cluster.post(f"{pending}/eviction", eviction(name)).code == 201
    assert cluster.get(pending).refusal == (404, "NotFound")


def test_another_incarnation_is_not_evicted(cluster: Cluster, name: str, pending: str) -> None:
    body = eviction(name, preconditions={"uid": "00000000-0000-0000-0000-000000000000"})
    answer = cluster.post(f"{pending}/eviction", body)
    assert answer.refusal == (409, "Conflict")
    assert "uid" in answer.message.lower()
    assert "deletionTimestamp" not in cluster.get(pending).body["metadata"]


def test_whether_a_pod_may_go_is_asked_without_sending_it_away(
    cluster: Cluster, name: str, pending: str
) -> None:
    asked = f"{pending}/eviction?dryRun=All"
    assert cluster.post(asked, eviction(name), "allocator").code == 201
    assert "deletionTimestamp" not in cluster.get(pending).body["metadata"]
    another = eviction(name, preconditions={"uid": "00000000-0000-0000-0000-000000000000"})
    assert cluster.post(asked, another).refusal == (409, "Conflict")


def test_the_name_in_the_path_must_be_the_name_in_the_body(cluster: Cluster, pending: str) -> None:
    assert cluster.post(f"{pending}/eviction", eviction("another")).refusal == (400, "BadRequest")


def test_a_pod_that_is_not_there_is_not_evicted(cluster: Cluster, name: str, path: str) -> None:
    assert cluster.post(f"{path}/eviction", eviction(name)).refusal == (404, "NotFound")
