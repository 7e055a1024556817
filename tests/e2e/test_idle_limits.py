"""Idle slices asked back on a real cluster: announced, evicted, held by a budget; who works, or may work, is kept."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from device_plugin.core.contract.annotations import IDLE_LIMIT
from device_plugin.kube.api import PODS
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.slices import held
from tests.e2e.test_monitoring import simulate
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.release import since

POLICY = ("validatingadmissionpolicy", "vgpu-idle-limit")
LIMIT, SECONDS = "1m", 60
HOLDS = "vgpu-probe hold 500 </dev/null >/dev/null 2>&1 &"


@pytest.fixture(autouse=True)
def least(kubectl: Kubectl) -> Iterator[None]:
    """Limits of a minute are allowed, as by the parameter leastIdleMinutes."""
    with least_idle(kubectl):
        yield


@contextmanager
def least_idle(kubectl: Kubectl) -> Iterator[None]:
    """Idle limits of LIMIT are allowed until the context ends."""
    _let_least(1)
    assert eventually(lambda: kubectl.would_refuse(limited("tried", LIMIT)) == "", 30)
    try:
        yield
    finally:
        _let_least(30)
        assert eventually(lambda: kubectl.would_refuse(limited("tried", LIMIT)) != "", 30)


def _let_least(minutes: int) -> None:
    wanted = [{"op": "replace", "path": "/spec/variables/0/expression", "value": f'int("{minutes}")'}]
    service.SYSTEM("patch", *POLICY, "--type=json", f"--patch={json.dumps(wanted)}")


def limited(name: str, limit: str = "", **spec: Any) -> dict[str, Any]:
    """A pod with a small slice on the first node, and an idle limit if there is one."""
    made = slice_pod(name, 1, 5, **nodes.on(nodes.first()), **spec)
    made["metadata"]["annotations"] = {IDLE_LIMIT: limit} if limit else {}
    return made


def budget(name: str) -> Mapping[str, Any]:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }  # fmt: skip


def use(kubectl: Kubectl, pod: str, *busy: str) -> None:
    """The driver says that a process of the pod uses its card, and computes on so many units."""
    (card,) = held(kubectl, pod)
    (process,) = service.processes(str(kubectl.pod(pod)["metadata"]["uid"]), "sleep 100000 & wait")
    simulate("process", str(process), card.card, "--mib", "500", *busy)


def says(kubectl: Kubectl, pod: str, reason: str) -> str:
    """The event of this reason about the pod; empty if there is none."""
    return next((event for event in kubectl.events(pod) if event.startswith(f"{reason}: ")), "")


def test_an_idle_pod_is_announced_and_evicted_and_others_are_not(kubectl: Kubectl) -> None:
    kubectl.apply(budget("kept"))
    kubectl.create(*(limited(name, LIMIT) for name in ("busy", "blind")), limited("free"))
    kubectl.running("busy", "blind", "free")
    for pod, units in (("busy", ("--busy-units", "5")), ("blind", ())):
        kubectl.inside(pod, "sh", "-c", HOLDS)
        use(kubectl, pod, *units)
    kubectl.create(*(limited(name, LIMIT) for name in ("notebook", "kept")))
    kubectl.running("notebook", "kept")
    assert eventually(lambda: says(kubectl, "notebook", "SlicesIdle"), SECONDS), kubectl.events("notebook")
    assert kubectl.has(PODS, "notebook"), "it is announced before"
    assert eventually(lambda: not kubectl.has(PODS, "notebook"), SECONDS), kubectl.events("notebook")
    assert "idle for 1 min (vgpu.io/idle-limit)" in says(kubectl, "notebook", "IdlePodEvicted")
    assert eventually(lambda: says(kubectl, "kept", "IdlePodKept"), SECONDS), kubectl.events("kept")
    assert "disruption budget" in says(kubectl, "kept", "IdlePodKept")
    for pod in ("busy", "blind", "free"):
        assert not says(kubectl, pod, "SlicesIdle"), pod
    for pod in ("busy", "blind", "free", "kept"):
        assert "deletionTimestamp" not in kubectl.pod(pod)["metadata"], pod
    kubectl("delete", "poddisruptionbudget", "kept")
    assert eventually(lambda: not kubectl.has(PODS, "kept"), 4 * SECONDS), kubectl.events("kept")


@since("1.36", "MutatingAdmissionPolicy")
def test_a_pod_that_works_again_keeps_the_slice_that_its_namespaces_default_would_take(
    kubectl: Kubectl,
) -> None:
    kubectl("annotate", "namespace", kubectl.namespace, f"{IDLE_LIMIT}={LIMIT}")
    kubectl.create(limited("notebook"))
    assert kubectl.pod("notebook")["metadata"]["annotations"][IDLE_LIMIT] == LIMIT
    kubectl.running("notebook")
    assert eventually(lambda: says(kubectl, "notebook", "SlicesIdle"), SECONDS), kubectl.events("notebook")
    kubectl.inside("notebook", "sh", "-c", HOLDS)
    use(kubectl, "notebook", "--busy-units", "5")
    assert eventually(lambda: says(kubectl, "notebook", "SlicesInUse"), 30), kubectl.events("notebook")
    assert "deletionTimestamp" not in kubectl.pod("notebook")["metadata"]
