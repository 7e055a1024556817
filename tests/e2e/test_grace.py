"""How long a deleted pod may keep its card: tenants stay within the bounds, Kubernetes' own deletions pass."""

import json
from collections.abc import Callable

import pytest

from device_plugin.kube.api import PODS
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.waiting import eventually
from tests.e2e.workloads import deployment, job, slice_pod

FORCE = ("--grace-period=0", "--force", "--wait=false")


@pytest.fixture
def tenant(kubectl: Kubectl) -> Kubectl:
    """Somebody with Kubernetes' role `edit` in the test's namespace."""
    kubectl("create", "rolebinding", "jane", "--clusterrole=edit", "--user=jane")
    return Kubectl(kubectl.namespace, "jane")


def refused(attempt: Callable[[], object]) -> str:
    """What the API server says; asserts that it says no."""
    try:
        attempt()
    except KubectlError as error:
        return str(error)
    raise AssertionError("nobody refused it")


def test_a_tenant_cannot_keep_a_card_beyond_the_bounds(kubectl: Kubectl, tenant: Kubectl) -> None:
    kubectl.create(slice_pod("one", mem=2))
    kubectl.running("one")
    path = f"/api/v1/namespaces/{kubectl.namespace}/pods"

    def evict(seconds: int) -> str:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "one"}}
        body |= {"deleteOptions": {"gracePeriodSeconds": seconds}}
        return tenant("create", "--raw", f"{path}/one/eviction", "-f", "-", given=json.dumps(body))

    long, forced = "gracePeriodSeconds is 100000", "a forced deletion (gracePeriodSeconds 0)"
    for attempt, words in (
        (lambda: tenant("delete", "pod", "one", "--grace-period=100000", "--wait=false"), long),
        (lambda: tenant("delete", "--raw", f"{path}/one?gracePeriodSeconds=100000"), long),
        (lambda: tenant("delete", "--raw", f"{path}?gracePeriodSeconds=100000"), long),
        (lambda: evict(100000), long),
        (lambda: tenant("delete", "pod", "one", *FORCE), forced),
        (lambda: tenant("delete", "pods", "--all", *FORCE), forced),
        (lambda: tenant("delete", "--raw", f"{path}?gracePeriodSeconds=0"), forced),
        (lambda: evict(0), "gracePeriodSeconds is 0: write 1 to"),
    ):
        assert words in refused(attempt)
    assert "deletionTimestamp" not in kubectl.pod("one")["metadata"]
    assert "terminationGracePeriodSeconds is 100000" in refused(
        lambda: tenant.create(slice_pod("two", mem=2, terminationGracePeriodSeconds=100000))
    )
    # A collection, with the grace of each pod.
    tenant("delete", "--raw", path)
    assert eventually(lambda: not kubectl.has(PODS, "one"), 60)


def test_who_holds_the_right_may_force(kubectl: Kubectl, tenant: Kubectl) -> None:
    kubectl.create(slice_pod("one", mem=2))
    kubectl.running("one")
    rule = {"apiGroups": ["vgpu.io"], "resources": ["slices"], "verbs": ["force"]}
    kind = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    kubectl.create({**kind, "metadata": {"name": "force"}, "rules": [rule]})
    kubectl("create", "rolebinding", "force", "--role=force", "--user=jane")

    def gone() -> bool:
        try:
            tenant("delete", "pod", "one", *FORCE)
        except KubectlError:  # the API server has not seen the role yet
            return False
        return True

    assert eventually(gone, 30)


def test_kubernetes_own_deletions_go_on(kubectl: Kubectl) -> None:
    """Of a ReplicaSet that shrinks, of a rollout, of a Job at its deadline and one that is over."""
    kubectl.create(
        deployment("web", 2, slice_pod("web", mem=1)),
        deployment("set", 2, slice_pod("set", mem=1), "StatefulSet"),
        job("late", slice_pod("late", mem=1), activeDeadlineSeconds=5),
        job("done", slice_pod("done", mem=1, command=["true"]), ttlSecondsAfterFinished=0),
    )
    kubectl("rollout", "status", "deployment/web", "--timeout=180s")
    kubectl("rollout", "status", "statefulset/set", "--timeout=180s")
    kubectl("scale", "deployment/web", "--replicas=1")
    kubectl("rollout", "restart", "statefulset/set")
    kubectl("rollout", "status", "statefulset/set", "--timeout=180s")

    def left(app: str) -> int:
        return len(kubectl.items(labels=f"app={app}"))

    assert eventually(lambda: (left("web"), left("late"), left("done")) == (1, 0, 0), 120)
