"""JobSets, RayJobs and the other kinds in the queue of a real cluster; stand-ins make their pods."""

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from device_plugin.core.contract.annotations import QUEUE, RESIZE
from device_plugin.core.contract.resize import Resize
from device_plugin.core.workload_kinds import (
    JOB_SET,
    MPI_JOB,
    PYTORCH_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    TRAIN_JOB,
    WorkloadKind,
)
from device_plugin.kube.api import JOBS
from tests.builders.workloads import KINDS, Sets, body
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl, KubectlError
from tests.e2e.queued_jobs import kill_engine, queued, running
from tests.e2e.slices import inventory
from tests.e2e.waiting import eventually
from tests.e2e.workload_controllers import Controllers, installed
from tests.e2e.workloads import IMAGE, SLEEP, deployment, pod

SECONDS = 120


@pytest.fixture(scope="module", autouse=True)
def definitions() -> Iterator[None]:
    with installed():
        yield


@pytest.fixture
def controllers(kubectl: Kubectl) -> Iterator[Controllers]:
    with Controllers(kubectl.namespace).running() as made:
        yield made


def workload(kind: WorkloadKind, name: str, sets: Sets, **more: Any) -> dict[str, Any]:
    """A workload whose pods run the image of these tests, on the first node."""
    made = body(kind, name, sets, **{"terminationGracePeriodSeconds": 1, **more})
    _with_image(made)
    return made


def _with_image(found: Any) -> None:
    if isinstance(found, dict):
        if found.get("image") == "none":
            found |= {"image": IMAGE, "imagePullPolicy": "IfNotPresent", "command": list(SLEEP)}
        for each in found.values():
            _with_image(each)
    elif isinstance(found, list):
        for each in found:
            _with_image(each)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_it_starts_and_its_pods_are_placed_together_or_not_at_all(
    kubectl: Kubectl, controllers: Controllers, kind: WorkloadKind
) -> None:
    controllers.held_back.add("a")
    kubectl.create(workload(kind, "a", ((3, 1),) if kind is TRAIN_JOB else ((2, 1), (1, 2))))
    # A head without cards is made too, and waits for nothing.
    heads = int(kind in (RAY_JOB, RAY_CLUSTER))
    assert eventually(lambda: len(controllers.pods(kind, "a")) == 2 + heads, SECONDS)
    time.sleep(3)
    bound = [each["metadata"]["name"] for each in controllers.pods(kind, "a") if each["spec"].get("nodeName")]
    assert len(bound) == heads, "a pod was placed before the last one existed"
    controllers.held_back.clear()
    assert eventually(partial(controllers.run, kind, "a", 3 + heads), SECONDS)
    assert Resize.decode(controllers.get(kind, "a")["metadata"]["annotations"][RESIZE]).after == 3


def test_a_queue_of_mixed_kinds_takes_turns_and_goes_on_after_the_engine_was_killed(
    kubectl: Kubectl, controllers: Controllers
) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(workload(JOB_SET, "first", ((cards, 1),)))
    assert eventually(partial(controllers.run, JOB_SET, "first", cards), SECONDS)
    later = ((PYTORCH_JOB, "second"), (MPI_JOB, "fourth"))
    kubectl.create(workload(*later[0], ((1, cards),)))
    time.sleep(1.1)
    kubectl.create(queued("third", cards))
    time.sleep(1.1)
    kubectl.create(workload(*later[1], ((cards, 1),)))
    kill_engine()
    controllers.complete(JOB_SET, "first")
    assert eventually(partial(controllers.run, PYTORCH_JOB, "second", 1), SECONDS)
    assert kubectl.get(JOBS, "third")["spec"]["suspend"]
    assert controllers.suspended(MPI_JOB, "fourth")
    controllers.complete(PYTORCH_JOB, "second")
    assert eventually(partial(running, kubectl, "third", cards), SECONDS)
    assert controllers.suspended(MPI_JOB, "fourth")
    kubectl("delete", "job", "third", "--cascade=foreground")
    assert eventually(partial(controllers.run, MPI_JOB, "fourth", cards), SECONDS)


def test_it_stops_for_a_higher_priority_and_goes_on_later(
    kubectl: Kubectl, controllers: Controllers, important: str
) -> None:
    cards = len(inventory(nodes.first())["cards"])
    kubectl.create(workload(JOB_SET, "low", ((cards, 1),)))
    assert eventually(partial(controllers.run, JOB_SET, "low", cards), SECONDS)
    kubectl.create(workload(RAY_JOB, "high", ((1, cards),), priorityClassName=important))
    assert eventually(partial(controllers.run, RAY_JOB, "high", 2), SECONDS)
    assert controllers.suspended(JOB_SET, "low")
    controllers.complete(RAY_JOB, "high")
    assert eventually(partial(controllers.run, JOB_SET, "low", cards), SECONDS)


def test_a_label_where_no_queue_reads_it_is_said(kubectl: Kubectl) -> None:
    made = deployment("other", 1, pod("other"))
    kubectl.create(made)
    with pytest.raises(KubectlError, match="has no effect on deployments"):
        kubectl("label", "deployment", "other", f"{QUEUE}=default", "--warnings-as-errors")
