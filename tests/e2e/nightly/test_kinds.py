"""JobSets, PyTorchJobs and MPIJobs of their real controllers in a queue, on simulated cards."""

import json
import subprocess
import sys
import time
from functools import partial
from typing import Any

import pytest

from device_plugin.core.contract.annotations import RESIZE
from device_plugin.core.contract.grants import Grant
from device_plugin.core.contract.resize import Resize
from device_plugin.core.pod_sets import at, pod_sets
from device_plugin.core.workload_kinds import JOB_SET, MPI_JOB, PYTORCH_JOB, WorkloadKind
from device_plugin.kube.api import PODS, WORKLOADS
from hack.testbed import controllers
from tests.builders.workloads import Sets, body
from tests.e2e import nodes
from tests.e2e.kubectl import Kubectl
from tests.e2e.nightly.controllers import install
from tests.e2e.slices import grant, inventory
from tests.e2e.waiting import eventually
from tests.e2e.workloads import IMAGE
from tests.pages import PROJECT

SECONDS = 120
# The label of the MPI operator for the role of a pod.
ROLE = "training.kubeflow.org/job-role"
# The file by which a test ends a program well.
DONE = "/tmp/done"  # noqa: S108
PROGRAM = ("sh", "-c", f"echo begins; trap 'exit 143' TERM; until [ -e {DONE} ]; do sleep 0.2; done")
EACH = (JOB_SET, PYTORCH_JOB, MPI_JOB)
OF_EACH = pytest.mark.parametrize("kind", EACH, ids=[kind.name for kind in EACH])


@pytest.fixture(scope="module", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The controllers serve, with their webhooks."""
    for each in controllers.KINDS:
        install(each, tmp_path_factory.mktemp(each.name))
    for kind in EACH:
        assert eventually(partial(taken, workload(kind, "any", ((1, 1),))), 60)


def taken(body: dict[str, Any]) -> bool:
    """True if the API server would create the object; while a webhook does not serve, KubectlError is raised."""
    return not Kubectl().would_refuse(body)


def workload(kind: WorkloadKind, name: str, sets: Sets, **more: Any) -> dict[str, Any]:
    """A queued workload as its author writes it, without `suspend`.

    A PyTorchJob has one set, its workers; so has an MPIJob, beside its launcher without cards.
    """
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, **more}
    made = body(kind, name, ((1, 0), *sets) if kind is MPI_JOB else sets, suspend=None, **pod)
    spec = made["spec"]
    if kind is PYTORCH_JOB:
        (spec["pytorchReplicaSpecs"],) = ({"Worker": each} for each in spec["pytorchReplicaSpecs"].values())
    if kind is MPI_JOB:
        del spec["runPolicy"]
        roles = zip(("Launcher", "Worker"), spec["mpiReplicaSpecs"].values(), strict=True)
        spec["mpiReplicaSpecs"] = dict(roles)
    for each in pod_sets(made):
        (main,) = each.template["spec"]["containers"]
        name_of_main = "pytorch" if kind is PYTORCH_JOB else "main"
        main |= {"name": name_of_main, "image": IMAGE, "imagePullPolicy": "Never", "command": list(PROGRAM)}
    return made


def found(kubectl: Kubectl, kind: WorkloadKind, name: str) -> Any:
    return kubectl.get(WORKLOADS[kind], name)


def suspended(kubectl: Kubectl, kind: WorkloadKind, name: str) -> bool:
    return at(found(kubectl, kind, name), "spec", *kind.suspend) is True


def pods(kubectl: Kubectl, kind: WorkloadKind, name: str) -> list[Any]:
    return [*kubectl.items(PODS, labels=f"{kind.pod_label}={name}")]


def runs(kubectl: Kubectl, kind: WorkloadKind, name: str, count: int) -> bool:
    """True if this number of pods of the workload run, and the launcher of an MPIJob, and no other pod of it exists."""
    count += kind is MPI_JOB
    return [each["status"].get("phase") for each in pods(kubectl, kind, name)] == ["Running"] * count


def said(kubectl: Kubectl, kind: WorkloadKind, name: str) -> str:
    """A workload, its events and the states of its pods, as text for the message of a failure."""
    status = [each["status"] for each in pods(kubectl, kind, name)]
    return f"{found(kubectl, kind, name)} {kubectl.events(name)} {status}"


def wait_to_run(kubectl: Kubectl, kind: WorkloadKind, name: str, count: int) -> None:
    assert eventually(partial(runs, kubectl, kind, name, count), SECONDS), said(kubectl, kind, name)


def waits(kubectl: Kubectl, kind: WorkloadKind, name: str) -> None:
    """Assert that the workload is suspended, and has no pod."""
    assert suspended(kubectl, kind, name)
    assert not pods(kubectl, kind, name)


def finish(kubectl: Kubectl, kind: WorkloadKind, name: str) -> None:
    """End the programs of a running workload well, and return once its controller says so.

    Of an MPIJob the launcher alone ends; its workers would run for ever.
    """
    for each in pods(kubectl, kind, name):
        if kind is not MPI_JOB or each["metadata"]["labels"][ROLE] == "launcher":
            kubectl("exec", each["metadata"]["name"], "--", "touch", DONE)

    def ended() -> bool:
        conditions = at(found(kubectl, kind, name), "status", "conditions") or ()
        return any(each["type"] == kind.complete and each["status"] == "True" for each in conditions)

    assert eventually(ended, SECONDS), said(kubectl, kind, name)


def cards() -> list[Any]:
    """The cards of the node."""
    return list(inventory(nodes.first())["cards"])


def granted(kubectl: Kubectl, kind: WorkloadKind, name: str) -> list[str]:
    """The cards of the workload's pods, by their grants."""
    grants = (grant(kubectl, each["metadata"]["name"]) for each in pods(kubectl, kind, name))
    return [each.card for found in grants if found for each in Grant.decode(json.dumps(found)).slices()]


def test_a_queue_of_all_starts_each_whole_and_in_turn(kubectl: Kubectl) -> None:
    count = len(cards())
    turns: tuple[tuple[WorkloadKind, str, Sets], ...] = (
        (JOB_SET, "first", ((count - 2, 1), (1, 2))),
        (PYTORCH_JOB, "second", ((count, 1),)),
        (JOB_SET, "third", ((1, count),)),
        (MPI_JOB, "fourth", ((count, 1),)),
        (PYTORCH_JOB, "fifth", ((count // 2, 2),)),
    )
    for kind, name, sets in turns:
        kubectl.create(workload(kind, name, sets))
        time.sleep(1.1)  # The order of a queue is that of creation, in whole seconds.
    for number, (kind, name, sets) in enumerate(turns):
        width = sum(replicas for replicas, _ in sets)
        wait_to_run(kubectl, kind, name, width)
        assert not suspended(kubectl, kind, name)
        record = found(kubectl, kind, name)["metadata"]["annotations"][RESIZE]
        assert Resize.decode(record).after == width
        assert sorted(granted(kubectl, kind, name)) == sorted(card["uuid"] for card in cards())
        for later, waiting, _ in turns[number + 1 :]:
            waits(kubectl, later, waiting)
        finish(kubectl, kind, name)


@OF_EACH
def test_while_a_pod_of_it_is_missing_none_is_placed(kubectl: Kubectl, kind: WorkloadKind) -> None:
    count = len(cards())
    kubectl("create", "quota", "few", f"--hard=pods={count - 1}")
    kubectl.create(workload(kind, "a", ((count, 1),)))
    assert eventually(lambda: len(pods(kubectl, kind, "a")) == count - 1, SECONDS), said(kubectl, kind, "a")
    time.sleep(3)
    bound = [each["metadata"]["name"] for each in pods(kubectl, kind, "a") if each["spec"].get("nodeName")]
    assert not bound, "a pod was placed before the last one existed"
    kubectl("delete", "quota", "few")
    wait_to_run(kubectl, kind, "a", count)


@OF_EACH
def test_it_stops_for_a_higher_priority_and_goes_on_later(
    kubectl: Kubectl, important: str, kind: WorkloadKind
) -> None:
    count = len(cards())
    other = MPI_JOB if kind is JOB_SET else JOB_SET
    kubectl.create(workload(kind, "low", ((count, 1),)))
    wait_to_run(kubectl, kind, "low", count)
    kubectl.create(workload(other, "high", ((1, count),), priorityClassName=important))
    wait_to_run(kubectl, other, "high", 1)
    waits(kubectl, kind, "low")
    finish(kubectl, other, "high")
    wait_to_run(kubectl, kind, "low", count)


def vgpu(kubectl: Kubectl, *words: str) -> str:
    """The output of a command of vgpu in the test's namespace; fails if the command does."""
    command = [sys.executable, "-m", "device_plugin", *words, "--namespace", kubectl.namespace]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 0, done.stderr
    return done.stdout


@OF_EACH
def test_while_it_is_held_it_keeps_nothing_and_is_not_started(kubectl: Kubectl, kind: WorkloadKind) -> None:
    count, name = len(cards()), f"{kind.name.lower()}/a"
    kubectl.create(workload(kind, "a", ((count, 1),)))
    wait_to_run(kubectl, kind, "a", count)
    assert vgpu(kubectl, "logs", name).splitlines() == ["begins"] * len(pods(kubectl, kind, "a"))
    assert "is held: its pods end" in vgpu(kubectl, "stop", name)
    kubectl.create(workload(JOB_SET, "b", ((1, count),)))
    wait_to_run(kubectl, JOB_SET, "b", 1)
    waits(kubectl, kind, "a")
    finish(kubectl, JOB_SET, "b")
    assert f"{name} held" in vgpu(kubectl, "why", name)
    time.sleep(3)
    waits(kubectl, kind, "a")
    assert "waits for cards again" in vgpu(kubectl, "resume", name)
    wait_to_run(kubectl, kind, "a", count)
    finish(kubectl, kind, "a")
    assert f"{name} complete" in vgpu(kubectl, "why", name)
    assert "is deleted" in vgpu(kubectl, "cancel", name, "--yes")
    assert eventually(lambda: not pods(kubectl, kind, "a"), SECONDS)
