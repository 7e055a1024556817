"""kill -9 of the leader after each of the three writes of a pod with a claim, beside pods with limits.

One kill hits five pods at the same moment: three with claims, each after another of its writes, and two with limits,
whose only write is the Binding: just before it is stored, and after. $VGPU_E2E_KILLS is the number of kills of each
kind. New claims have the finalizer from a policy; it is written for a claim that has lost it, as at the end of a pod.
"""

import os
import signal
import statistics
import time
from collections.abc import Iterator
from typing import Any

import pytest

from device_plugin.core.contract.claims import FINALIZER
from hack.testbed import layout
from hack.testbed.certificates import Authority
from tests.e2e import service
from tests.e2e.claims import CLAIMS, asking, claim, claim_pod, devices
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl, is_ready
from tests.e2e.machines import Machines
from tests.e2e.nightly.accounts import check_accounts
from tests.e2e.nightly.held_writes import HeldWrites, Webhook, Write, webhook
from tests.e2e.test_claims import allow
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import slice_pod

KILLS = int(os.environ.get("VGPU_E2E_KILLS", "4"))
ALLOCATOR, SCHEDULER = "vgpu cluster", "kube-scheduler"
KINDS = {"allocator": (ALLOCATOR,), "allocator and kube-scheduler": (ALLOCATOR, SCHEDULER)}
# By name of a pod: the write at which the leader is killed. The write of `limits-before` is never stored.
BY_CLAIM = {"finalizer": Write.FINALIZER, "allocation": Write.ALLOCATION, "binding": Write.BINDING}
BY_LIMITS = {"limits-before": Write.BINDING, "limits-after": Write.BINDING}
# The pod with limits to which each pod with a claim is compared: it is bound, or not bound, at the kill as well.
LIKE = {"finalizer": "limits-before", "allocation": "limits-before", "binding": "limits-after"}
# Seconds within which all writes must come: the allocator gives up after 3 s (BIND_SECONDS in cluster/bind.py).
HELD_SECONDS = 2.5
# A pod with a claim runs at most this many seconds later than the pod with limits that was killed at the same place.
LATER_SECONDS = 5.0


@pytest.fixture
def held_in(machines: Machines) -> Iterator[tuple[Kubectl, Webhook]]:
    """kubectl in a namespace that may ask by claims, and the webhook that holds writes there."""
    assert machines
    with in_own_namespace() as made:
        allow(made)
        with webhook(made, Authority(layout.here().certificates)) as asked:
            yield made, asked


def test_nothing_is_stuck_after_a_kill_at_any_write(held_in: tuple[Kubectl, Webhook]) -> None:
    kubectl, asked = held_in
    for kind, programs in KINDS.items():
        kills = [_killed(kubectl, asked, programs) for _ in range(KILLS)]
        for name in kills[0]:
            found = [seconds[name] for seconds in kills]
            print(f"{kind} killed at {name}: runs after {_shown(found)}")
        for name, other in LIKE.items():
            later = [seconds[name] - seconds[other] for seconds in kills]
            print(f"{kind} killed at {name}: runs later than {other} by {_shown(later)}")
            assert max(later) <= LATER_SECONDS


def _shown(seconds: list[float]) -> str:
    return f"{statistics.median(seconds):.1f} s, at most {max(seconds):.1f} s, {len(seconds)} kills"


def _killed(kubectl: Kubectl, asked: Webhook, programs: tuple[str, ...]) -> dict[str, float]:
    """Kill these programs of the leader at the writes of all pods; returns the seconds until each pod runs."""
    kubectl.create(slice_pod("first", mem=2, cores=5))
    kubectl.running("first")  # a new leader places pods
    kubectl.gone("first")
    replica = service.leader()
    names = (*BY_CLAIM, *BY_LIMITS)
    asked.writes = writes = HeldWrites({**BY_CLAIM, **BY_LIMITS})
    kubectl.create(*(claim(name, asking("2Gi", 5)) for name in BY_CLAIM))
    kubectl("patch", "resourceclaim", "finalizer", "--type=merge", '--patch={"metadata":{"finalizers":null}}')
    kubectl.create(*(claim_pod(name, named=name) for name in BY_CLAIM))
    kubectl.create(*(slice_pod(name, mem=2, cores=5) for name in BY_LIMITS))
    assert within(lambda: writes.held == set(names), HELD_SECONDS), writes.held
    for words in programs:
        service.signal_all(replica, words, signal.SIGSTOP)
    writes.store(*(name for name in names if name != "limits-before"))
    assert eventually(lambda: _stored(kubectl), 10), kubectl.items(CLAIMS)
    for words in programs:
        service.signal_all(replica, words, signal.SIGKILL)
    killed = time.monotonic()
    writes.drop("limits-before")
    seconds = dict[str, float]()

    def run() -> bool:
        for pod in kubectl.items():
            if pod["status"]["phase"] == "Running":
                seconds.setdefault(pod["metadata"]["name"], time.monotonic() - killed)
        return len(seconds) == len(names)

    assert eventually(run, 120), kubectl("get", "pods")
    check_accounts(kubectl)
    _remove(kubectl, names, replica)
    return seconds


def _stored(kubectl: Kubectl) -> bool:
    """True if the wanted write of each pod is stored; asserts that no later one is."""
    claims = {found["metadata"]["name"]: found for found in kubectl.items(CLAIMS)}
    bound = {pod["metadata"]["name"] for pod in kubectl.items() if pod["spec"].get("nodeName")}
    protected = {
        name for name, found in claims.items() if FINALIZER in found["metadata"].get("finalizers", ())
    }
    allocated = {name for name, found in claims.items() if devices(found)}
    assert bound <= {"binding", "limits-after"}
    assert allocated <= {"allocation", "binding"}
    return (len(protected), len(allocated), len(bound)) == (3, 2, 2)


def _remove(kubectl: Kubectl, names: tuple[str, ...], replica: str) -> None:
    """Remove the pods, and replace the replica: the kubelet would wait before it starts its containers once more."""
    kubectl.gone(*names)
    assert eventually(lambda: not any(devices(found) for found in kubectl.items(CLAIMS)), 30)
    kubectl("delete", "resourceclaim", "--all", "--wait=true", "--timeout=60s")
    service.SYSTEM("delete", "pod", replica, "--wait=true", "--timeout=60s")
    assert eventually(_are_ready, 120)
    assert eventually(lambda: service.held(service.leader()) == [], 30)


def _are_ready() -> bool:
    """True if both replicas are Ready, and the leader is one of them."""
    found: dict[str, Any] = {name: service.SYSTEM.pod(name) for name in service.replicas()}
    return len(found) == 2 and all(map(is_ready, found.values())) and service.leader() in found
