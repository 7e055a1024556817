"""Which pods are replicas of the job engine that live."""

import pytest
from msgspec.structs import replace

from device_plugin.core.pods import Pod
from device_plugin.state.replicas import LiveReplicas

A = Pod("vgpu-system", "a", "uid-a", node="n1", phase="Running", owner="ReplicaSet", owner_uid="rs")
B = replace(A, name="b", uid="uid-b")


@pytest.fixture
def replicas() -> LiveReplicas:
    return LiveReplicas("a", "vgpu-system")


def test_replicas_are_the_running_pods_of_the_same_controller(replicas: LiveReplicas) -> None:
    assert replicas.names() == frozenset()
    replicas.sync([A, B, replace(A, name="c", owner_uid="other"), replace(A, name="d", namespace="tenant")])
    assert replicas.names() == {"a", "b"}
    replicas.see(replace(A, name="e", phase="Pending"))
    assert replicas.names() == {"a", "b"}


@pytest.mark.parametrize("end", [{"deleting": True}, {"phase": "Failed"}, {"phase": "Pending"}])
def test_a_pod_that_ends_or_is_gone_is_no_replica(replicas: LiveReplicas, end: dict[str, object]) -> None:
    replicas.sync([A, B])
    replicas.see(replace(B, **end))
    assert replicas.names() == {"a"}
    replicas.see(B)
    assert replicas.names() == {"a", "b"}
    replicas.forget(replace(B, namespace="tenant"))
    assert replicas.names() == {"a", "b"}, "another pod of that name"
    replicas.forget(B)
    assert replicas.names() == {"a"}
    replicas.sync([])
    assert replicas.names() == frozenset()
