"""Bindings: one write that gives a pod its node and its grant."""

import pytest

from tests.builders.objects import binding
from tests.contract.cluster import PODS, Cluster, nowhere
from tests.release import before

NOTE = "example.com/note"


@pytest.mark.parametrize("route", ["binding", "bindings"])
def test_node_annotations_and_labels_appear_in_one_write(
    cluster: Cluster, name: str, pending: str, route: str
) -> None:
    cluster.patch(pending, {"metadata": {"labels": {"example.com/kept": "b", NOTE: "before"}}})
    version = cluster.get(pending).version
    body = binding(name, nowhere(name), annotations={NOTE: "a"}, labels={NOTE: "c"})
    where = f"{pending}/binding" if route == "binding" else "/api/v1/namespaces/default/bindings"
    with cluster.watch(PODS, resourceVersion=version, fieldSelector=f"metadata.name={name}") as watch:
        answer = cluster.post(where, body, "allocator")
        assert (answer.code, answer.body["status"]) == (201, "Success")
        ((kind, seen),) = watch.take(1)
    assert kind == "MODIFIED"
    assert seen["spec"]["nodeName"] == nowhere(name)
    assert seen["metadata"]["annotations"][NOTE] == "a"
    labels = {
        key: value for key, value in seen["metadata"]["labels"].items() if key.startswith("example.com/")
    }
    # Before Kubernetes 1.35 labels of a Binding are left out.
    note = "before" if before("1.35") else "c"
    assert labels == {"example.com/kept": "b", NOTE: note}, "the Binding's take the place"
    scheduled = [item for item in seen["status"]["conditions"] if item["type"] == "PodScheduled"]
    assert [item["status"] for item in scheduled] == ["True"]


def test_a_pod_is_bound_once(cluster: Cluster, name: str, pending: str) -> None:
    cluster.post(f"{pending}/binding", binding(name, nowhere(name)))
    answer = cluster.post(f"{pending}/binding", binding(name, "n2", annotations={NOTE: "b"}))
    assert answer.refusal == (409, "Conflict")
    assert answer.message.endswith(f'pod {name} is already assigned to node "{nowhere(name)}"')
    assert NOTE not in cluster.get(pending).body["metadata"].get("annotations", {})


def test_a_binding_for_another_incarnation_is_refused(cluster: Cluster, name: str, pending: str) -> None:
    body = binding(name, nowhere(name), uid="00000000-0000-0000-0000-000000000000")
    answer = cluster.post(f"{pending}/binding", body)
    assert answer.refusal == (409, "Conflict")
    assert "Precondition failed: UID in precondition" in answer.message
    assert "nodeName" not in cluster.get(pending).body["spec"]
    body["metadata"]["uid"] = cluster.get(pending).body["metadata"]["uid"]
    assert cluster.post(f"{pending}/binding", body).code == 201


def test_a_pod_that_is_being_deleted_is_not_bound(cluster: Cluster, name: str, pending: str) -> None:
    cluster.patch(pending, {"metadata": {"finalizers": ["example.com/keep"]}})
    cluster.delete(pending)
    answer = cluster.post(f"{pending}/binding", binding(name, nowhere(name)))
    assert answer.refusal == (409, "Conflict")
    assert "is being deleted, cannot be assigned to a host" in answer.message
    cluster.patch(pending, {"metadata": {"finalizers": None}})


def test_a_pod_that_is_not_there_is_not_bound(cluster: Cluster, name: str, path: str) -> None:
    assert cluster.post(f"{path}/binding", binding(name, nowhere(name))).refusal == (404, "NotFound")


def test_the_name_in_the_path_must_be_the_name_in_the_body(cluster: Cluster, pending: str) -> None:
    answer = cluster.post(f"{pending}/binding", binding("another", "no-node"))
    assert answer.refusal == (400, "BadRequest")
