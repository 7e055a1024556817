"""A program of a node restarts while slices run: nobody is harmed, new pods work, and resources come back."""

import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from device_plugin.kube.api import Kind
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.slices import check_disjoint, held, inventory
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import slice_pod

DAEMON_SETS = Kind("apps", "v1", "daemonsets", "DaemonSet", dict)
NODE = "n1"
HERE = nodes.on(NODE)
MEM = "hygon.com/dcu-mem"
AGENT = "vgpu node"


def allocatable(node: str = NODE) -> int:
    return int(nodes.get(node)["status"]["allocatable"].get(MEM, "0"))


def life(kubectl: Kubectl, pod: str) -> tuple[str, int]:
    """The container of the pod, and how often it was restarted."""
    (status,) = kubectl.pod(pod)["status"]["containerStatuses"]
    return status["containerID"], status["restartCount"]


@pytest.fixture
def sitting(kubectl: Kubectl) -> str:
    """A pod that holds a slice on the first node."""
    kubectl.create(slice_pod("sitting", mem=4, cores=15, **nodes.on(nodes.first())))
    kubectl.running("sitting")
    return "sitting"


def restart_kubelet(machines: Machines) -> None:
    machines.order(NODE, "kill", "kubelet")
    machines.order(NODE, "start", "kubelet")


def restart_containerd(machines: Machines) -> None:
    machines.order(NODE, "kill", "containerd")
    machines.order(NODE, "start", "containerd")


def kill_agent(_: Machines) -> None:
    service.signal_all(service.agent(NODE), AGENT, signal.SIGKILL)


@pytest.mark.parametrize("disturb", [restart_kubelet, restart_containerd, kill_agent])
def test_slices_survive_and_resources_come_back(
    kubectl: Kubectl, machines: Machines, sitting: str, disturb: Callable[[Machines], None]
) -> None:
    full, before, slices = allocatable(), life(kubectl, sitting), held(kubectl, sitting)
    begin = time.monotonic()
    disturb(machines)
    later = slice_pod("later", mem=4, cores=15, **HERE)
    kubectl.create(later)

    def runs() -> bool:
        if kubectl.phase("later") == "Failed":  # admitted while nobody could answer: Kubernetes' own rule
            assert "UnexpectedAdmissionError" in kubectl.pod("later")["status"]["reason"]
            kubectl.gone("later")
            kubectl.create(later)
        return kubectl.phase("later") == "Running"

    assert eventually(runs, 90)
    print(f"{disturb.__name__}: a new pod runs after {time.monotonic() - begin:.1f} s")
    assert eventually(lambda: allocatable() == full, 60)
    print(f"{disturb.__name__}: advertised again after {time.monotonic() - begin:.1f} s")
    assert eventually(lambda: inventory(NODE).get("serving"), 30)
    assert life(kubectl, sitting) == before
    assert held(kubectl, sitting) == slices
    check_disjoint([*slices, *held(kubectl, "later")])


@pytest.mark.usefixtures("machines")
def test_a_pod_that_the_kubelet_rejects_says_why_and_frees_its_slice(kubectl: Kubectl) -> None:
    assert eventually(lambda: service.restarts(NODE) >= 0, 60), "Ready, after the test before this one"
    agent, restarts = service.agent(NODE), service.restarts(NODE)
    service.signal_all(agent, AGENT, signal.SIGSTOP)
    kubectl.create(slice_pod("unlucky", mem=4, cores=15, **HERE))
    uid = kubectl.pod("unlucky")["metadata"]["uid"]
    assert eventually(lambda: uid in kubectl("get", "--raw", f"/api/v1/nodes/{NODE}/proxy/pods"), 30)
    # The kubelet is asking an agent that does not answer; now that call breaks.
    service.signal_all(agent, AGENT, signal.SIGKILL)
    assert eventually(lambda: kubectl.phase("unlucky") == "Failed", 60)
    failed = time.monotonic()
    replica = service.leader()
    assert within(lambda: uid not in {entry[1] for entry in service.held(replica)}, 5)
    print(f"free {time.monotonic() - failed:.1f} s after the pod failed")
    status = kubectl.pod("unlucky")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert "Allocate failed" in status["message"]
    assert "vgpu-hygon.com-dcu" in status["message"]
    assert eventually(lambda: service.restarts(NODE) > restarts, 90)


@pytest.fixture
def stream(kubectl: Kubectl) -> "Stream":
    return Stream(kubectl)


class Stream:
    """Short pods, one after another; on a slow machine more at a time would keep the kubelets from all else."""

    MOST = 12

    def __init__(self, kubectl: Kubectl) -> None:
        self._kubectl = kubectl
        self._count = 0

    def send(self) -> None:
        if len(self._begun()) >= self.MOST:
            return
        self._count += 1
        short = slice_pod(f"s{self._count}", mem=1, cores=2, command=["true"], restartPolicy="Never")
        self._kubectl.create(short)

    def ended(self) -> bool:
        return not self._begun()

    def _begun(self) -> Sequence[Any]:
        """Those that have not ended."""
        wanted = "metadata.name!=sitting,status.phase!=Succeeded,status.phase!=Failed"
        return self._kubectl.items(fields=wanted)

    def pods(self) -> Sequence[Any]:
        return self._kubectl.items(fields="metadata.name!=sitting")


def test_no_pod_is_rejected_while_the_agents_roll(kubectl: Kubectl, sitting: str, stream: Stream) -> None:
    before = life(kubectl, sitting)
    service.SYSTEM("rollout", "restart", "daemonset/vgpu-node")
    begin = time.monotonic()

    def rolled() -> bool:
        stream.send()
        status = service.SYSTEM.get(DAEMON_SETS, "vgpu-node")
        found = status["status"]
        observed = found["observedGeneration"] == status["metadata"]["generation"]
        # While the last one is replaced, as many are new as are Ready: one that is new is not, one that is old is.
        counts = {found.get(count) for count in ("updatedNumberScheduled", "numberReady")}
        return bool(observed and counts == {found["desiredNumberScheduled"]})

    assert eventually(rolled, 180)
    print(f"rolled in {time.monotonic() - begin:.1f} s, {len(stream.pods())} pods meanwhile")
    assert eventually(stream.ended, 120)
    failed = [pod for pod in stream.pods() if pod["status"]["phase"] == "Failed"]
    assert failed == [], [pod["status"] for pod in failed]
    assert life(kubectl, sitting) == before
