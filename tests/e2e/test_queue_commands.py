"""The queue as people see it: with the commands of vgpu, with kubectl alone, and once the job engine is removed."""

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from device_plugin.core.contract.annotations import QUEUE, RESIZE
from device_plugin.kube.api import JOBS
from hack.testbed import install, layout
from tests.e2e.conftest import in_own_namespace
from tests.e2e.kubectl import Kubectl
from tests.e2e.machines import Machines
from tests.e2e.nodes import first
from tests.e2e.queued_jobs import elastic, one_card, queued, running
from tests.e2e.service import SYSTEM
from tests.e2e.slices import inventory
from tests.e2e.waiting import PATIENCE, eventually
from tests.pages import PROJECT, blocks, shown

SECONDS = 120
RBAC = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding"}


class Person:
    """A service account that may edit what is in one namespace, and its kubeconfig."""

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        self._kubectl = kubectl
        kubectl("create", "serviceaccount", "person")
        self.bind(kubectl, "edit", kind="ClusterRole")
        config = yaml.safe_load(Path(os.environ["KUBECONFIG"]).read_text(encoding="utf-8"))
        (user,), (context,) = config["users"], config["contexts"]
        user["user"] = {"token": kubectl("create", "token", "person").strip()}
        context["context"]["namespace"] = kubectl.namespace
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(config), encoding="utf-8")

    def bind(self, where: Kubectl, role: str, kind: str = "Role") -> None:
        """Give the account a role in a namespace."""
        subject = {"kind": "ServiceAccount", "name": "person", "namespace": self._kubectl.namespace}
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
        metadata = {"name": f"{self._kubectl.namespace}-{role}"}
        where.create({**RBAC, "metadata": metadata, "roleRef": reference, "subjects": [subject]})

    def vgpu(self, *words: str) -> tuple[int, str]:
        """The status of a command of vgpu, and what it prints."""
        command = [sys.executable, "-m", "device_plugin", *words, "--kubeconfig", str(self.kubeconfig)]
        done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False, timeout=180)
        return done.returncode, done.stdout + done.stderr

    def shell(self, line: str) -> str:
        """What a line prints that a page shows."""
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(
            ["sh", "-ec", line], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (line, done.stderr)
        return done.stdout


@pytest.fixture
def cards() -> int:
    return len(inventory(first())["cards"])


@pytest.fixture
def person(kubectl: Kubectl, tmp_path: Path) -> Person:
    return Person(kubectl, tmp_path)


def page(beginning: str) -> str:
    """The block of docs/jobs.md that begins so."""
    (found,) = [text for path, text in blocks("sh") if path.name == "jobs.md" and text.startswith(beginning)]
    return found


def test_queue_why_and_admit_work_with_the_roles_of_the_page(
    kubectl: Kubectl, person: Person, cards: int
) -> None:
    tells = ["sh", "-c", "/usr/local/vgpu/vgpu-progress 12 90; exec sleep 100000"]
    kubectl.create(elastic("train", 1, cards, one_card(command=tells)))
    assert eventually(partial(running, kubectl, "train", cards), SECONDS)
    kubectl.create(queued("late", cards))
    assert eventually(lambda: any("JobWaits: waits for room" in text for text in kubectl.events("late")), 30)

    status, told = person.vgpu("queue")
    assert (status, "bind the Role ask-job-engine" in told, "waits for room" in told) == (0, True, True), told
    assert person.vgpu("jobs", "-o", "name")[1].split()[:2] == [
        f"job/{kubectl.namespace}/{name}" for name in ("late", "train")
    ]
    SYSTEM.apply(shown("Role", "jobs.md", "ask-job-engine"))
    person.bind(SYSTEM, "ask-job-engine")

    def with_progress() -> str:
        told = person.vgpu("queue")[1]
        return told if "12/90" in told else ""

    told = eventually(with_progress, 30)
    assert told, person.vgpu("queue")
    rows = {line.split()[0]: line.split() for line in told.splitlines()}
    assert rows["late"][1:7] == ["default", "1", "waiting", "0", str(cards), str(cards)]
    assert rows["train"][1:7] == ["default", "<none>", "running", str(cards), "1", str(cards)]
    assert "It is number 1 of those that wait in its queue" in person.vgpu("why", "late")[1]

    status, told = person.vgpu("queue", "admit", "late")
    assert (status, "the verb admit on jobs.vgpu.io" in told) == (2, True), told
    role = shown("Role", "jobs.md", "admit-jobs")
    role["metadata"]["namespace"] = kubectl.namespace
    kubectl.apply(role)
    person.bind(kubectl, "admit-jobs")
    started = f"{kubectl.namespace}/late starts with {cards} pods\n"
    assert eventually(lambda: person.vgpu("queue", "admit", "late") == (0, started), 30)
    with_kubectl_alone(kubectl, person, cards)


def with_kubectl_alone(kubectl: Kubectl, person: Person, cards: int) -> None:
    """Everything that the page shows for Job `train`, line by line."""
    described, listed, told, started, stopped, held, out = page("kubectl describe job train").splitlines()
    assert "JobAdmitted" in person.shell(described)
    rows = [line.split() for line in person.shell(listed).splitlines()]
    assert ["train", "default", "false", str(cards), "1", str(cards)] in [row[:6] for row in rows]
    assert person.shell(told).splitlines()[0].strip() == "12 90"
    assert "no change" in person.shell(started)
    assert "patched" in person.shell(stopped)
    assert "annotated" in person.shell(held)
    person.shell(out)
    assert QUEUE not in kubectl.get(JOBS, "train")["metadata"].get("labels", {})


def test_a_job_is_stopped_until_it_is_resumed(kubectl: Kubectl, person: Person, cards: int) -> None:
    kubectl.create(queued("train", cards))
    assert eventually(partial(running, kubectl, "train", cards), SECONDS)
    kubectl.create(queued("late", cards))
    said = f"{kubectl.namespace}/train is held: its pods end, and `vgpu resume train` lets it go on\n"
    assert person.vgpu("stop", "train") == (0, said)
    assert eventually(partial(running, kubectl, "late", cards), SECONDS)
    assert any("JobStopped: stops, because it is held" in text for text in kubectl.events("train"))
    held = "is held by its author: `vgpu resume` lets it wait for cards again"
    assert held in person.vgpu("jobs")[1]
    kubectl("delete", "job", "late", "--cascade=foreground")
    # The cards are free, and rounds of the engine pass: the Job stays where it is.
    kubectl.create(queued("other", cards))
    assert eventually(partial(running, kubectl, "other", cards), SECONDS)
    assert kubectl.get(JOBS, "train")["spec"]["suspend"]
    kubectl("delete", "job", "other", "--cascade=foreground")
    assert person.vgpu("resume", "train") == (0, f"{kubectl.namespace}/train waits for cards again\n")
    assert eventually(partial(running, kubectl, "train", cards), SECONDS)


@pytest.fixture
def installed_again(machines: Machines) -> Iterator[None]:
    """The job engine of the project's own cluster is there again when the test has ended."""
    assert machines
    yield
    overlay = install.overlay_folder(layout.here())
    Kubectl("")("apply", "--kustomize", str(overlay))
    SYSTEM("rollout", "status", "deployment/vgpu-jobs", f"--timeout={PATIENCE * SECONDS}s")


@pytest.mark.usefixtures("installed_again")
def test_removing_the_engine_leaves_no_job_suspended(important: str, cards: int) -> None:
    with in_own_namespace() as kubectl:
        kubectl.create(queued("stopped", cards))
        assert eventually(partial(running, kubectl, "stopped", cards), SECONDS)
        higher = queued("urgent", cards)
        higher["spec"]["template"]["spec"]["priorityClassName"] = important
        kubectl.create(higher)
        assert eventually(partial(running, kubectl, "urgent", cards), SECONDS)
        assert kubectl.get(JOBS, "stopped")["spec"]["suspend"]
        subprocess.run(
            ["sh", "-ec", page("cd manifests")], cwd=PROJECT, check=True, timeout=PATIENCE * SECONDS
        )
        left = kubectl.get(JOBS, "stopped")
        assert (left["spec"]["suspend"], RESIZE in left["metadata"].get("annotations", {})) == (False, False)
        kubectl("delete", "job", "urgent", "--cascade=foreground")
        assert eventually(partial(running, kubectl, "stopped", cards), SECONDS)
