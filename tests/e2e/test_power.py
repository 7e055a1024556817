"""A node loses its power, and comes back with pods scheduled to it meanwhile."""

import pytest

from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines, all_ready
from tests.e2e.slices import check_disjoint, held, inventory
from tests.e2e.test_progress import exported
from tests.e2e.test_restarts import allocatable, life
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

pytestmark = pytest.mark.disturbs
NODE = "n2"
# They wait for the node as long as it takes, where the default is to be evicted.
STAY = [{"operator": "Exists", "effect": "NoExecute"}, {"operator": "Exists", "effect": "NoSchedule"}]
HERE = {**nodes.on(NODE), "tolerations": STAY}


def test_a_node_that_comes_back_runs_old_and_new_pods(kubectl: Kubectl, machines: Machines) -> None:
    kubectl.create(slice_pod("old", mem=4, cores=15, **HERE))
    kubectl.running("old")
    before, first_life, full = held(kubectl, "old"), life(kubectl, "old"), allocatable(NODE)
    assert eventually(lambda: service.restarts(NODE) >= 0, 60), "Ready"
    restarts = service.restarts(NODE)
    machines.order(NODE, "crash")
    assert inventory(NODE)["serving"], "what has no power tells nobody that it ends"
    # The kubelet cannot say that it is gone: the API server has the old pod as Running, and takes new ones for it.
    # The leader may have gone with it: then another leads when its Lease has run out.
    kubectl.create(slice_pod("new", mem=4, cores=15, **HERE))
    assert eventually(lambda: kubectl.pod("new")["spec"].get("nodeName") == NODE, 90)
    machines.order(NODE, "boot")
    assert eventually(all_ready, 90)
    assert eventually(lambda: service.restarts(NODE) > restarts, 120), "the agent came back"
    assert eventually(lambda: allocatable(NODE) == full, 60)
    assert eventually(lambda: exported(NODE)["vgpu_writable_spare_containers"][""] > 0, 30), "mounted again"

    def both() -> bool:
        return all(settled(name) for name in ("old", "new"))

    def settled(name: str) -> bool:
        # Until the kubelet has looked, the API server shows what held before the crash.
        status = kubectl.pod(name)["status"]
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions", []))
        return status["phase"] == "Failed" or (ready and life(kubectl, name) != first_life)

    assert eventually(both, 120), kubectl("describe", "pods")
    survivors = [name for name in ("old", "new") if kubectl.phase(name) == "Running"]
    for name in {"old", "new"} - set(survivors):
        # Rejected by the kubelet before the agent had registered again.
        assert kubectl.pod(name)["status"]["reason"] == "UnexpectedAdmissionError"
    slices = [one for name in survivors for one in held(kubectl, name)]
    check_disjoint(slices)
    if "old" in survivors:
        assert held(kubectl, "old") == before
    kubectl.create(slice_pod("after", mem=4, cores=15, **HERE))
    kubectl.running("after")
    check_disjoint(slices + held(kubectl, "after"))
