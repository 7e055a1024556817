"""`vgpu logs`, `attach`, `stop`, `resume` and `cancel` on the embedded API server.

`kubectl` is a script that notes how it is called.
"""

import io
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import logs
from device_plugin.cli.run import logs as pod_logs
from device_plugin.cli.run import pods
from device_plugin.core.workload_kinds import (
    JOB_SET,
    MPI_JOB,
    MPI_JOB_V1,
    PYTORCH_JOB,
    RAY_CLUSTER,
    RAY_JOB,
    WorkloadKind,
)
from device_plugin.wiring.commands import main
from tests.builders import objects
from tests.builders.workloads import KINDS, body
from tests.cli.fleet import Fleet
from tests.contract.cluster import JOBS, PODS
from tests.deadline import until
from tests.ongoing import Ongoing

KUBECTL = """#!/bin/sh
echo "$*" >> {0}/asked
case "$*" in
*" logs train-0 "*) printf '2026-01-01T00:00:00.000000001Z zero\\n';;
*" logs "*) printf '2026-01-01T00:00:00.000000001Z one\\n2026-01-01T00:00:00.000000002Z two\\n';;
*" exec "*) exit 7;;
esac
"""
RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file with the words of each call of kubectl."""
    monkeypatch.setattr(logs, "LOOK_SECONDS", 0.02)
    # Pods run on after their Job's end: the kubectl here would print no more of them.
    monkeypatch.setattr(logs, "OUTPUT_SECONDS", 0.1)
    monkeypatch.setattr(pod_logs, "AGAIN_SECONDS", 0.02)
    monkeypatch.setattr(pod_logs, "REST_SECONDS", 0.02)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "kubectl").write_text(KUBECTL.format(tmp_path))
    (programs / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    return tmp_path / "asked"


@pytest.fixture
def train(fleet: Fleet) -> Fleet:
    """A Job with a pod that has ended, and one that runs."""
    fleet.post(JOBS, objects.job("train", 2))
    fleet.patch(f"{JOBS}/train/status", {"status": {"active": 2}})
    pod(fleet, 0)
    told(fleet, 0, "Succeeded", {"terminated": {"exitCode": 0}})
    pod(fleet, 1)
    told(fleet, 1, "Running", RUNS)
    return fleet


def pod(fleet: Fleet, index: int, container: str = "main") -> None:
    """A pod of the Job, as its controller makes it."""
    uid = fleet.get(f"{JOBS}/train")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    labels = {"batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/job-completion-index": str(index)}
    metadata = {"labels": labels, "ownerReferences": [owner]}
    containers = [objects.container(container)]
    fleet.post(
        PODS, objects.pod(f"train-{index}", metadata=metadata, restartPolicy="Never", containers=containers)
    )


def told(fleet: Fleet, index: int, phase: str, state: Any, container: str = "main") -> None:
    """The kubelet says this of the pod's container."""
    status = {
        "name": container, "image": "I", "imageID": "", "ready": phase == "Running", "restartCount": 0, "state": state,
    }  # fmt: skip
    fleet.say(f"train-{index}", phase=phase, containerStatuses=[status])


def vgpu(fleet: Fleet, *words: str) -> int:
    return main([*words, "--kubeconfig", str(fleet.kubeconfig)])


def test_the_output_of_all_pods_is_printed_one_after_the_other(
    train: Fleet, capfd: pytest.CaptureFixture[str], asked: Path
) -> None:
    assert vgpu(train, "logs", "train") == 0
    assert capfd.readouterr() == ("zero\none\ntwo\n", "")
    assert asked.read_text().splitlines() == [
        f"--namespace=default logs train-{index} --container=main --timestamps" for index in (0, 1)
    ]
    assert vgpu(train, "logs", "default/train", "--prefix", "--tail=5") == 0
    assert capfd.readouterr().out == "[0] zero\n[1] one\n[1] two\n"
    assert asked.read_text().splitlines()[-1].endswith(" --timestamps --tail=5")
    assert vgpu(train, "logs", "train", "--index=1") == 0
    assert capfd.readouterr().out == "one\ntwo\n"


def test_on_a_terminal_the_lines_of_several_pods_have_a_prefix(
    train: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    for words, printed in (
        (["train"], b"[0] zero\n[1] one\n[1] two\n"),
        (["train", "--index=1"], b"one\ntwo\n"),
    ):
        shown = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", Terminal(shown, write_through=True))
        assert vgpu(train, "logs", *words) == 0
        assert shown.getvalue() == printed


def test_pods_that_come_are_followed_until_the_job_has_ended(train: Fleet) -> None:
    following = Ongoing("logs", "train", "-f", "--kubeconfig", str(train.kubeconfig))
    # The outputs of pods are read at the same time: their order is open.
    until(lambda: sorted(following.out.split()) == ["one", "two", "zero"], "the output of two pods")
    pod(train, 2, container="trainer")
    told(train, 2, "Running", RUNS, container="trainer")
    until(lambda: sorted(following.out.split()) == ["one", "one", "two", "two", "zero"], "and of a third one")
    train.delete(f"{JOBS}/train")
    assert following.end() == 0


def test_a_pod_with_the_label_of_a_job_is_no_pod_of_it(
    train: Fleet, capfd: pytest.CaptureFixture[str], asked: Path
) -> None:
    labels = {"batch.kubernetes.io/job-name": "train", "batch.kubernetes.io/job-completion-index": "0"}
    train.post(PODS, objects.pod("evil", metadata={"labels": labels}, restartPolicy="Never"))
    train.say("evil", phase="Running", containerStatuses=[{
        "name": "main", "image": "I", "imageID": "", "ready": True, "restartCount": 0, "state": RUNS,
    }])  # fmt: skip
    assert vgpu(train, "attach", "train", "--dry-run") == 0
    assert "exec --stdin train-1 " in capfd.readouterr().out
    assert vgpu(train, "logs", "train") == 0
    assert capfd.readouterr().out == "zero\none\ntwo\n"
    assert "evil" not in asked.read_text()


def test_many_pods_are_read_one_after_the_other_with_one_list(train: Fleet, mocker: MockerFixture) -> None:
    for index in range(2, 8):
        pod(train, index)
        told(train, index, "Succeeded", {"terminated": {"exitCode": 0}})
    listed = mocker.spy(KubeClient, "list")
    assert vgpu(train, "logs", "train") == 0
    assert sum(call.args[1] is pods.JOB_PODS for call in listed.call_args_list) == 1


def test_pods_that_wait_to_be_read_are_counted(train: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_logs, "MOST_AT_ONCE", 1)
    following = Ongoing("logs", "train", "-f", "--kubeconfig", str(train.kubeconfig))
    following.says("1 more pods run: the output of 1 is read at the same time")
    train.delete(f"{JOBS}/train")
    assert following.end() == 0


@pytest.mark.parametrize("word", ["job", "jobs"])
def test_a_word_before_the_slash_is_a_namespace(
    train: Fleet, capfd: pytest.CaptureFixture[str], word: str
) -> None:
    assert vgpu(train, "cancel", f"{word}/train", "--yes") == 2
    assert capfd.readouterr().err == f"vgpu: there is no job {word}/train: see `kubectl get jobs -A`\n"
    assert train.get(f"{JOBS}/train")["metadata"]["name"] == "train"


def test_a_job_without_output_is_told_where_to_ask(fleet: Fleet, capfd: pytest.CaptureFixture[str]) -> None:
    fleet.post(JOBS, objects.job("train", 1))
    assert vgpu(fleet, "logs", "train") == 0
    said = "no pod of default/train has run: `vgpu why job/train` says what it waits for\n"
    assert capfd.readouterr() == ("", said)
    assert vgpu(fleet, "attach", "train") == 2
    assert capfd.readouterr().err.startswith("vgpu: no pod of default/train runs now: see what it waits for")


@pytest.mark.parametrize("command", ["logs", "attach", "stop", "resume", "cancel"])
def test_a_job_that_is_not_there_is_said_to_be_none(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    assert vgpu(fleet, command, "none") == 2
    assert capfd.readouterr().err == "vgpu: there is no job default/none: see `kubectl get jobs -A`\n"


def test_a_shell_or_a_program_runs_in_the_first_pod_that_runs(
    train: Fleet, capfd: pytest.CaptureFixture[str], asked: Path
) -> None:
    pod(train, 10)
    told(train, 10, "Running", RUNS)
    assert vgpu(train, "attach", "train") == 7
    shell = "exec --stdin train-1 --container=main -- sh -c command -v bash >/dev/null && exec bash; exec sh"
    assert asked.read_text() == f"--namespace=default {shell}\n"
    words = ["attach", "train", "--index=10", "--dry-run", "--kubeconfig", str(train.kubeconfig), "--as=jane"]
    assert main([*words, "--", "sh", "-c", "a b"]) == 0
    assert capfd.readouterr().out == (
        "kubectl --as=jane --namespace=default exec --stdin train-10 --container=main -- sh -c 'a b'\n"
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("typed", "status", "gone"),
    [("y\n", 0, True), ("YES\n", 0, True), ("\n", 1, False), ("", 1, False)],
)
def test_on_a_terminal_a_job_is_deleted_if_the_user_agrees(
    train: Fleet, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], typed: str, status: int, *,
    gone: bool,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys, "stdin", Terminal(typed))
    assert vgpu(train, "cancel", "train") == status
    said = capfd.readouterr()
    assert said.err.startswith("delete job default/train, which has 2 pods? [y/N] ")
    assert (said.out == "job default/train is deleted, and its pods end\n") == gone
    assert (train.get(f"{JOBS}/train")["kind"] != "Job") == gone


def test_a_job_is_deleted_without_a_question_on_demand_and_without_a_terminal(
    train: Fleet, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(""))
    assert vgpu(train, "cancel", "train", "--dry-run") == 0
    assert capfd.readouterr().out == "kubectl --namespace=default delete job train\n"
    assert train.get(f"{JOBS}/train")["kind"] == "Job"
    assert vgpu(train, "cancel", "train", "--yes") == 0
    train.post(JOBS, objects.job("train", 1))
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert vgpu(train, "cancel", "train") == 0
    assert capfd.readouterr().err == ""


def queued(fleet: Fleet, active: int = 0, labels: Mapping[str, str] = {}) -> None:
    """A suspended Job of a queue."""
    body = objects.job("train", 2)
    body["metadata"]["labels"] = {"vgpu.io/queue": "default", **labels}
    body["spec"]["suspend"] = True
    fleet.post(JOBS, body)
    fleet.patch(f"{JOBS}/train/status", {"status": {"active": active}})


def holds(fleet: Fleet) -> tuple[str | None, bool]:
    """The annotation by which the Job is held, and whether it is suspended."""
    found = fleet.get(f"{JOBS}/train")
    return found["metadata"].get("annotations", {}).get("vgpu.io/hold"), bool(found["spec"].get("suspend"))


@pytest.mark.parametrize(("active", "what"), [(0, "it does not start"), (2, "its pods end")])
def test_a_job_of_a_queue_is_held_and_released(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], active: int, what: str
) -> None:
    queued(fleet, active=active)
    assert vgpu(fleet, "resume", "train") == 0
    said = "default/train is not held, and waits in its queue: `vgpu why job/train` says for what\n"
    assert capfd.readouterr().out == said
    assert vgpu(fleet, "stop", "train") == 0
    assert capfd.readouterr().out == f"default/train is held: {what}, and `vgpu resume train` lets it go on\n"
    assert holds(fleet) == ("true", True)
    assert vgpu(fleet, "stop", "train") == 0
    assert capfd.readouterr().out == "default/train was stopped before: `vgpu resume train` lets it go on\n"
    assert vgpu(fleet, "resume", "train") == 0
    assert capfd.readouterr().out == "default/train waits for cards again\n"
    assert holds(fleet) == (None, True)


def test_a_job_without_a_queue_is_suspended_and_started(
    train: Fleet, capfd: pytest.CaptureFixture[str]
) -> None:
    assert vgpu(train, "resume", "train") == 0
    assert capfd.readouterr().out == "default/train was not stopped\n"
    assert vgpu(train, "stop", "train") == 0
    said = "default/train is suspended: its pods end, and `vgpu resume train` lets it go on\n"
    assert capfd.readouterr().out == said
    assert holds(train) == (None, True)
    assert vgpu(train, "stop", "train") == 0
    assert vgpu(train, "resume", "train") == 0
    assert capfd.readouterr().out.endswith("\ndefault/train starts\n")
    assert holds(train) == (None, False)


def test_stop_and_resume_print_the_kubectl_command_and_change_nothing(
    fleet: Fleet, capfd: pytest.CaptureFixture[str]
) -> None:
    queued(fleet)
    assert vgpu(fleet, "stop", "train", "--dry-run") == 0
    patch = """'--patch={"metadata": {"annotations": {"vgpu.io/hold": "true"}}}'"""
    assert capfd.readouterr().out == f"kubectl --namespace=default patch job train --type=merge {patch}\n"
    assert holds(fleet) == (None, True)
    assert vgpu(fleet, "stop", "train") == 0
    capfd.readouterr()
    assert vgpu(fleet, "resume", "train", "--dry-run") == 0
    assert '{"annotations": {"vgpu.io/hold": null}}' in capfd.readouterr().out
    assert holds(fleet) == ("true", True)


@pytest.mark.parametrize("command", ["stop", "resume"])
def test_jobs_that_others_start_or_that_have_ended_are_left_alone(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    queued(fleet, labels={"kueue.x-k8s.io/queue-name": "theirs"})
    assert vgpu(fleet, command, "train") == 2
    said = "vgpu: job default/train is Kueue's: write `active` in the spec of its Workload, false or true\n"
    assert capfd.readouterr().err == said
    fleet.delete(f"{JOBS}/train")
    body = objects.job("train", 1)
    owner = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "name": "s",
        "uid": "u",
        "controller": True,
    }
    fleet.post(JOBS, {**body, "metadata": {**body["metadata"], "ownerReferences": [owner]}})
    assert vgpu(fleet, command, "train") == 2
    said = "vgpu: job default/train belongs to JobSet s: suspend or resume that in its place\n"
    assert capfd.readouterr().err == said
    fleet.patch(f"{JOBS}/train/status", {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    assert vgpu(fleet, command, "train") == 2
    assert "job default/train has ended: create it again" in capfd.readouterr().err


OF_EACH = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def folder(kind: WorkloadKind) -> str:
    return f"/apis/{kind.group}/{kind.version}/namespaces/default/{kind.plural}"


def workload_pod(fleet: Fleet, name: str, labels: Mapping[str, str], *, owned: bool = True) -> None:
    """A running pod with these labels, made by a controller unless it is not `owned`."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "any", "uid": "u", "controller": True}
    metadata = {"labels": dict(labels), "ownerReferences": [owner] if owned else []}
    fleet.post(PODS, objects.pod(name, metadata=metadata, restartPolicy="Never"))
    status = {"name": "main", "image": "I", "imageID": "", "ready": True, "restartCount": 0, "state": RUNS}
    fleet.say(name, phase="Running", containerStatuses=[status])


@OF_EACH
def test_a_workload_of_another_kind_is_held_and_released(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], kind: WorkloadKind
) -> None:
    fleet.post(folder(kind), body(kind, "tune"))
    name, path = f"{kind.name.lower()}/tune", f"{folder(kind)}/tune"
    assert vgpu(fleet, "stop", name, "--dry-run") == 0
    resource = f"{kind.plural}.{kind.group}"
    assert capfd.readouterr().out.startswith(
        f"kubectl --namespace=default patch {resource} tune --type=merge "
    )
    assert vgpu(fleet, "stop", f"{kind.plural}/tune") == 0
    said = f"default/{name} is held: it does not start, and `vgpu resume {name}` lets it go on\n"
    assert capfd.readouterr().out == said
    assert fleet.get(path)["metadata"]["annotations"]["vgpu.io/hold"] == "true"
    assert vgpu(fleet, "resume", name) == 0
    assert capfd.readouterr().out == f"default/{name} waits for cards again\n"
    assert "vgpu.io/hold" not in fleet.get(path)["metadata"].get("annotations", {})
    assert vgpu(fleet, "resume", name) == 0
    assert f"`vgpu why {name}` says for what" in capfd.readouterr().out


@OF_EACH
def test_a_workload_without_a_queue_is_suspended_and_started(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], kind: WorkloadKind
) -> None:
    fleet.post(folder(kind), body(kind, "tune", labels={}, suspend=False))
    name, path = f"{kind.name.lower()}/tune", f"{folder(kind)}/tune"
    assert vgpu(fleet, "stop", name) == 0
    said = f"default/{name} is suspended: its pods end, and `vgpu resume {name}` lets it go on\n"
    assert capfd.readouterr().out == said
    for suspended, command in ((True, "resume"), (False, "stop")):
        found: Any = fleet.get(path)["spec"]
        for field in kind.suspend:
            found = found[field]
        assert found is suspended
        assert vgpu(fleet, command, name) == 0


@OF_EACH
def test_a_workload_of_another_kind_is_deleted(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], kind: WorkloadKind
) -> None:
    fleet.post(folder(kind), body(kind, "tune"))
    name = f"{kind.name.lower()}/tune"
    assert vgpu(fleet, "cancel", name, "--dry-run") == 0
    said = f"kubectl --namespace=default delete {kind.plural}.{kind.group} tune\n"
    assert capfd.readouterr().out == said
    assert vgpu(fleet, "cancel", name, "--yes") == 0
    assert capfd.readouterr().out == f"job default/{name} is deleted, and its pods end\n"
    assert vgpu(fleet, "cancel", name, "--yes") == 2
    said = f"there is no {kind.name.lower()} default/tune: see `kubectl get {kind.plural}.{kind.group} -A`"
    assert capfd.readouterr().err == f"vgpu: {said}\n"


def test_an_mpi_job_of_the_training_operator_is_found_too(
    fleet: Fleet, capfd: pytest.CaptureFixture[str]
) -> None:
    made = {**body(MPI_JOB, "tune"), "apiVersion": "kubeflow.org/v1"}
    fleet.post(folder(MPI_JOB_V1), made)
    assert vgpu(fleet, "cancel", "mpijob/tune", "--yes") == 0
    assert capfd.readouterr().out == "job default/mpijob/tune is deleted, and its pods end\n"


@pytest.mark.parametrize("command", ["stop", "resume"])
def test_what_the_controller_of_a_workload_made_is_left_to_it(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    made = body(RAY_CLUSTER, "tune-x")
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "tune", "uid": "u", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    fleet.post(folder(RAY_CLUSTER), made)
    assert vgpu(fleet, command, "raycluster/tune-x") == 2
    said = "vgpu: job default/raycluster/tune-x belongs to RayJob tune: suspend or resume that in its place\n"
    assert capfd.readouterr().err == said


@pytest.mark.parametrize("kind", [JOB_SET, PYTORCH_JOB], ids=["JobSet", "PyTorchJob"])
def test_the_pods_of_another_kind_are_known_by_its_label(
    fleet: Fleet, capfd: pytest.CaptureFixture[str], asked: Path, kind: WorkloadKind
) -> None:
    fleet.post(folder(kind), body(kind, "train", suspend=False))
    label = {kind.pod_label: "train"}
    for name in ("train-0", "train-1"):
        workload_pod(fleet, name, label | {"batch.kubernetes.io/job-completion-index": "0"})
    workload_pod(fleet, "evil", label, owned=False)
    workload_pod(fleet, "other", {kind.pod_label: "other"})
    name = f"{kind.name.lower()}/train"
    assert vgpu(fleet, "logs", name, "--prefix") == 0
    printed = "[train-0] zero\n[train-1] one\n[train-1] two\n"
    assert capfd.readouterr() == (printed, "")
    assert [line.split()[2] for line in asked.read_text().splitlines()] == ["train-0", "train-1"]
    assert vgpu(fleet, "logs", name, "--index=0") == 2
    assert capfd.readouterr().err == f"vgpu: the pods of a {kind.name} have no index: leave --index out\n"
    assert vgpu(fleet, "attach", name, "--dry-run") == 0
    assert " train-0 --container=main" in capfd.readouterr().out


def test_the_output_of_a_ray_job_is_also_that_of_the_pod_that_submits_it(
    fleet: Fleet, capfd: pytest.CaptureFixture[str]
) -> None:
    fleet.post(folder(RAY_JOB), body(RAY_JOB, "tune", suspend=False))
    assert vgpu(fleet, "logs", "rayjob/tune") == 0
    said = "no pod of default/rayjob/tune has run: `vgpu why rayjob/tune` says what it waits for\n"
    assert capfd.readouterr() == ("", said)
    following = Ongoing("logs", "rayjob/tune", "-f", "--kubeconfig", str(fleet.kubeconfig))
    workload_pod(fleet, "train-0", {"batch.kubernetes.io/job-name": "tune"})
    until(lambda: following.out.split() == ["zero"], "the output of the program")
    fleet.patch(f"{folder(RAY_JOB)}/tune/status", {"status": {"rayClusterName": "tune-x"}})
    workload_pod(fleet, "head", {RAY_JOB.pod_label: "tune-x"})
    until(lambda: sorted(following.out.split()) == ["one", "two", "zero"], "the output of the cluster's pods")
    fleet.patch(f"{folder(RAY_JOB)}/tune/status", {"status": {"jobDeploymentStatus": "Complete"}})
    assert following.end() == 0
