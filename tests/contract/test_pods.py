"""Pods: what the API server fills in and refuses, who writes which part, and how they end."""

import pytest

from tests.builders.objects import container, pod
from tests.contract.cluster import PODS, Cluster, bind, nowhere
from tests.deadline import until

MEM = "example.com/mem"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def test_defaults_are_filled_in(cluster: Cluster, name: str, path: str) -> None:
    created = cluster.post(PODS, pod(name)).body
    assert created["spec"]["schedulerName"] == "default-scheduler"
    assert created["spec"]["restartPolicy"] == "Always"
    assert created["spec"]["terminationGracePeriodSeconds"] == 30
    assert created["status"]["phase"] == "Pending"
    cluster.delete(f"{path}?gracePeriodSeconds=0")


@pytest.mark.parametrize(
    ("written", "stored"),
    [(4, "4"), ("4000", "4k"), ("4096", "4096"), ("2Ki", "2Ki"), ("2048Ki", "2Mi"), ("3e3", "3e3")],
)
def test_amounts_have_one_spelling_and_requests_equal_limits(
    cluster: Cluster, name: str, path: str, written: object, stored: str
) -> None:
    created = cluster.post(PODS, pod(name, {MEM: written})).body
    resources = created["spec"]["containers"][0]["resources"]
    assert resources == {"limits": {MEM: stored}, "requests": {MEM: stored}}
    cluster.delete(f"{path}?gracePeriodSeconds=0")


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"limits": {MEM: "1.5"}}, f'limits[{MEM}]: Invalid value: "1500m": must be an integer'),
        ({"limits": {MEM: "-1"}}, f'limits[{MEM}]: Invalid value: "-1": must be greater than or equal to 0'),
        ({"limits": {MEM: "2"}, "requests": {MEM: "1"}}, f"must be equal to {MEM} limit of 2"),
        ({"requests": {MEM: "1"}}, "Limit must be set for non overcommitable resources"),
    ],
)
def test_amounts_that_cannot_be_counted_are_invalid(
    cluster: Cluster, name: str, resources: dict[str, object], message: str
) -> None:
    answer = cluster.post(PODS, pod(name, containers=[container(resources=resources)]))
    assert answer.refusal == (422, "Invalid")
    assert f'Pod "{name}" is invalid' in answer.message
    assert message in answer.message


def test_the_class_of_a_pod_sets_its_priority(cluster: Cluster, name: str, path: str) -> None:
    polite = {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"}
    assert cluster.post(CLASSES, polite).code == 201

    def answered() -> int:
        return cluster.post(PODS, pod(name, priorityClassName=name, schedulerName="nobody")).code

    # The real one learns of a class by a watch.
    until(lambda: answered() == 201, seconds=30)
    spec = cluster.get(path).body["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    cluster.delete(f"{path}?gracePeriodSeconds=0")
    cluster.delete(f"{CLASSES}/{name}")


def test_there_must_be_such_a_class(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, pod(name, priorityClassName=name))
    assert answer.refusal == (403, "Forbidden")
    assert answer.message == f'pods "{name}" is forbidden: no PriorityClass with name {name} was found'


def test_an_amount_that_is_no_amount_is_a_bad_request(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, pod(name, {MEM: "four"}))
    assert answer.refusal == (400, "BadRequest")
    assert "quantities must match the regular expression" in answer.message


def test_a_pod_has_containers_with_names_of_their_own(cluster: Cluster, name: str) -> None:
    answer = cluster.post(PODS, pod(name, containers=[]))
    assert "spec.containers: Required value" in answer.message
    answer = cluster.post(PODS, pod(name, containers=[container(), container()]))
    assert 'spec.containers[1].name: Duplicate value: "main"' in answer.message


def test_what_a_pod_asks_for_is_settled_at_creation(cluster: Cluster, pending: str) -> None:
    changed = cluster.get(pending).body
    changed["spec"]["containers"][0]["resources"] = {"limits": {MEM: "1"}, "requests": {MEM: "1"}}
    answer = cluster.put(pending, changed)
    assert answer.refusal == (422, "Invalid")
    assert "pod updates may not change fields other than" in answer.message


def test_the_image_may_change_and_counts_as_a_generation(cluster: Cluster, pending: str) -> None:
    changed = cluster.get(pending).body
    changed["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.11"
    assert (
        cluster.put(pending, changed).body["metadata"]["generation"] == changed["metadata"]["generation"] + 1
    )


def test_a_pod_and_its_status_are_written_by_different_routes(cluster: Cluster, pending: str) -> None:
    cluster.patch(pending, {"status": {"phase": "Running"}})
    assert cluster.get(pending).body["status"]["phase"] == "Pending"
    change = {"status": {"phase": "Running"}, "metadata": {"annotations": {"by": "status"}}}
    assert cluster.patch(f"{pending}/status", change, role="kubelet").code == 200
    after = cluster.get(pending).body
    assert after["status"]["phase"] == "Running"
    # This is why admission looks at pods/status too.
    assert after["metadata"]["annotations"]["by"] == "status"


def test_the_allocator_touches_a_pod_by_its_status_and_no_other_of_that_name(
    cluster: Cluster, pending: str
) -> None:
    before = cluster.get(pending).body
    for time in ("1", "2"):
        change = {"metadata": {"uid": before["metadata"]["uid"], "annotations": {"vgpu.io/touched": time}}}
        assert cluster.patch(f"{pending}/status", change, "allocator").code == 200
    after = cluster.get(pending).body
    assert after["metadata"]["annotations"] == {
        **before["metadata"].get("annotations", {}), "vgpu.io/touched": "2"
    }  # fmt: skip
    assert (after["spec"], after["status"]) == (before["spec"], before["status"])
    other = {"metadata": {"uid": "00000000-0000-0000-0000-000000000000", "annotations": {"by": "other"}}}
    answer = cluster.patch(f"{pending}/status", other, "allocator")
    assert answer.refusal == (422, "Invalid")
    assert "metadata.uid" in answer.body["message"]
    assert cluster.get(pending).body == after


def test_nobody_creates_a_pod_that_already_ran(cluster: Cluster, name: str, path: str) -> None:
    created = cluster.post(PODS, pod(name, schedulerName="nobody") | {"status": {"phase": "Succeeded"}})
    assert created.body["status"]["phase"] == "Pending"
    cluster.delete(f"{path}?gracePeriodSeconds=0")


def test_an_ephemeral_container_comes_by_its_own_route(cluster: Cluster, pending: str) -> None:
    added = [{"name": "debug", "image": "i", "terminationMessagePolicy": "File", "imagePullPolicy": "Always"}]
    change = {"spec": {"ephemeralContainers": added}, "metadata": {"annotations": {"by": "debug"}}}
    after = cluster.patch(f"{pending}/ephemeralcontainers", change).body
    assert [item["name"] for item in after["spec"]["ephemeralContainers"]] == ["debug"]
    assert "by" not in after["metadata"].get("annotations", {})


def test_a_pod_without_a_node_goes_at_once(cluster: Cluster, pending: str) -> None:
    assert cluster.delete(pending).code == 200
    assert cluster.get(pending).code == 404


@pytest.fixture
def bound(cluster: Cluster, name: str, pending: str) -> str:
    """The path of a pod that has a node without a kubelet."""
    bind(cluster, pending, nowhere(name))
    return pending


def test_a_pod_with_a_node_is_marked_and_waits_for_its_kubelet(cluster: Cluster, bound: str) -> None:
    marked = cluster.delete(bound).body
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert "deletionTimestamp" in marked["metadata"]
    assert cluster.get(bound).body["metadata"]["deletionTimestamp"] == marked["metadata"]["deletionTimestamp"]
    assert cluster.delete(f"{bound}?gracePeriodSeconds=0").code == 200
    assert cluster.get(bound).code == 404


def test_a_second_delete_may_only_shorten_the_wait(cluster: Cluster, bound: str) -> None:
    cluster.delete(bound, {"gracePeriodSeconds": 20})
    assert (
        cluster.delete(bound, {"gracePeriodSeconds": 25}).body["metadata"]["deletionGracePeriodSeconds"] == 20
    )
    assert cluster.delete(bound).body["metadata"]["deletionGracePeriodSeconds"] == 20
    assert (
        cluster.delete(bound, {"gracePeriodSeconds": 5}).body["metadata"]["deletionGracePeriodSeconds"] == 5
    )


def test_a_pod_that_ended_goes_at_once(cluster: Cluster, bound: str) -> None:
    cluster.patch(f"{bound}/status", {"status": {"phase": "Failed"}}, role="kubelet")
    cluster.delete(bound)
    assert cluster.get(bound).code == 404


def test_a_deletion_can_insist_on_a_uid(cluster: Cluster, bound: str) -> None:
    other = {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}, "gracePeriodSeconds": 0}
    answer = cluster.delete(bound, other)
    assert answer.refusal == (409, "Conflict")
    assert "The object might have been deleted and then recreated" in answer.message
    own = {"preconditions": {"uid": cluster.get(bound).body["metadata"]["uid"]}, "gracePeriodSeconds": 0}
    assert cluster.delete(bound, own).code == 200


def test_a_finalizer_keeps_a_pod_until_it_is_taken_away(cluster: Cluster, pending: str) -> None:
    cluster.patch(pending, {"metadata": {"finalizers": ["example.com/keep"]}})
    cluster.delete(pending)
    assert "deletionTimestamp" in cluster.get(pending).body["metadata"]
    cluster.patch(pending, {"metadata": {"finalizers": None}})
    assert cluster.get(pending).code == 404
