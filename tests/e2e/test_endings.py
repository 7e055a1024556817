"""However a pod ends, its slice returns within 5 s and its files go within 10 s."""

import time
from collections.abc import Callable

import pytest

from device_plugin.kube.api import PODS
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.slices import held
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import pod, slice_pod

NODE = "n1"
HERE = nodes.on(NODE)
DEAF = ["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]


def onlooker() -> str:
    """A replica of the cluster service that stays when the node is drained: the leader, unless it runs there."""
    leader, staying = service.leader(), [each for each in service.replicas() if service.node_of(each) != NODE]
    return leader if leader in staying else staying[0]


def slice_is_free(uid: str, replica: str = "") -> bool:
    """True if nothing is held for the pod in the ledger of this replica (default: of the leader)."""
    return uid not in {entry[1] for entry in service.held(replica or service.leader())}


def files(machines: Machines, uid: str) -> str:
    """Our files on the node that name the pod."""
    return machines.run(NODE, "sh", "-c", f"grep -rl {uid} /var/lib/vgpu /run/cdi || true").strip()


def finish(kubectl: Kubectl, name: str) -> None:
    kubectl.inside(name, "touch", "/tmp/finish")  # noqa: S108 - in the container
    assert eventually(lambda: kubectl.phase(name) == "Succeeded", 30)


def fail(kubectl: Kubectl, name: str) -> None:
    kubectl.inside(name, "touch", "/tmp/fail")  # noqa: S108 - in the container
    assert eventually(lambda: kubectl.phase(name) == "Failed", 30)


def evict(kubectl: Kubectl, name: str) -> None:
    kubectl("create", "--raw", f"/api/v1/namespaces/{kubectl.namespace}/pods/{name}/eviction", "-f", "-",
            given=f'{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{name}"}}}}')  # fmt: skip
    assert eventually(lambda: not kubectl.has(PODS, name), 30)


def delete(kubectl: Kubectl, name: str) -> None:
    kubectl.gone(name)


def drain(kubectl: Kubectl, name: str) -> None:
    try:
        kubectl("drain", NODE, "--ignore-daemonsets", "--force", "--delete-emptydir-data", "--timeout=180s")
        assert not kubectl.has(PODS, name)
    finally:
        kubectl("uncordon", NODE)


WAIT = ["sh", "-c", "while :; do test -e /tmp/finish && exit 0; test -e /tmp/fail && exit 1; sleep 0.1; done"]


@pytest.mark.parametrize("end", [finish, fail, evict, delete, drain])
def test_the_slice_returns_and_the_files_go(
    kubectl: Kubectl, machines: Machines, end: Callable[[Kubectl, str], None]
) -> None:
    kubectl.create(slice_pod("one", mem=4, cores=15, command=WAIT, restartPolicy="Never", **HERE))
    kubectl.running("one")
    uid = kubectl.pod("one")["metadata"]["uid"]
    replica = onlooker()
    assert eventually(lambda: not slice_is_free(uid, replica), 10), "a replica sees it later"
    assert files(machines, uid)
    end(kubectl, "one")
    ended = time.monotonic()
    assert within(lambda: slice_is_free(uid, replica), 5)
    assert within(lambda: not files(machines, uid), 10 - (time.monotonic() - ended))


def test_a_successor_starts_only_when_a_deaf_predecessor_is_gone(
    kubectl: Kubectl, machines: Machines
) -> None:
    """The predecessor's object is removed by force; its container ignores SIGTERM for its whole grace period."""
    card = {"metadata": {"annotations": {"vgpu.io/card-uuid": ""}}}
    kubectl.create(slice_pod("deaf", mem=16, cores=60, command=DEAF, **HERE, terminationGracePeriodSeconds=8))
    kubectl.running("deaf")
    (before,) = held(kubectl, "deaf")
    container = kubectl.pod("deaf")["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    body = slice_pod("successor", mem=16, cores=60, **HERE)
    card["metadata"]["annotations"]["vgpu.io/card-uuid"] = before.card
    body["metadata"] |= {"annotations": card["metadata"]["annotations"]}
    # Not --force: that sends a grace period of 0 to the kubelet too, which would kill at once.
    kubectl("delete", "pod", "deaf", "--wait=false")
    kubectl("patch", "pod", "deaf", "--type=merge", "--patch", '{"metadata": {"finalizers": null}}')
    kubectl("delete", "pod", "deaf", "--force", "--grace-period=0", "--wait=false")
    kubectl.create(body)
    alive = f"grep -l {container} /proc/[0-9]*/cgroup"
    overlap = False

    def started() -> bool:
        nonlocal overlap
        running = kubectl.phase("successor") == "Running"
        overlap |= running and bool(machines.run(NODE, "sh", "-c", f"{alive} 2>/dev/null || true").strip())
        return running

    assert eventually(started, 90), kubectl("describe", "pod", "successor")
    assert not overlap
    assert held(kubectl, "successor")[0].card == before.card


def test_pods_without_slices_are_not_ours(kubectl: Kubectl) -> None:
    kubectl.create(pod("plain"))
    kubectl.running("plain")
    assert kubectl.pod("plain")["spec"]["schedulerName"] == "default-scheduler"
    assert "vgpu.io/grant" not in kubectl.pod("plain")["metadata"].get("annotations", {})
