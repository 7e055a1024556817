"""Thousands of short pods, half of them by claims, while programs and nodes die: all accounts agree at all times.

$VGPU_E2E_CHURN is the number of pods.
"""

import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

import pytest

from device_plugin.core.contract.annotations import GRANT
from device_plugin.core.contract.grants import Grant
from device_plugin.core.timestamps import seconds
from tests.e2e import nodes, service
from tests.e2e.claims import CLAIMS, asking, claim_pod, device_uuids, devices, template
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.machines import Machines, all_ready
from tests.e2e.slices import cards
from tests.e2e.test_claims import allow
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

PODS = int(os.environ.get("VGPU_E2E_CHURN", "2000"))
AT_ONCE = 30
# Memory units, core groups and cards of a pod.
SIZES = ((1, 4, 1), (2, 8, 1), (4, 15, 1), (8, 30, 1), (2, 5, 2))
# Seconds within which a claim shows what its pod's grant says: 10, and those until another replica leads after a kill,
# because the Lease lasts 15 s, and the new leader lists everything first.
CLAIM_SECONDS = 35.0
# A disturbance comes after each pod with this probability.
DISTURBED = 0.02
# Seconds after which a pod is deleted whose container was created and not started. If the node lost its power between
# the two, a kubelet leaves a pod with restartPolicy Never Pending for ever. All that our agent does comes before.
STUCK_SECONDS = 180.0
# Seconds that a pod may take, disturbances included, and for the beginning and the end of the test.
POD_SECONDS, OTHER_SECONDS = 5.0, 900.0
ENDED = ("Succeeded", "Failed")


@pytest.fixture
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace with a template of each size."""
    with in_own_namespace() as made:
        allow(made)
        for mem, cores, count in SIZES:
            made.create(template(f"m{mem}c{cores}x{count}", asking(f"{mem}Gi", cores, count)))
        yield made


class Churn:
    """Creates random pods, ends some of them early, and compares all accounts of what they hold."""

    def __init__(self, kubectl: Kubectl, rng: random.Random) -> None:
        self._kubectl = kubectl
        self._rng = rng
        self.made = 0
        self.stuck = set[str]()
        self._differs_since: dict[str, float] = {}

    def step(self) -> int:
        """Create pods until AT_ONCE have not ended, end one early, remove the ended and the stuck ones, and compare.

        Returns the number of created pods.
        """
        pods = self._kubectl.items()
        stuck = [pod["metadata"]["name"] for pod in pods if _is_stuck(pod)]
        self.stuck.update(stuck)
        ended = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] in ENDED] + stuck
        going = [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]
        if ended:
            self._kubectl("delete", "pod", *ended, "--wait=false", "--ignore-not-found")
        if going and self._rng.random() < 0.5:
            force = ["--force", "--grace-period=0"] if self._rng.random() < 0.5 else []
            self._kubectl(
                "delete", "pod", self._rng.choice(going), "--wait=false", "--ignore-not-found", *force
            )
        wanted = min(AT_ONCE - (len(pods) - len(ended)), PODS - self.made)
        self._kubectl.create(*(self._pod() for _ in range(max(0, wanted))))
        self.compare()
        return max(0, wanted)

    def has_ended(self) -> bool:
        """Take a step without new pods; returns true once no pod is left."""
        self.step()
        return not self._kubectl.items()

    def _pod(self) -> dict[str, Any]:
        mem, cores, count = self._rng.choice(SIZES)
        name, self.made = f"p{self.made}", self.made + 1
        command = ("sleep", str(self._rng.randint(1, 8)))
        if self._rng.random() < 0.5:
            return claim_pod(name, f"m{mem}c{cores}x{count}", command=command, restartPolicy="Never")
        body = slice_pod(name, mem * count, cores * count, command=command, restartPolicy="Never")
        body["metadata"]["annotations"] = {"vgpu.io/slices": str(count)}
        return body

    def compare(self) -> None:
        """Assert that no two live grants overlap, and that each claim shows its pod's cards after CLAIM_SECONDS."""
        claims = {found["metadata"]["uid"]: found for found in self._kubectl.items(CLAIMS)}
        pods = [pod for pod in self._kubectl.items() if pod["status"]["phase"] not in ENDED]
        grants = [
            Grant.decode(text) for pod in pods if (text := pod["metadata"].get("annotations", {}).get(GRANT))
        ]
        _disjoint(grants)
        granted = {
            claim: {slice_.card for slice_ in grant.containers[container]}
            for grant in grants
            for container, claim in grant.claims.items()
        }
        known = device_uuids()
        shown = {
            uid: {known.get((given["pool"], given["device"]), "?") for given in devices(found)}
            for uid, found in claims.items()
        }
        now = time.monotonic()
        differing = {uid for uid in claims if shown[uid] != granted.get(uid, set())}
        self._differs_since = {uid: self._differs_since.get(uid, now) for uid in differing}
        late = [uid for uid, since in self._differs_since.items() if now - since > CLAIM_SECONDS]
        assert not late, [(claims[uid]["metadata"]["name"], shown[uid], granted.get(uid)) for uid in late]


def _is_stuck(pod: dict[str, Any]) -> bool:
    """True if the container of a pod was created, and has not been started, STUCK_SECONDS after the pod was bound."""
    status = pod["status"]
    created = any(
        "waiting" in each["state"] and each.get("containerID") for each in status.get("containerStatuses", ())
    )
    bound = [seconds(each["lastTransitionTime"], inf) for each in status.get("conditions", ())
             if (each["type"], each["status"]) == ("PodScheduled", "True")]  # fmt: skip
    return created and any(time.time() - each > STUCK_SECONDS for each in bound)


def _disjoint(grants: list[Grant]) -> None:
    held = defaultdict[str, list[int]](list)
    memory = defaultdict[str, int](int)
    for grant in grants:
        for slice_ in grant.slices():
            held[slice_.card] += slice_.cores
            memory[slice_.card] += slice_.mem_mib
    known = cards()
    for card, groups in held.items():
        assert len(groups) == len(set(groups)), f"core groups of {card} are granted twice"
        if card in known:
            assert memory[card] <= known[card]["memMiB"], f"{card} gives too much memory"


# Each disturbance returns false if it did nothing: after many kills the kubelet starts a program only after minutes.
def _kill_agent(_: Machines, rng: random.Random) -> bool:
    return bool(service.signalled(service.agent(rng.choice(nodes.names())), "vgpu node", signal.SIGKILL))


def _kill_leader(_: Machines, _rng: random.Random) -> bool:
    leader = service.leader()
    killed = [
        service.signalled(leader, words, signal.SIGKILL) for words in ("vgpu cluster", "kube-scheduler")
    ]
    return any(killed)


def _restart_kubelet(machines: Machines, rng: random.Random) -> bool:
    node = rng.choice(nodes.names())
    machines.order(node, "kill", "kubelet")
    machines.order(node, "start", "kubelet")
    return True


def _cut_power(machines: Machines, rng: random.Random) -> bool:
    node = rng.choice(nodes.names())
    machines.order(node, "crash")
    machines.order(node, "boot")
    assert eventually(all_ready, 120)
    return True


DISTURBANCES = (_kill_agent, _kill_leader, _restart_kubelet, _cut_power)


def _rounds(rng: random.Random) -> Iterator[Callable[[Machines, random.Random], bool]]:
    """All disturbances again and again, each time in another order."""
    while True:
        yield from rng.sample(DISTURBANCES, len(DISTURBANCES))


@pytest.mark.timeout(POD_SECONDS * PODS + OTHER_SECONDS)
def test_all_accounts_agree_while_programs_and_nodes_die(
    kubectl: Kubectl, machines: Machines, rng: random.Random
) -> None:
    churn, disturbances = Churn(kubectl, rng), _rounds(rng)
    done = defaultdict[str, int](int)
    while churn.made < PODS:
        # Pods that take the place of ended ones show that the cluster works again since the disturbance before.
        if rng.random() < DISTURBED * churn.step():
            disturb = next(disturbances)
            with suppress(KubectlError):  # the agent or the leader is being replaced
                done[disturb.__name__] += disturb(machines, rng)
    assert all(done[each.__name__] for each in DISTURBANCES), (
        "write more pods: some disturbance never happened"
    )
    assert eventually(churn.has_ended, 400), kubectl("get", "pods", "--output=wide")
    print(f"{churn.made} pods, {len(churn.stuck)} of them stuck, {dict(done)}")
    assert eventually(lambda: not kubectl.items(CLAIMS), 60)
    assert eventually(lambda: not list(service.ledger_slices(service.leader())), 60)
    for node in nodes.names():
        assert eventually(partial(is_clean, machines, node), 30), files(machines, node)


def files(machines: Machines, node: str) -> list[str]:
    """The folders and CDI specs of containers on the node."""
    found = "ls -d /var/lib/vgpu/slices/*/* /var/run/cdi/vgpu-*.json 2>/dev/null || true"
    return machines.run(node, "sh", "-c", found).split()


def is_clean(machines: Machines, node: str) -> bool:
    """True if the node has no files of containers."""
    return not files(machines, node)
