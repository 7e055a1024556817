"""A user who may edit a namespace tries to get cards past its queues."""

import json
from functools import partial
from typing import Any

import pytest

from device_plugin.core.contract.annotations import QUEUE, QUEUE_REQUIRED, QUEUES
from device_plugin.kube.api import JOBS
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.queued_jobs import pods, queued, running
from tests.e2e.waiting import eventually
from tests.e2e.workloads import deployment, job, pod, slice_of, slice_pod
from tests.release import since

SECONDS, WIDE = 120, 27
CAROL = "carol"


@pytest.fixture
def carol(kubectl: Kubectl) -> Kubectl:
    """An editor's kubectl in the test's namespace, which names its queues and requires one."""
    kubectl("create", "rolebinding", CAROL, "--clusterrole=edit", f"--user={CAROL}")
    everywhere = Kubectl("")
    everywhere("annotate", "namespace", kubectl.namespace, f"{QUEUES}=default,research")
    everywhere("label", "namespace", kubectl.namespace, f"{QUEUE_REQUIRED}=true")
    made = Kubectl(kubectl.namespace, CAROL)
    assert eventually(lambda: kubectl.would_refuse(slice_pod("any", mem=1)), 30), "queues are required by now"
    assert eventually(lambda: may_edit(made), 30)
    return made


def may_edit(carol: Kubectl) -> bool:
    """True once the API server knows the role's binding, of which it learns by a watch."""
    try:
        carol("auth", "can-i", "patch", "jobs.batch")
    except KubectlError:
        return False
    return True


def test_an_author_widens_no_job_that_runs(kubectl: Kubectl, carol: Kubectl) -> None:
    carol.create(queued("narrow", 1))
    assert eventually(partial(running, kubectl, "narrow", 1), SECONDS)
    assert "gets more pods from the queue" in refused(carol, "narrow", wide(WIDE))
    assert len(pods(kubectl, "narrow")) == 1
    change(kubectl, "narrow", wide(2))
    assert eventually(partial(running, kubectl, "narrow", 2), SECONDS), "an administrator may"
    change(carol, "narrow", wide(1))
    assert eventually(partial(running, kubectl, "narrow", 1), SECONDS), "narrower is the author's to write"
    change(carol, "narrow", wide(2, suspend=True))
    assert eventually(partial(running, kubectl, "narrow", 2), SECONDS), (
        "it waited, and was started by its queue"
    )


@since("1.36", "a suspended Job's requests that may be changed")
def test_a_suspended_job_that_asks_for_nothing_asks_for_nothing_later(carol: Kubectl) -> None:
    carol.create(job("quiet", pod("quiet"), suspend=True))
    (container,) = carol.get(JOBS, "quiet")["spec"]["template"]["spec"]["containers"]
    asks = {"template": {"spec": {"containers": [{**container, "resources": slice_of(mem=1)}]}}}
    assert f"write the label {QUEUE}" in refused(carol, "quiet", asks)
    assert f"write the label {QUEUE}" in refused(carol, "quiet", {**asks, "suspend": False})
    change(carol, "quiet", {"suspend": False})


def test_an_owner_that_is_made_up_lets_no_pod_in(kubectl: Kubectl, carol: Kubectl) -> None:
    made_up = slice_pod("owned", mem=1)
    made_up["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": "0", "controller": True}
    ]
    assert "a single pod cannot" in carol.refusal(made_up)
    # Kubernetes' own controllers let theirs in: that of Jobs, and those of services, which no queue holds.
    carol.create(queued("honest", 1), deployment("service", 1, slice_pod("service", mem=1)))
    assert eventually(partial(running, kubectl, "honest", 1), SECONDS)
    assert eventually(lambda: phases(kubectl, "app=service") == ["Running"], SECONDS)


def test_a_job_names_a_queue_of_its_namespace(carol: Kubectl) -> None:
    named = queued("mine", 1)
    named["metadata"]["labels"][QUEUE] = "mine"
    assert "has no queue mine" in carol.refusal(named)
    named["metadata"]["labels"][QUEUE] = "research"
    carol.create(named)


def wide(width: int, **spec: object) -> dict[str, object]:
    return {"parallelism": width, "completions": width, **spec}


def change(kubectl: Kubectl, name: str, spec: dict[str, Any]) -> None:
    """Change the Job's spec. Raises KubectlError."""
    kubectl("patch", "job", name, "--type=merge", f"--patch={json.dumps({'spec': spec})}")


def refused(kubectl: Kubectl, name: str, spec: dict[str, Any]) -> str:
    """The API server's words about a change of the Job's spec that it refuses."""
    with pytest.raises(KubectlError) as refusal:
        change(kubectl, name, spec)
    return str(refusal.value)


def phases(kubectl: Kubectl, labels: str) -> list[str]:
    return [each["status"]["phase"] for each in kubectl.items(labels=labels)]
