"""Many pods by ResourceClaims at once beside as many by limits, and what the API server is asked while they run."""

import json
import re
import signal
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from device_plugin.kube.api import Kind
from hack.testbed import audit
from hack.testbed.install import SIMULATED
from hack.testbed.node import CTR
from tests.e2e import nodes, service
from tests.e2e.claims import CLAIMS, asking, claim_pod, device_uuids, template
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.slices import check_disjoint, held, inventory
from tests.e2e.test_claims import allow
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

NODE = "n1"
HERE = nodes.on(NODE)
CARDS = 16
PRESET = f"version: v1\ncards:\n- {{preset: hygon-60cu-16gib, count: {CARDS}}}\n"
CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", dict)
ARRIVING, BURST = 30, 60
ROUNDS = 3
# A burst by claims takes at most this multiple of the time of a burst by limits.
MOST_RATIO = 1.3
# Seconds after the agent has registered within which all pods run that came while it was down.
RUN_SECONDS = 15.0
REST_SECONDS = 60.0
# The last log line of an agent that has registered as a device plugin, and as a DRA driver.
REGISTERED = {"limits": r"registered with the kubelet$", "claims": r"registered with the kubelet: "}
ROADS: dict[str, Callable[[str], dict[str, Any]]] = {
    "limits": lambda name: slice_pod(name, mem=4, cores=15, **HERE),
    "claims": lambda name: claim_pod(name, "slice", **HERE),
}


def _with_cards(text: str, count: int) -> None:
    """Give the nodes these simulated cards; returns once all agents serve `count` cards by limits and by claims."""
    change = json.dumps({"data": {"cards.yaml": text}})
    service.SYSTEM("patch", "configmap", SIMULATED, "--type=merge", f"--patch={change}")
    service.SYSTEM("rollout", "restart", "daemonset/vgpu-node")
    service.SYSTEM("rollout", "status", "daemonset/vgpu-node", "--timeout=180s")

    def served() -> bool:
        found = [inventory(node) for node in nodes.names()]
        shown = all(each["serving"] and each.get("claims") and len(each["cards"]) == count for each in found)
        return shown and len(device_uuids()) == count * len(found)

    assert eventually(served, 60)


@pytest.fixture(scope="module", autouse=True)
def _many_cards() -> Iterator[None]:
    """Each node has cards for the pods of a burst."""
    before = service.SYSTEM.get(CONFIG_MAPS, SIMULATED)["data"]["cards.yaml"]
    count = len(inventory(NODE)["cards"])
    _with_cards(PRESET, CARDS)
    yield
    _with_cards(before, count)


@pytest.fixture
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace that may ask by claims, with the template `slice` of 4 GiB and 15 core groups."""
    with in_own_namespace() as made:
        allow(made)
        made.create(template("slice", asking("4Gi", 15)))
        yield made


def phases(kubectl: Kubectl) -> Counter[str]:
    return Counter(pod["status"]["phase"] for pod in kubectl.items())


def test_pods_by_claims_wait_for_an_agent_that_is_down_and_the_kubelet_rejects_those_by_limits(
    kubectl: Kubectl, machines: Machines
) -> None:
    assert machines
    failed = dict[str, Counter[str]]()
    for road in ROADS:
        failed[road], seconds = _come_while_the_agent_is_down(kubectl, road)
        print(f"{road}: {failed[road].total()} of {ARRIVING} pods Failed {dict(failed[road])}; ", end="")
        print(f"no pod is Pending {seconds:.1f} s after the agent has registered")
        kubectl.gone(*(pod["metadata"]["name"] for pod in kubectl.items()))
        assert eventually(lambda: not kubectl.items(CLAIMS), 30)
    assert not failed["claims"]
    assert seconds <= RUN_SECONDS


def _come_while_the_agent_is_down(kubectl: Kubectl, road: str) -> tuple[Counter[str], float]:
    """Returns the number of pods that Failed, by reason, and how long after the agent's registration none is Pending.

    The agent stops answering, the pods are bound, and the agent is killed; the kubelet starts it again.
    """
    assert eventually(lambda: service.restarts(NODE) >= 0, 60), "Ready"
    agent = service.agent(NODE)
    service.signal_all(agent, "vgpu node", signal.SIGSTOP)
    names = [f"{road}-{number}" for number in range(ARRIVING)]
    kubectl.create(*map(ROADS[road], names))
    assert eventually(lambda: all(pod["spec"].get("nodeName") for pod in kubectl.items()), 60)
    assert phases(kubectl) == {"Pending": ARRIVING}
    killed = time.time()
    service.signal_all(agent, "vgpu node", signal.SIGKILL)
    assert eventually(lambda: phases(kubectl).keys() <= {"Running", "Failed"}, 120), phases(kubectl)
    end = time.time()
    registered = eventually(lambda: _registered(agent, road, killed), 60)
    assert registered
    check_disjoint([slice_ for name in _running(kubectl) for slice_ in held(kubectl, name)])
    failed = Counter(pod["status"]["reason"] for pod in kubectl.items() if pod["status"]["phase"] == "Failed")
    return failed, max(0.0, end - registered)


def _running(kubectl: Kubectl) -> list[str]:
    return [pod["metadata"]["name"] for pod in kubectl.items() if pod["status"]["phase"] == "Running"]


def _registered(agent: str, road: str, since: float) -> float:
    """The time, in seconds since 1970, at which the agent registered after `since`, by its log; 0 if it has not."""
    lines = service.SYSTEM("logs", agent, "--container=agent", "--timestamps").splitlines()
    found = (line.partition(" ")[0] for line in lines if re.search(REGISTERED[road], line))
    times = [datetime.fromisoformat(text).timestamp() for text in found]
    return min((at for at in times if at > since), default=0.0)


def test_nothing_is_written_while_pods_by_claims_run(kubectl: Kubectl, log: Path) -> None:
    kubectl.create(*(ROADS["claims"](f"p{number}") for number in range(ARRIVING)))
    kubectl.running()
    begin = time.time()

    def since_then() -> Sequence[audit.Call]:
        return [call for call in audit.calls(log) if call.at >= begin]

    # Our kube-scheduler renews its Lease every 2 s, so the log shows how far it goes.
    def is_complete() -> bool:
        return any(call.at > begin + REST_SECONDS for call in since_then())

    assert eventually(is_complete, 2 * REST_SECONDS, every=2)
    calls = [call for call in since_then() if call.at <= begin + REST_SECONDS]
    written = Counter(f"{call.service}: {call.verb} {call.resource}" for call in calls if call.writes)
    print(f"{ARRIVING} pods by claims run; in {REST_SECONDS:g} s our services wrote {dict(written)}")
    assert {call.resource for call in calls if call.writes} == {"leases"}


def test_a_burst_by_claims_takes_little_longer_than_one_by_limits(
    kubectl: Kubectl, machines: Machines
) -> None:
    before = _containers(machines)
    taken: dict[str, list[float]] = {road: [] for road in ROADS}
    for number in range(ROUNDS):
        for road, made in ROADS.items():
            assert eventually(lambda: _containers(machines) <= before, 120, every=1), "cleared by the kubelet"
            names = [f"{road}-{number}-{each}" for each in range(BURST)]
            begin = time.monotonic()
            kubectl.create(*map(made, names))
            assert eventually(lambda: phases(kubectl)["Running"] == BURST, 120), phases(kubectl)
            taken[road].append(time.monotonic() - begin)
            check_disjoint([slice_ for name in names for slice_ in held(kubectl, name)])
            kubectl.gone(*names)
    for road, times in taken.items():
        print(f"{BURST} pods on one node by {road}: {', '.join(f'{each:.1f}' for each in times)} s")
    ratio = statistics.median(taken["claims"]) / statistics.median(taken["limits"])
    print(f"ratio of the medians: {ratio:.2f}")
    assert ratio <= MOST_RATIO


def _containers(machines: Machines) -> int:
    """The number of containers in the node's runtime, with sandboxes and ended ones; the kubelet clears them late."""
    return len(machines.run(NODE, *CTR, "containers", "list", "--quiet").split())
