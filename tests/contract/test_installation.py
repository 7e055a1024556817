"""What `vgpu check`, `vgpu quota` and people read of an installation, beside pods and nodes."""

from typing import Any

import pytest

from tests.builders.objects import pod
from tests.contract.cluster import PODS, Cluster
from tests.deadline import until

WORKLOADS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}
QUOTAS = "/api/v1/namespaces/default/resourcequotas"


@pytest.mark.parametrize("kind", WORKLOADS)
def test_a_workload_is_found_by_its_labels(cluster: Cluster, name: str, kind: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/{WORKLOADS[kind]}"
    assert cluster.post(path, workload(kind, name)).code == 201
    (found,) = cluster.get(f"{path}?labelSelector=app%3D{name}").body["items"]
    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "none:1"
    assert cluster.delete(f"{path}/{name}").code == 200
    assert cluster.get(f"{path}/{name}").refusal == (404, "NotFound")


def workload(kind: str, name: str) -> dict[str, Any]:
    """A workload that has no pods."""
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": "none:1"}], "nodeSelector": {"nowhere": "true"}}
    return {
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec},
            **({"replicas": 0} if kind == "Deployment" else {}),
        },
    }  # fmt: skip


def test_the_policies_can_be_read(cluster: Cluster) -> None:
    group = "/apis/admissionregistration.k8s.io/v1"
    policies = cluster.get(f"{group}/validatingadmissionpolicies").body["items"]
    bindings = cluster.get(f"{group}/validatingadmissionpolicybindings").body["items"]
    assert "vgpu-grants" in [each["metadata"]["name"] for each in policies]
    assert "vgpu-grants" in [each["spec"]["policyName"] for each in bindings]


def test_the_server_says_its_version(cluster: Cluster) -> None:
    assert cluster.get("/version").body["gitVersion"].startswith("v1.")


def test_who_asks_is_told(cluster: Cluster) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = cluster.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", body, "tenant")
    assert (answer.code, answer.body["status"]["userInfo"]["username"]) == (201, "jane")


def test_who_may_is_told(cluster: Cluster) -> None:
    asked = {"verb": "list", "version": "v1", "resource": "pods"}
    body = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }  # fmt: skip
    answer = cluster.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
    assert (answer.code, answer.body["status"]["allowed"]) == (201, True)


def test_whose_token_it_is_is_told(cluster: Cluster) -> None:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "nobody's"}}
    answer = cluster.post("/apis/authentication.k8s.io/v1/tokenreviews", body)
    status = answer.body["status"]
    assert (answer.code, status.get("authenticated", False), status["user"]) == (201, False, {})
    assert "invalid bearer token" in status["error"]


@pytest.mark.parametrize("namespace", ["", "default"])
@pytest.mark.parametrize("groups", [[], ["system:masters"]])
def test_what_another_user_may_is_told(cluster: Cluster, groups: list[str], namespace: str) -> None:
    asked = {
        "verb": "list",
        "version": "v1",
        "resource": "pods",
        **({"namespace": namespace} if namespace else {}),
    }
    body = {
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "stranger", "groups": groups, "resourceAttributes": asked},
    }  # fmt: skip
    answer = cluster.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    assert (answer.code, answer.body["status"]["allowed"]) == (201, bool(groups))


def test_a_quota_says_what_is_used(cluster: Cluster, name: str) -> None:
    quota = {"metadata": {"name": name}, "spec": {"hard": {"requests.example.com/thing": "8"}}}
    path = f"{QUOTAS}/{name}"
    limits = {"example.com/thing": "3"}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    assert cluster.post(QUOTAS, quota).code == 201

    def used() -> tuple[str, ...]:
        status = cluster.get(path).body.get("status", {})
        return tuple(status.get(part, {}).get("requests.example.com/thing", "") for part in ("used", "hard"))

    # The real controller counts pods when they end; until a quota has a status, pods may not be counted at all.
    until(lambda: used() == ("0", "8"), "the status of a new quota")
    assert cluster.post(PODS, pod(name, schedulerName="nobody", containers=[container])).code == 201
    until(lambda: used() == ("3", "8"), "the use of a pod")
    cluster.delete(f"{PODS}/{name}?gracePeriodSeconds=0")
    until(lambda: used() == ("0", "8"), "the end of a pod")
    cluster.delete(path)
