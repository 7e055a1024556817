"""A node with pods by ResourceClaims disappears: claims and slices are freed, and the pods run elsewhere."""

import time
from collections.abc import Iterator

import pytest

from device_plugin.kube.api import NODES, Ref
from tests.e2e import nodes
from tests.e2e.claims import CLAIMS, asking, claim_pod, template
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl, api
from tests.e2e.machines import Machines, all_ready
from tests.e2e.nightly.accounts import check_accounts
from tests.e2e.nightly.test_claims import files, is_clean
from tests.e2e.slices import inventory
from tests.e2e.test_claims import allow
from tests.e2e.waiting import eventually
from tests.e2e.workloads import deployment

STAYS, LOST = "n1", "n2"
REPLICAS = 6


@pytest.fixture
def kubectl(machines: Machines) -> Iterator[Kubectl]:
    """kubectl in a namespace with REPLICAS pods by claims, all of them on the node LOST."""
    assert machines
    with in_own_namespace() as made:
        allow(made)
        made.create(template("slice", asking("4Gi", 15)))
        Kubectl("")("cordon", STAYS)
        made.create(deployment("d", REPLICAS, claim_pod("any", "slice")))
        assert eventually(lambda: len(made.items()) == REPLICAS, 30)
        made.running()
        Kubectl("")("uncordon", STAYS)
        yield made


def uids(kubectl: Kubectl) -> set[str]:
    return {pod["metadata"]["uid"] for pod in kubectl.items()}


def test_pods_run_elsewhere_and_nothing_is_held_after_a_node_is_gone(
    kubectl: Kubectl, machines: Machines
) -> None:
    before, claims = uids(kubectl), {found["metadata"]["uid"] for found in kubectl.items(CLAIMS)}
    assert {pod["spec"]["nodeName"] for pod in kubectl.items()} == {LOST}
    machines.order(LOST, "crash")
    begin = time.monotonic()
    api().delete(NODES, Ref(LOST))  # as a cloud's controller does
    nodes.names.cache_clear()

    def have_moved() -> bool:
        pods = kubectl.items()
        running = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        return len(pods) == len(running) == REPLICAS and not before & uids(kubectl)

    assert eventually(have_moved, 120), kubectl("get", "pods", "--output=wide")
    print(f"{REPLICAS} pods by claims run on {STAYS} {time.monotonic() - begin:.1f} s after {LOST} is gone")
    assert eventually(lambda: not claims & {each["metadata"]["uid"] for each in kubectl.items(CLAIMS)}, 60)
    check_accounts(kubectl)
    print(f"nothing of the lost pods is held {time.monotonic() - begin:.1f} s after {LOST} is gone")

    machines.order(LOST, "boot")
    assert eventually(lambda: Kubectl("").has(NODES, LOST) and all_ready(), 120)
    Kubectl("")("label", "node", LOST, "vgpu.io/node=true")
    assert eventually(lambda: inventory(LOST).get("claims"), 120)
    nodes.names.cache_clear()
    assert eventually(lambda: is_clean(machines, LOST), 30), files(machines, LOST)
    kubectl.create(claim_pod("after", "slice", **nodes.on(LOST)))
    kubectl.running("after")
    check_accounts(kubectl)
