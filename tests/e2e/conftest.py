"""Tests of the product on a real cluster, from outside. `make e2e` runs them; $KUBECONFIG says where.

The cluster has the overlay `simulated`. What a test does to the machines themselves needs the project's own cluster.
"""

import os
import uuid
from collections.abc import Iterator

import pytest

from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.waiting import eventually

if os.environ.get("VGPU_E2E") != "true":
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own; all pods in it are gone when the test ends."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    Kubectl()("create", "namespace", namespace)
    made = Kubectl(namespace)
    assert eventually(lambda: made("get", "serviceaccount", "default", "--ignore-not-found"), 20)
    yield made
    Kubectl()("delete", "namespace", namespace, "--wait=false")  # with what makes new pods
    made("delete", "pods", "--all", "--timeout=120s")


@pytest.fixture(scope="session")
def system() -> Kubectl:
    """kubectl in the namespace of our services."""
    return Kubectl("vgpu-system")


@pytest.fixture
def machines() -> Iterator[Machines]:
    """The machines of the project's own cluster; everything runs again when the test ends."""
    made = Machines()
    yield made
    made.recover()
