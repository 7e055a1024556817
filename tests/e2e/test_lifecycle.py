"""The product is removed, installed again and upgraded while slices run."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.testbed.cluster import PROJECT
from hack.testbed.previous import TAG
from tests.e2e import nodes, service
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.slices import Held, check_disjoint, held, inventory
from tests.e2e.test_restarts import life
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod
from tests.requirement import require

pytestmark = pytest.mark.disturbs
OVERLAY = "manifests/overlays/simulated"
ANYWHERE = Kubectl("")


def apply(source: Path = PROJECT, tag: str = "") -> None:
    """Install what is in a checkout, with another tag of our images if one is named; return once it serves."""
    text = ANYWHERE("kustomize", str(source / OVERLAY))
    if tag:
        text = re.sub(r"(image: vgpu\.io/vgpu(-simulated)?):0\.1\.0", rf"\1:{tag}", text)
    ANYWHERE("apply", "--filename", "-", given=text)
    for workload in ("daemonset/vgpu-node", "deployment/vgpu-cluster"):
        service.SYSTEM("rollout", "status", workload, "--timeout=300s")
    assert eventually(lambda: all(inventory(node).get("serving") for node in nodes.names()), 30)


@pytest.fixture
def previous(machines: Machines) -> tuple[Path, str]:
    """The checkout of an earlier commit (hack/testbed/upgrade-from), and the tag of its images on all nodes."""
    source = os.environ.get("VGPU_E2E_PREVIOUS")
    require(source, "needs the images of an earlier commit, which make e2e builds")
    assert source
    assert machines, "nobody else's cluster has them"
    return Path(source), TAG


@pytest.fixture
def installed() -> Iterator[None]:
    """However the test ends, what is in this checkout is installed."""
    yield
    apply()


def sitting(kubectl: Kubectl) -> dict[str, tuple[tuple[str, int], list[Held]]]:
    """What holds for pods that must not notice anything: container, restarts, slices."""
    names = [pod["metadata"]["name"] for pod in kubectl.items()]
    return {name: (life(kubectl, name), held(kubectl, name)) for name in names}


def fill(kubectl: Kubectl, *names: str) -> None:
    kubectl.create(*(slice_pod(name, mem=8, cores=30) for name in names))
    kubectl.running(*names)


def ledger_has(kubectl: Kubectl, *names: str) -> bool:
    uids = {kubectl.pod(name)["metadata"]["uid"] for name in names}
    return uids <= {uid for _, uid, _ in service.held(service.leader())}


@pytest.mark.usefixtures("installed")
def test_slices_outlive_the_product_and_are_taken_up_again(kubectl: Kubectl, machines: Machines) -> None:
    assert machines, "nobody else's cluster is to lose the product"
    fill(kubectl, "a", "b", "c")
    before = sitting(kubectl)
    ANYWHERE("delete", "--kustomize", str(PROJECT / OVERLAY), "--timeout=240s")
    assert sitting(kubectl) == before
    seen = json.loads(kubectl.inside("a", "vgpu-probe", "info").splitlines()[-1])
    assert seen["total_mib"] == 8184, "the limit holds without us"
    apply()
    assert sitting(kubectl) == before
    assert eventually(lambda: ledger_has(kubectl, "a", "b", "c"), 60)
    fill(kubectl, "d")
    check_disjoint([one for name in "abcd" for one in held(kubectl, name)])


@pytest.mark.usefixtures("installed")
def test_an_older_version_and_the_upgrade_from_it_leave_running_slices_alone(
    kubectl: Kubectl, previous: tuple[Path, str]
) -> None:
    fill(kubectl, "a", "b", "c")
    before = sitting(kubectl)
    apply(*previous)
    assert sitting(kubectl) == before
    assert eventually(lambda: ledger_has(kubectl, "a", "b", "c"), 60)
    fill(kubectl, "d")
    check_disjoint([one for name in "abcd" for one in held(kubectl, name)])

    before = sitting(kubectl)
    apply()
    assert sitting(kubectl) == before
    assert eventually(lambda: ledger_has(kubectl, "a", "b", "c", "d"), 60)
    kubectl.gone("a")
    fill(kubectl, "e")
    check_disjoint([one for name in "bcde" for one in held(kubectl, name)])
