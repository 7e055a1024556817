"""Objects of any kind: create, read, replace, patch, delete, and the refusals that clients tell apart."""

import ssl

import pytest

from tests.builders.objects import node, pod
from tests.contract.cluster import LEASES, PODS, Cluster, unique

NODES = "/api/v1/nodes"
META = "g=meta.k8s.io;v=v1"


def lease(name: str) -> dict[str, object]:
    """What no controller of a real cluster writes to, as they do to nodes."""
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}


def test_a_created_object_has_identity_and_version(cluster: Cluster, name: str) -> None:
    answer = cluster.post(LEASES, lease(name))
    assert answer.code == 201
    assert (answer.body["kind"], answer.body["apiVersion"]) == ("Lease", "coordination.k8s.io/v1")
    assert {"uid", "resourceVersion", "creationTimestamp"} <= answer.body["metadata"].keys()
    assert cluster.get(f"{LEASES}/{name}").body == answer.body


def test_a_name_can_be_taken_only_once(cluster: Cluster, name: str) -> None:
    cluster.post(NODES, node(name))
    answer = cluster.post(NODES, node(name))
    assert answer.refusal == (409, "AlreadyExists")
    assert answer.message == f'nodes "{name}" already exists'


def test_a_dry_run_checks_an_object_and_stores_nothing(cluster: Cluster, name: str) -> None:
    answer = cluster.post(f"{PODS}?dryRun=All", pod(name))
    assert (answer.code, answer.body["kind"], answer.body["metadata"]["name"]) == (201, "Pod", name)
    assert cluster.get(f"{PODS}/{name}").refusal == (404, "NotFound")
    generated = {**pod(name), "metadata": {"generateName": f"{name}-"}}
    assert cluster.post(f"{PODS}?dryRun=All", generated).body["metadata"]["name"].startswith(f"{name}-")


def test_what_is_not_there_is_not_found(cluster: Cluster, name: str) -> None:
    answer = cluster.get(f"{PODS}/{name}")
    assert answer.refusal == (404, "NotFound")
    assert answer.message == f'pods "{name}" not found'
    assert answer.body["details"] == {"name": name, "kind": "pods"}


def test_details_name_the_group(cluster: Cluster, name: str) -> None:
    answer = cluster.get(f"{LEASES}/{name}")
    assert answer.message == f'leases.coordination.k8s.io "{name}" not found'
    assert answer.body["details"] == {"name": name, "group": "coordination.k8s.io", "kind": "leases"}


def test_a_path_that_is_not_served_is_not_found(cluster: Cluster) -> None:
    answer = cluster.get("/api/v1/namespaces/default/unicorns")
    assert answer.refusal == (404, "NotFound")
    assert answer.message == "the server could not find the requested resource"


def test_a_collection_cannot_be_replaced(cluster: Cluster) -> None:
    assert cluster.put(PODS, {}).refusal == (405, "MethodNotAllowed")


def test_a_body_that_is_not_json_is_a_bad_request(cluster: Cluster) -> None:
    assert cluster.post(NODES, "not an object").refusal == (400, "BadRequest")


def test_a_body_of_another_kind_is_a_bad_request(cluster: Cluster, name: str) -> None:
    assert cluster.post(PODS, node(name)).refusal == (400, "BadRequest")


def test_a_malformed_name_is_invalid(cluster: Cluster) -> None:
    answer = cluster.post(NODES, node("Not_A_Name"))
    assert answer.refusal == (422, "Invalid")
    assert "metadata.name: Invalid value" in answer.message


@pytest.mark.parametrize("value", ["two words", "-1", "a" * 64])
def test_a_malformed_label_is_invalid(cluster: Cluster, name: str, value: str) -> None:
    body = node(name, labels={"example.com/group": value})
    answer = cluster.post(NODES, body)
    assert answer.refusal == (422, "Invalid")
    assert f'metadata.labels: Invalid value: "{value}": ' in answer.message


def test_annotations_are_limited_to_256_kib(cluster: Cluster, name: str) -> None:
    body = node(name, annotations={"big": "x" * (256 * 1024)})
    answer = cluster.post(NODES, body)
    assert answer.refusal == (422, "Invalid")
    assert "may not be more than 262144 bytes" in answer.message


def test_a_namespace_must_exist(cluster: Cluster, name: str) -> None:
    answer = cluster.post(f"/api/v1/namespaces/{name}/pods", pod("p"))
    assert answer.refusal == (404, "NotFound")
    assert answer.message == f'namespaces "{name}" not found'


def test_the_namespace_of_body_and_path_must_agree(cluster: Cluster, name: str) -> None:
    body = pod(name)
    body["metadata"]["namespace"] = "kube-system"
    assert cluster.post(PODS, body).refusal == (400, "BadRequest")


def test_a_stale_put_is_a_conflict(cluster: Cluster, name: str) -> None:
    first = cluster.post(LEASES, lease(name)).body
    changed = first | {"metadata": first["metadata"] | {"labels": {"a": "1"}}}
    assert cluster.put(f"{LEASES}/{name}", changed).code == 200
    answer = cluster.put(f"{LEASES}/{name}", first)
    assert answer.refusal == (409, "Conflict")
    assert "the object has been modified; please apply your changes to the latest version" in answer.message


def test_a_put_under_another_name_is_a_bad_request(cluster: Cluster, name: str) -> None:
    cluster.post(NODES, node(name))
    assert cluster.put(f"{NODES}/{name}", node(unique())).refusal == (400, "BadRequest")


def test_a_write_that_changes_nothing_makes_no_version(cluster: Cluster, name: str) -> None:
    first = cluster.post(LEASES, lease(name))
    assert cluster.put(f"{LEASES}/{name}", first.body).version == first.version
    assert cluster.patch(f"{LEASES}/{name}", {"metadata": {"labels": {}}}).code == 200
    assert cluster.get(f"{LEASES}/{name}").version == first.version


def test_identity_survives_a_put_that_leaves_it_out(cluster: Cluster, name: str) -> None:
    first = cluster.post(NODES, node(name)).body["metadata"]
    after = cluster.put(f"{NODES}/{name}", node(name)).body["metadata"]
    assert (after["uid"], after["creationTimestamp"]) == (first["uid"], first["creationTimestamp"])


def test_a_merge_patch_sets_and_null_removes(cluster: Cluster, name: str) -> None:
    cluster.post(NODES, node(name))
    cluster.patch(f"{NODES}/{name}", {"metadata": {"annotations": {"a": "1", "b": "2"}}})
    after = cluster.patch(f"{NODES}/{name}", {"metadata": {"annotations": {"a": None}}})
    assert after.body["metadata"]["annotations"].get("b") == "2"
    assert "a" not in after.body["metadata"]["annotations"]


def test_a_strategic_patch_of_maps_is_a_merge_patch(cluster: Cluster, name: str) -> None:
    cluster.post(NODES, node(name))
    media = "application/strategic-merge-patch+json"
    after = cluster.patch(f"{NODES}/{name}", {"metadata": {"labels": {"a": "1"}}}, media=media)
    assert after.body["metadata"]["labels"]["a"] == "1"


def test_a_patch_in_an_unknown_format_is_refused(cluster: Cluster, name: str) -> None:
    cluster.post(NODES, node(name))
    answer = cluster.patch(f"{NODES}/{name}", {}, media="application/json")
    assert answer.refusal == (415, "UnsupportedMediaType")


def test_a_node_and_its_status_are_written_by_different_routes(cluster: Cluster, name: str) -> None:
    cluster.post(NODES, node(name) | {"status": {"allocatable": {"hygon.com/dcu-mem": "16"}}})
    cluster.patch(f"{NODES}/{name}", {"status": {"allocatable": {"hygon.com/dcu-mem": "1"}}})
    assert cluster.get(f"{NODES}/{name}").body["status"]["allocatable"]["hygon.com/dcu-mem"] == "16"
    change = {"status": {"allocatable": {"hygon.com/dcu-mem": "2"}}, "spec": {"unschedulable": True}}
    cluster.patch(f"{NODES}/{name}/status", change)
    after = cluster.get(f"{NODES}/{name}").body
    assert after["status"]["allocatable"]["hygon.com/dcu-mem"] == "2"
    assert not after.get("spec", {}).get("unschedulable")


def test_deleting_answers_with_what_was_deleted(cluster: Cluster, name: str) -> None:
    uid = cluster.post(NODES, node(name)).body["metadata"]["uid"]
    answer = cluster.delete(f"{NODES}/{name}")
    assert (answer.code, answer.body["status"]) == (200, "Success")
    assert answer.body["details"] == {"name": name, "kind": "nodes", "uid": uid}
    assert cluster.get(f"{NODES}/{name}").code == 404


def test_a_lease_can_be_put_into_being_and_then_only_with_its_version(cluster: Cluster, name: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}
    created = cluster.put(f"{LEASES}/{name}", body)
    assert created.code == 201
    answer = cluster.put(f"{LEASES}/{name}", body)
    assert answer.refusal == (422, "Invalid")
    assert "metadata.resourceVersion" in answer.message
    taken = created.body | {"spec": created.body["spec"] | {"holderIdentity": "b"}}
    assert cluster.put(f"{LEASES}/{name}", taken).code == 200
    assert cluster.put(f"{LEASES}/{name}", taken).refusal == (409, "Conflict")


def test_an_event_may_have_its_name_made(cluster: Cluster, name: str) -> None:
    about = {"kind": "Pod", "name": name, "namespace": "default"}
    body = {"metadata": {"generateName": "x."}, "involvedObject": about, "reason": "R", "message": "m"}
    made = cluster.post("/api/v1/namespaces/default/events", body)
    assert made.code == 201
    assert made.body["metadata"]["name"].startswith("x.")
    assert len(made.body["metadata"]["name"]) == len("x.") + 5


def test_an_event_lives_beside_what_it_is_about(cluster: Cluster, name: str) -> None:
    about = {"kind": "Pod", "name": name, "namespace": "kube-system"}
    body = {"metadata": {"name": name}, "involvedObject": about, "reason": "R", "message": "m"}
    answer = cluster.post("/api/v1/namespaces/default/events", body)
    assert answer.refusal == (422, "Invalid")
    assert "does not match event.namespace" in answer.message


def test_a_list_says_its_version_and_selects(cluster: Cluster, name: str) -> None:
    body = node(name, labels={"test": name, "tier": "a"})
    created = cluster.post(NODES, body)
    for query in (f"labelSelector=test%3D{name}", f"labelSelector=test+in+({name}),tier+notin+(b)",
                  f"labelSelector=test={name},tier,!absent", f"fieldSelector=metadata.name%3D{name}"):  # fmt: skip
        found = cluster.get(f"{NODES}?{query}").body
        assert found["kind"] == "NodeList"
        assert int(found["metadata"]["resourceVersion"]) >= int(created.version)
        assert [item["metadata"]["name"] for item in found["items"]] == [name], query
    assert cluster.get(f"{NODES}?labelSelector=test={name},tier!=a").body["items"] == []


def test_a_list_goes_on_where_its_page_ended_and_is_of_one_moment(cluster: Cluster, name: str) -> None:
    names = [f"{name}-{n}" for n in range(5)]
    for each in names:
        cluster.post(NODES, node(each, labels={"test": name}))
    selected = f"{NODES}?labelSelector=test={name}&limit=2"
    first = cluster.get(selected).body
    cluster.post(NODES, node(f"{name}-4a", labels={"test": name}))
    second = cluster.get(f"{selected}&continue={first['metadata']['continue']}").body
    third = cluster.get(f"{selected}&continue={second['metadata']['continue']}").body
    pages = [first, second, third]
    assert [[item["metadata"]["name"] for item in page["items"]] for page in pages] == [
        names[:2],
        names[2:4],
        names[4:],
    ]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert not third["metadata"].get("continue")


def test_of_objects_the_metadata_alone_can_be_had(cluster: Cluster, name: str) -> None:
    body = lease(name)
    body["metadata"] = {"name": name, "labels": {"test": name}}
    made = cluster.post(LEASES, body).body["metadata"]
    one = cluster.get(f"{LEASES}/{name}", accept=f"application/json;as=PartialObjectMetadata;{META}").body
    assert one == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": made}
    many = f"application/json;as=PartialObjectMetadataList;{META}, application/json"
    found = cluster.get(f"{LEASES}?labelSelector=test={name}", accept=many).body
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [{"metadata": item["metadata"]} | item for item in found["items"]] == found["items"] == [one]
    assert found["metadata"]["resourceVersion"]


def test_a_page_of_no_list_is_a_bad_request(cluster: Cluster) -> None:
    answer = cluster.get(f"{NODES}?limit=2&continue=nonsense")
    assert answer.refusal == (400, "BadRequest")
    assert "continue key is not valid" in answer.message


def test_a_field_that_is_no_field_label_is_a_bad_request(cluster: Cluster) -> None:
    answer = cluster.get(f"{PODS}?fieldSelector=spec.hostname=x")
    assert answer.refusal == (400, "BadRequest")
    assert answer.message.endswith("field label not supported: spec.hostname")


def test_an_unknown_token_is_unauthorized(cluster: Cluster) -> None:
    nobody = {"Authorization": "Bearer a-token-that-nobody-gave-out"}
    tls = ssl._create_unverified_context() if cluster.tls else None  # noqa: S323 - no certificate of ours either
    stranger = Cluster(cluster.address, {"admin": nobody}, cluster.forget, tls)
    assert stranger.get(NODES).refusal == (401, "Unauthorized")
    stranger.close()
