"""Who may say that a pod with a slice has ended: then its card is free, whatever its containers do."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from device_plugin.core.contract.annotations import TOUCHED
from tests.builders import objects
from tests.builders.objects import annotated, binding, pod
from tests.contract.asking import asking, container
from tests.contract.cluster import OWN_NODE, PODS, ROLES, Answer, Cluster, unique

# Of a family that no node has, so that nobody places it here.
ASKING = container(limits={"hygon.com/hcu-mem": "4"})
ENDERS = ("own kubelet", "garbage collector", "controller manager")
FORGERS = [role for role in ROLES if role not in ENDERS]
ENDS = ("Succeeded", "Failed")


@pytest.fixture(scope="module")
def home(cluster: Cluster) -> Iterator[str]:
    """The node of the role `own kubelet`, which has no kubelet."""
    made = cluster.post("/api/v1/nodes", objects.node(OWN_NODE))
    assert made.code in (201, 409), made.body
    yield OWN_NODE
    cluster.delete(f"/api/v1/nodes/{OWN_NODE}")


@pytest.fixture
def running(cluster: Cluster, home: str) -> Iterator[Callable[[dict[str, Any]], str]]:
    """A function that creates a pod, with which the path of its status runs on its node."""
    made: list[str] = []

    def create(body: dict[str, Any]) -> str:
        name = body["metadata"]["name"]
        path = f"{PODS}/{name}"
        made.append(path)
        assert cluster.post(PODS, body).code == 201
        assert cluster.post(f"{path}/binding", binding(name, home)).code == 201
        assert said(cluster, f"{path}/status", "Running", "own kubelet").code == 200
        return f"{path}/status"

    yield create
    for path in made:
        cluster.delete(f"{path}?gracePeriodSeconds=0")


def said(cluster: Cluster, status: str, phase: str, role: str) -> Answer:
    return cluster.patch(status, {"status": {"phase": phase}}, role)


def denied(answer: Answer) -> None:
    """Refused because of who writes: by this policy, by one that meets the role alone, or by RBAC."""
    assert answer.refusal == (403, "Forbidden"), answer.body


@pytest.mark.parametrize("phase", ENDS)
@pytest.mark.parametrize("role", ENDERS)
def test_its_kubelet_and_the_garbage_collector_end_a_pod(
    cluster: Cluster, running: Callable[[dict[str, Any]], str], role: str, phase: str
) -> None:
    status = running(asking(unique(), containers=[ASKING]))
    assert said(cluster, status, phase, role).body["status"]["phase"] == phase
    assert said(cluster, status, "Running", role).body["status"]["phase"] == "Running"


@pytest.mark.parametrize("phase", ENDS)
@pytest.mark.parametrize("role", FORGERS)
def test_nobody_else_ends_it_or_takes_its_end_back(
    cluster: Cluster, running: Callable[[dict[str, Any]], str], role: str, phase: str
) -> None:
    """Another node's kubelet and an administrator neither."""
    status = running(asking(unique(), containers=[ASKING]))
    denied(said(cluster, status, phase, role))
    whole = cluster.get(status).body
    denied(cluster.put(status, {**whole, "status": {"phase": phase}}, role))
    said(cluster, status, phase, "own kubelet")
    denied(said(cluster, status, "Running", role))
    denied(cluster.put(status, {**cluster.get(status).body, "status": {}}, role))
    assert cluster.get(status).body["status"]["phase"] == phase


def test_the_refusal_says_who_may_and_what_to_do(
    cluster: Cluster, running: Callable[[dict[str, Any]], str]
) -> None:
    answer = said(cluster, running(asking(unique(), containers=[ASKING])), "Failed", "admin")
    for words in (
        "'vgpu-ends'",
        "only the kubelet of its node (system:node:NAME)",
        "to end the pod, delete it",
    ):
        assert words in answer.message


def test_a_forged_end_does_not_let_anybody_delete_it_by_force(
    cluster: Cluster, running: Callable[[dict[str, Any]], str]
) -> None:
    """Of a pod that has ended the object goes at once, so its containers would outlive it."""
    status = running(asking(unique(), containers=[ASKING]))
    denied(said(cluster, status, "Failed", "tenant"))
    denied(cluster.delete(f"{status.removesuffix('/status')}?gracePeriodSeconds=0", role="editor"))
    assert cluster.get(status).code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]},
        {"conditions": [{"type": "Ready", "status": "False"}]},
        {"phase": "Running", "message": "as before"},
    ],
)
def test_what_others_write_into_a_status_passes(
    cluster: Cluster, running: Callable[[dict[str, Any]], str], change: dict[str, Any]
) -> None:
    """kube-scheduler, which preempts a pod, the controllers of taints and of nodes, a person, and our touch."""
    status = running(asking(unique(), containers=[ASKING]))
    assert cluster.patch(status, {"status": change}).code == 200
    assert cluster.patch(status, annotated(**{TOUCHED: "1"}), "allocator").code == 200


def test_other_pods_end_as_ever(cluster: Cluster, running: Callable[[dict[str, Any]], str]) -> None:
    status = running(pod(unique(), schedulerName="nobody"))
    assert said(cluster, status, "Failed", "admin").code == 200
    assert said(cluster, status, "Running", "admin").code == 200
