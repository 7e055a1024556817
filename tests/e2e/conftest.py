"""Tests of the product on a real cluster, from outside. `make e2e` runs them; $KUBECONFIG says where.

The cluster has the overlay `simulated`. What a test does to the machines themselves needs the project's own cluster.
"""

import os
import subprocess
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from device_plugin.kube.api import PODS, Kind, Ref
from device_plugin.kube.errors import GoneError
from hack.testbed import layout
from tests.e2e.kubectl import Kubectl, KubectlError, api
from tests.e2e.machines import Machines
from tests.e2e.waiting import eventually
from tests.e2e.workloads import pod

NAMESPACES = Kind("", "v1", "namespaces", "Namespace", dict)
ACCOUNTS = Kind("", "v1", "serviceaccounts", "ServiceAccount", dict)

if os.environ.get("VGPU_E2E") != "true":
    collect_ignore_glob = ["test_*.py"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """What the cluster looked like goes with each failure: the cluster is gone when it is read."""
    report = yield
    made = item.funcargs.get("kubectl") if isinstance(item, pytest.Function) else None
    if report.failed and isinstance(made, Kubectl):
        for title, command in (
            ("pods", ("get", "pods", "--output", "wide")),
            ("events", ("get", "events", "--sort-by=.lastTimestamp")),
        ):
            for looked in (made, Kubectl("vgpu-system")):
                last = _told(looked, *command).splitlines()[-40:]
                report.sections.append((f"{title} of {looked.namespace}", "\n".join(last)))
        for part in ("node", "cluster"):
            label = f"--selector=app.kubernetes.io/component={part}"
            logs = _told(Kubectl("vgpu-system"), "logs", label, "--all-containers", "--prefix", "--tail=40")
            report.sections.append((f"logs of the {part} service", logs))
    return report


def _told(kubectl: Kubectl, *command: str) -> str:
    try:
        return kubectl(*command)
    except (KubectlError, subprocess.TimeoutExpired) as error:
        return str(error)


@contextmanager
def in_own_namespace() -> Iterator[Kubectl]:
    """kubectl in a new namespace; all pods in it are gone at the end."""
    namespace = f"e2e-{uuid.uuid4().hex[:8]}"
    api().create(NAMESPACES, {"metadata": {"name": namespace}})
    made = Kubectl(namespace)
    assert eventually(lambda: made.has(ACCOUNTS, "default"), 20)
    yield made
    api().delete(NAMESPACES, Ref(namespace))  # with what makes new pods
    for left in made.items():
        with suppress(GoneError):
            api().delete(PODS, Ref(left["metadata"]["name"], namespace))
    assert eventually(lambda: not made.items(), 80)


@pytest.fixture
def kubectl() -> Iterator[Kubectl]:
    """kubectl in a namespace of the test's own; all pods in it are gone when the test ends."""
    with in_own_namespace() as made:
        yield made


@pytest.fixture(scope="module")
def kubectl_of_module() -> Iterator[Kubectl]:
    """kubectl in a namespace for tests that change nothing in it, such as those that look into one pair of pods."""
    with in_own_namespace() as made:
        yield made


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


@pytest.fixture
def log(machines: Machines) -> Path:
    """The audit log of the project's own cluster."""
    assert machines
    return layout.here().audit


@pytest.fixture
def important() -> Iterator[str]:
    """A PriorityClass above that of other pods; classes have no namespace."""
    name = f"important-{uuid.uuid4().hex[:8]}"
    Kubectl("")("create", "priorityclass", name, "--value=1000")
    assert eventually(lambda: not Kubectl().would_refuse(pod("any", priorityClassName=name)), 20)
    yield name
    Kubectl("")("delete", "priorityclass", name)
