"""The kinds of resource.k8s.io: ResourceClaims, their templates, ResourceSlices and DeviceClasses."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.cluster import Cluster
from tests.release import since

pytestmark = since("1.36", "a capacity that a claim consumes")

GROUP = "/apis/resource.k8s.io/v1"
CLAIMS = f"{GROUP}/namespaces/default/resourceclaims"
TEMPLATES = f"{GROUP}/namespaces/default/resourceclaimtemplates"
CLASS = "contract.example.com"


def spec(**more: Any) -> dict[str, Any]:
    """What a claim of one slice asks for; `more` are further fields of its request."""
    exactly = {"deviceClassName": CLASS, "capacity": {"requests": {"memory": "4Gi"}}, **more}
    return {"devices": {"requests": [{"name": "slice", "exactly": exactly}]}}


def claim(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}, "spec": spec()}


@pytest.fixture
def made(cluster: Cluster, name: str) -> Iterator[dict[str, Any]]:
    """A claim that exists."""
    answer = cluster.post(CLAIMS, claim(name))
    assert answer.code == 201, answer.body
    yield answer.body
    cluster.patch(f"{CLAIMS}/{name}/status", {"status": None})
    cluster.patch(f"{CLAIMS}/{name}", {"metadata": {"finalizers": None}})
    cluster.delete(f"{CLAIMS}/{name}")


def test_a_request_without_a_mode_is_for_one_device(made: dict[str, Any]) -> None:
    (request,) = made["spec"]["devices"]["requests"]
    assert (request["exactly"]["allocationMode"], request["exactly"]["count"]) == ("ExactCount", 1)


def test_the_spec_of_a_claim_stays(cluster: Cluster, name: str, made: dict[str, Any]) -> None:
    answer = cluster.put(f"{CLAIMS}/{name}", made | {"spec": spec(count=2)})
    assert answer.refusal == (422, "Invalid")
    assert answer.message.startswith(
        f'ResourceClaim.resource.k8s.io "{name}" is invalid: spec: Invalid value: '
    )
    assert answer.message.endswith("field is immutable")


def test_the_spec_of_a_template_stays(cluster: Cluster, name: str) -> None:
    body = {"metadata": {"name": name}, "spec": {"spec": spec()}}
    written = cluster.post(TEMPLATES, body)
    assert written.code == 201, written.body
    (request,) = written.body["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["count"] == 1
    answer = cluster.put(f"{TEMPLATES}/{name}", written.body | {"spec": {"spec": spec(count=2)}})
    assert answer.refusal == (422, "Invalid")
    assert answer.message.endswith("field is immutable")
    assert cluster.delete(f"{TEMPLATES}/{name}").code == 200
