"""The cluster service, API server or etcd goes in the middle of a burst: nothing is granted twice, nothing is lost."""

import random
import signal
import time
from collections.abc import Callable

import pytest

from tests.e2e import service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines, all_ready
from tests.e2e.test_burst import no_room_is_left, settled
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import slice_pod

pytestmark = pytest.mark.disturbs
PODS = 30
SIZES = ((1, 4), (2, 8), (4, 15), (8, 30))
CONTROL_PLANE = "control-plane"
# Longer than the Lease (15 s), so that another replica leads by then.
PAUSE_SECONDS = 25
ABSENCE_SECONDS = 60


def kill_leader(_: Machines) -> None:
    pod = service.leader()
    for words in ("vgpu cluster", "kube-scheduler"):
        service.signal_all(pod, words, signal.SIGKILL)


def pause_leader(_: Machines) -> None:
    pod = service.leader()
    for words in ("vgpu cluster", "kube-scheduler"):
        service.signal_all(pod, words, signal.SIGSTOP)
    assert eventually(lambda: service.leader() not in ("", pod), PAUSE_SECONDS + 20)
    for words in ("vgpu cluster", "kube-scheduler"):
        service.resume(pod, words)


def kill_api_server(machines: Machines) -> None:
    machines.order(CONTROL_PLANE, "kill", "kube-apiserver")  # on SIGTERM it waits 30 s for open watches
    end = time.monotonic() + ABSENCE_SECONDS
    assert within(lambda: time.monotonic() > end, ABSENCE_SECONDS + 1)
    machines.order(CONTROL_PLANE, "start", "kube-apiserver")
    assert eventually(all_ready, 90)


def restart_etcd(machines: Machines) -> None:
    machines.order(CONTROL_PLANE, "kill", "etcd")
    machines.order(CONTROL_PLANE, "start", "etcd")
    assert eventually(all_ready, 90)


@pytest.mark.parametrize("disturb", [kill_leader, pause_leader, kill_api_server, restart_etcd])
def test_a_burst_survives(
    kubectl: Kubectl, machines: Machines, rng: random.Random, disturb: Callable[[Machines], None]
) -> None:
    sizes = [rng.choice(SIZES) for _ in range(2 * PODS)]
    bodies = [slice_pod(f"p{i}", mem, cores) for i, (mem, cores) in enumerate(sizes)]
    kubectl.create(*bodies[:PODS])
    disturb(machines)
    kubectl.create(*bodies[PODS:])
    begin = time.monotonic()
    found = eventually(lambda: settled(kubectl), 180)
    assert found, kubectl("get", "pods")
    print(f"{disturb.__name__}: settled after {time.monotonic() - begin:.1f} s more")
    # A pod that was refused while the cluster was blind is asked for again by kube-scheduler, within minutes at most.
    assert eventually(lambda: no_room_is_left(kubectl), 120)
    assert eventually(both_replicas_agree, 60)


def both_replicas_agree() -> bool:
    ledgers = [service.held(replica) for replica in service.replicas()]
    return len(ledgers) == 2 and bool(ledgers[0]) and ledgers[0] == ledgers[1]
