"""A pod's object is gone, and its process is not: the slice stays held, and nobody is placed there."""

from device_plugin.kube.api import PODS
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.slices import held, inventory
from tests.e2e.test_endings import DEAF, slice_is_free
from tests.e2e.waiting import eventually, within
from tests.e2e.workloads import slice_pod

NODE = "n1"
HERE = nodes.on(NODE)


def outlives(uid: str) -> bool:
    """True if the leader's ledger has the slice as one that its node reports beyond the end of its pod."""
    return any(one["uid"] == uid and one["outliving"] for _, one in service.ledger_slices(service.leader()))


def test_a_process_that_outlives_its_pod_keeps_its_slice(kubectl: Kubectl, machines: Machines) -> None:
    """A first deletion with a long grace period, then one by force: the object is gone, the process is not."""
    kubectl.create(slice_pod("deaf", mem=16, cores=60, command=DEAF, **HERE))
    kubectl.running("deaf")
    (before,) = held(kubectl, "deaf")
    uid = kubectl.pod("deaf")["metadata"]["uid"]
    container = kubectl.pod("deaf")["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    kubectl("delete", "pod", "deaf", "--grace-period=3600", "--wait=false")
    # Until the kubelet has begun to wait for an hour, the second deletion would shorten the wait.
    assert eventually(lambda: any("Stopping container" in event for event in kubectl.events("deaf")), 30)
    kubectl("delete", "pod", "deaf", "--force", "--grace-period=0", "--wait=false")
    assert eventually(lambda: not kubectl.has(PODS, "deaf"), 30)
    assert eventually(lambda: uid in {each["pod"] for each in inventory(NODE).get("slices", ())}, 10)
    # The allocator reads that later than it is written, and keeps the slice by itself for some seconds only.
    assert eventually(lambda: outlives(uid), 10)
    others = [f"next-{i}" for i in range(4)]
    kubectl.create(*(slice_pod(name, mem=16, cores=60, **HERE) for name in others))
    assert eventually(lambda: [kubectl.phase(name) for name in others].count("Running") == 3, 60)
    (last,) = [name for name in others if kubectl.phase(name) == "Pending"]
    placed = {held(kubectl, name)[0].card for name in others if name != last}
    assert placed == {card["uuid"] for card in inventory(NODE)["cards"]} - {before.card}
    says = f"slices of ended pod {kubectl.namespace}/deaf still run on {NODE}"
    assert eventually(lambda: any(says in event for event in kubectl.events(last)), 30)
    assert not slice_is_free(uid)
    # The first process that is killed takes the others with it: kill may no longer find them.
    kill = f"grep -l {container} /proc/[0-9]*/cgroup | cut -d/ -f3 | xargs kill -9 || true"
    machines.run(NODE, "sh", "-c", kill)
    assert within(lambda: slice_is_free(uid), 5)
    kubectl.running(last)
    assert held(kubectl, last)[0].card == before.card
