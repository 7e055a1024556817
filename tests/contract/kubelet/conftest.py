"""One node for all tests here: the stand-in's, or with VGPU_CONTRACT_KUBECONFIG the first of hack/cluster."""

import os
from collections.abc import Iterator

import pytest

from hack.testbed.cluster import INSIDE
from tests import compiled
from tests.contract.cluster import Cluster
from tests.contract.kubelet.machines import Machine, Real, StandIn
from tests.contract.kubelet.node import Node
from tests.requirement import require


@pytest.fixture(scope="package")
def machine(cluster: Cluster) -> Iterator[Machine]:
    made: Machine
    if os.environ.get("VGPU_CONTRACT_KUBECONFIG"):
        require(
            os.environ.get(INSIDE), "reaches into a node, so it needs the project's own cluster: make e2e"
        )
        made = Real()
    else:
        compiled.launcher()
        made = StandIn(f"http://{cluster.address}", "token-of-kubelet")
    yield made
    made.close()


@pytest.fixture
def node(cluster: Cluster, machine: Machine) -> Iterator[Node]:
    made = Node(cluster, machine)
    yield made
    made.close()
