"""Kubernetes' claim controller: it makes claims from templates, reserves them for bound pods, and frees them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.contract.claims import (
    CLAIMS,
    FINALIZER,
    TEMPLATES,
    USED,
    Object,
    allocation,
    consumer,
    give,
    result,
    spec,
    user,
)
from tests.contract.cluster import PODS, Cluster, bind, nowhere, unique
from tests.deadline import until
from tests.release import since

pytestmark = since("1.36", "a capacity that a claim consumes")

EVENTS = "/api/v1/namespaces/default/events"
ENTRY = "resource.kubernetes.io/pod-claim-name"
Make = Callable[..., Object]


@pytest.fixture
def template(cluster: Cluster, name: str) -> Iterator[str]:
    """The name of a template."""
    body = {"metadata": {"name": name}, "spec": {"metadata": {"labels": {"a": "1"}}, "spec": spec()}}
    assert cluster.post(TEMPLATES, body).code == 201
    yield name
    cluster.delete(f"{TEMPLATES}/{name}")


@pytest.fixture
def make(cluster: Cluster) -> Iterator[Make]:
    """Creates a pod that uses a claim of this template, or the claim of this path; it is removed afterwards."""
    made: list[str] = []

    def create(template: str = "", claim: str = "", **more: Any) -> Object:
        source = {"resourceClaimTemplateName": template}
        if claim:
            source = {"resourceClaimName": claim.rpartition("/")[2]}
        body = user(unique(), source, **more)
        made.append(where(body))
        answer = cluster.post(PODS, body)
        assert answer.code == 201, answer.body
        body_: Object = answer.body
        return body_

    yield create
    for path in made:
        cluster.delete(f"{path}?gracePeriodSeconds=0")


def where(pod: Object) -> str:
    """The path of a pod."""
    return f"{PODS}/{pod['metadata']['name']}"


def made_for(cluster: Cluster, pod: Object) -> str:
    """Return the path of the claim that was made for the pod, once the pod's status names it."""

    def names() -> list[Object]:
        found: list[Object] = cluster.get(where(pod)).body["status"].get("resourceClaimStatuses") or []
        return found

    until(lambda: bool(names()), f"a claim of {pod['metadata']['name']}")
    ((entry, name),) = ((each["name"], each["resourceClaimName"]) for each in names())
    assert entry == USED
    return f"{CLAIMS}/{name}"


def users(cluster: Cluster, path: str) -> list[Object]:
    """The pods for which the claim is reserved."""
    found: list[Object] = cluster.get(path).body["status"].get("reservedFor") or []
    return found


def is_free(cluster: Cluster, path: str) -> bool:
    """True if nothing is left of what the claim was given."""
    body = cluster.get(path).body
    return body["status"] == {} and "finalizers" not in body["metadata"]


def test_a_pod_gets_a_claim_of_its_own_from_a_template(cluster: Cluster, template: str, make: Make) -> None:
    pod = make(template)
    path = made_for(cluster, pod)
    made, name = cluster.get(path).body, pod["metadata"]["name"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": name,
        "uid": pod["metadata"]["uid"],
        "controller": True,
    }
    metadata = made["metadata"]
    assert metadata["name"].startswith(f"{name}-{USED}-")
    assert (metadata["ownerReferences"], metadata["labels"]) == ([owner], {"a": "1"})
    assert metadata["annotations"] == {ENTRY: USED}
    assert made["spec"]["devices"]["requests"][0]["exactly"]["capacity"] == {"requests": {"memory": "4Gi"}}
    other = made_for(cluster, make(template))
    assert other != path


def test_long_names_of_pod_and_claim_are_cut_in_proportion(cluster: Cluster, template: str) -> None:
    name = f"{unique()}-{'p' * 60}"[:68]
    body = user(name, {"resourceClaimTemplateName": template})
    entry = "g" * 40
    body["spec"]["resourceClaims"][0]["name"] = entry
    body["spec"]["containers"][0]["resources"]["claims"] = [{"name": entry}]
    assert cluster.post(PODS, body).code == 201
    until(lambda: "resourceClaimStatuses" in cluster.get(where(body)).body["status"], "the claim")
    (found,) = cluster.get(where(body)).body["status"]["resourceClaimStatuses"]
    assert found["resourceClaimName"][:-5] == f"{name[:35]}-{entry[:20]}"
    cluster.delete(f"{where(body)}?gracePeriodSeconds=0")


def test_a_pod_whose_template_is_missing_gets_its_claim_when_it_is_there(
    cluster: Cluster, name: str, make: Make
) -> None:
    pod = make(name)
    query = f"{EVENTS}?fieldSelector=involvedObject.name={pod['metadata']['name']}"
    until(lambda: bool(cluster.get(query).body["items"]), "an event")
    event = cluster.get(query).body["items"][0]
    assert (event["reason"], event["type"]) == ("FailedResourceClaimCreation", "Warning")
    missing = f'resourceclaimtemplate.resource.k8s.io "{name}" not found'
    assert event["message"] == f'PodResourceClaim {USED}: resource claim template "{name}": {missing}'
    assert cluster.post(TEMPLATES, {"metadata": {"name": name}, "spec": {"spec": spec()}}).code == 201
    made_for(cluster, pod)
    cluster.delete(f"{TEMPLATES}/{name}")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_claim_of_an_ended_pod_is_freed_and_deleted(
    cluster: Cluster, template: str, make: Make, phase: str
) -> None:
    pod = make(template)
    path = made_for(cluster, pod)
    give(cluster, path, pod)
    bind(cluster, where(pod), nowhere(pod["metadata"]["name"]))
    assert cluster.patch(f"{where(pod)}/status", {"status": {"phase": phase}}).code == 200
    until(lambda: cluster.get(path).code == 404, "the claim is gone")
    assert cluster.get(where(pod)).code == 200


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_the_claim_of_a_pod_that_is_gone_is_freed_and_deleted(
    cluster: Cluster, template: str, make: Make, given: bool, bound: bool
) -> None:
    pod = make(template)
    path = made_for(cluster, pod)
    if given:
        give(cluster, path, pod)
    if bound:
        bind(cluster, where(pod), nowhere(pod["metadata"]["name"]))
    assert cluster.delete(f"{where(pod)}?gracePeriodSeconds=0").code == 200
    until(lambda: cluster.get(path).code == 404, "the claim is gone")


def test_a_persons_claim_is_freed_and_stays(cluster: Cluster, named: str, make: Make) -> None:
    pod = make(claim=named)
    give(cluster, named, pod)
    cluster.delete(where(pod))
    until(lambda: is_free(cluster, named), "the claim is free")
    second = make(claim=named)
    give(cluster, named, second)
    assert users(cluster, named) == [consumer(second)]


def test_a_deleted_claim_is_gone_when_its_last_pod_has_ended(
    cluster: Cluster, named: str, make: Make
) -> None:
    pods = [make(claim=named) for _ in range(2)]
    give(cluster, named, *pods)
    assert cluster.delete(named).body["metadata"]["deletionTimestamp"]
    first, second = pods
    cluster.delete(where(first))
    until(lambda: users(cluster, named) == [consumer(second)], "the first is no user")
    cluster.delete(where(second))
    until(lambda: cluster.get(named).code == 404, "the claim is gone")


def test_a_reservation_for_a_pod_that_is_not_there_is_removed(cluster: Cluster, named: str) -> None:
    absent = {"metadata": {"name": unique(), "uid": "f8ffa9cb-dd44-4113-a42c-a1aa92ab5f6a"}}
    give(cluster, named, absent)
    until(lambda: is_free(cluster, named), "the claim is free")


def test_without_its_finalizer_a_claim_keeps_its_devices(cluster: Cluster, named: str, make: Make) -> None:
    pod = make(claim=named)
    status = {"allocation": allocation(result()), "reservedFor": [consumer(pod)]}
    assert cluster.patch(f"{named}/status", {"status": status}).code == 200
    cluster.delete(where(pod))
    until(lambda: not users(cluster, named), "the claim has no user")
    assert cluster.get(named).body["status"] == {"allocation": status["allocation"]}


def test_an_allocated_claim_is_reserved_for_each_bound_pod_that_names_it(
    cluster: Cluster, named: str, make: Make
) -> None:
    """A pod that is made with a node and another pod's claim is among its users: the kubelet may start it."""
    first = make(claim=named)
    give(cluster, named, first)
    bind(cluster, where(first), nowhere(first["metadata"]["name"]))
    second = make(claim=named, nodeName=nowhere(unique()))
    until(lambda: users(cluster, named) == [consumer(first), consumer(second)], "both are users")
    for pod in (first, second):
        assert FINALIZER in cluster.get(named).body["metadata"]["finalizers"]
        assert cluster.patch(f"{where(pod)}/status", {"status": {"phase": "Failed"}}).code == 200
    until(lambda: is_free(cluster, named), "the claim is free")


def test_a_bound_pod_that_gets_an_allocation_later_is_reserved_for(
    cluster: Cluster, template: str, make: Make
) -> None:
    """So nobody may clear the claim of a bound pod and give it to another one."""
    pod = make(template)
    path = made_for(cluster, pod)
    bind(cluster, where(pod), nowhere(pod["metadata"]["name"]))
    assert cluster.patch(f"{path}/status", {"status": {"allocation": allocation(result())}}).code == 200
    until(lambda: users(cluster, path) == [consumer(pod)], "the pod is a user")
    cluster.patch(f"{path}/status", {"status": None})
    assert cluster.patch(f"{path}/status", {"status": {"allocation": allocation(result())}}).code == 200
    until(lambda: users(cluster, path) == [consumer(pod)], "the pod is a user again")
