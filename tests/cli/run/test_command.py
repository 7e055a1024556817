"""`vgpu run` against the API server's policies: here is no controller and no node, so each test is those; and `kubectl`
is a script that prints what a container would.
"""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import engine
from device_plugin.cli.access.port_forward import ForwardError
from device_plugin.cli.run import fetch, follow, logs
from device_plugin.cli.run.follow import Speed
from device_plugin.cli.run.pods import JobPod, first_failure
from device_plugin.core.jobs.progress import Progress
from device_plugin.kube.api import JOBS as JOB
from device_plugin.kube.api import Kind, Named
from device_plugin.kube.errors import UnknownError
from device_plugin.wiring.commands import main
from hack.embedded.apiserver.server import job_policy_files
from tests.builders import objects
from tests.cli.fleet import Fleet
from tests.contract.cluster import JOBS, PODS
from tests.deadline import until
from tests.ongoing import Ongoing

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
KUBECTL = """#!/bin/sh
echo "$*" >> {0}/asked
case "$*" in
*" logs "*) [ -e {0}/slow ] && exec sleep 1000
  [ -e {0}/broken ] && {{ echo refused >&2; exit 1; }}
  printf '2026-01-01T00:00:00.000000001Z first\\n2026-01-01T00:00:00.000000002Z second\\n';;
*" exec "*) printf '%-63s\\n' "5 10";;
*) exit 0;;
esac
"""


@pytest.fixture
def policies(policies: list[Path]) -> list[Path]:
    """The admission policies, with those of the job engine."""
    return [*policies, *job_policy_files()]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(follow, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(fetch, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(follow, "LINE_SECONDS", 0.0)
    monkeypatch.setattr(logs, "AGAIN_SECONDS", 0.05)
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "kubectl").write_text(KUBECTL.format(tmp_path))
    (programs / "kubectl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")


class Run(Ongoing):
    """One `vgpu run` of the image I."""

    def __init__(self, fleet: Fleet, *words: str) -> None:
        self._fleet = fleet
        super().__init__("run", *words[:2], f"--kubeconfig={fleet.kubeconfig}", "--image=I", *words[2:])

    def job(self, name: str) -> dict[str, Any]:
        """The Job, once it is there."""
        until(lambda: self._fleet.get(f"{JOBS}/{name}")["kind"] == "Job")
        return dict(self._fleet.get(f"{JOBS}/{name}"))


def start(fleet: Fleet, job: dict[str, Any], index: int = 0) -> str:
    """The queue lets the Job run, and its controller makes a pod, which has no container yet; its name."""
    name = job["metadata"]["name"]
    fleet.patch(f"{JOBS}/{name}", {"spec": {"suspend": False}})
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": name,
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    labels = {"batch.kubernetes.io/job-name": name, "batch.kubernetes.io/job-completion-index": str(index)}
    body = objects.pod(
        f"{name}-{index}", metadata={"labels": labels, "ownerReferences": [owner]}, restartPolicy="Never"
    )
    fleet.post(PODS, body)
    return f"{name}-{index}"


def told(fleet: Fleet, pod: str, phase: str, **state: Any) -> None:
    """The kubelet says this of the pod's container."""
    status = {
        "name": "main",
        "image": "I",
        "imageID": "",
        "ready": phase == "Running",
        "restartCount": 0,
        "state": state,
    }
    fleet.say(pod, phase=phase, containerStatuses=[status])


def over(fleet: Fleet, name: str, kind: str = "Complete", **more: Any) -> None:
    """The Job's controller says that it has ended."""
    first = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
    now = "2026-01-01T00:00:00Z"
    ends = {"completionTime": now} if kind == "Complete" else {}
    conditions = [
        {"type": each, "status": "True", "lastTransitionTime": now, **more} for each in (first, kind)
    ]
    fleet.patch(f"{JOBS}/{name}/status", {"status": {"startTime": now, "conditions": conditions, **ends}})


RUNS = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def test_a_job_is_followed_from_its_queue_to_its_end(fleet: Fleet) -> None:
    run = Run(fleet, "train", "--mem=1", "--", "x")
    pod = start(fleet, run.job("train"))
    fleet.patch(f"{JOBS}/train/status", {"status": {"active": 1, "startTime": "2026-01-01T00:00:00Z"}})
    told(fleet, pod, "Pending", waiting={"reason": "ImagePullBackOff", "message": "no such image"})
    run.says("train: starts: pod train-0: ImagePullBackOff: no such image")
    told(fleet, pod, "Running", **RUNS)
    fleet.patch(f"{JOBS}/train/status", {"status": {"ready": 1}})
    run.says("train: runs with 1 of 1 replicas")
    run.says("train: 5 of 10")
    told(fleet, pod, "Succeeded", terminated={"exitCode": 0})
    over(fleet, "train")
    assert run.end() == 0
    run.says("train: done")
    assert run.out == "first\nsecond\n"
    assert fleet.get(f"{JOBS}/train")["kind"] == "Job"


def event(fleet: Fleet, job: dict[str, Any], reason: str, message: str, second: int) -> None:
    """Somebody says this of the Job."""
    name = job["metadata"]["name"]
    about = {"kind": "Job", "namespace": "default", "name": name, "uid": job["metadata"]["uid"]}
    body = {
        "metadata": {"name": f"{name}.{second}"}, "involvedObject": about, "reason": reason, "message": message,
        "lastTimestamp": f"2026-01-01T00:00:{second:02}Z",
    }  # fmt: skip
    fleet.post("/api/v1/namespaces/default/events", body)


def test_only_what_a_job_waits_for_is_said_of_one_that_waits(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "NEWS_SECONDS", 0.01)
    monkeypatch.setattr(follow, "ASK_SECONDS", 0.01)
    forbidden = ForwardError("you may not ask")
    monkeypatch.setattr(engine, "ask", lambda *_, **__: (_ for _ in ()).throw(forbidden))
    run = Run(fleet, "train", "--mem=1", "--", "x")
    job = run.job("train")
    run.says("train: waits in its queue\n")
    # It was read as suspended, and ran to its end before its events were.
    for second, reason, message in (
        (1, "Suspended", "Job suspended"), (2, "JobAdmitted", "starts with 1 pod"), (3, "Completed", "Job completed"),
    ):  # fmt: skip
        event(fleet, job, reason, message, second)
    event(fleet, job, "JobWaits", "waits for 1 card", 0)
    run.says("train: waits in its queue: waits for 1 card\n")
    start(fleet, job)
    over(fleet, "train")
    assert run.end() == 0
    assert not any(odd in run.err for odd in ("Job completed", "Job suspended", "starts with 1 pod"))


@pytest.mark.parametrize(
    ("phase", "says"),
    [
        ("waiting", ": room, number 2 of its queue\n"),
        ("refused", ": refused: runs with 1 pod\n"),
        ("running", "\n"),
    ],
)
def test_of_a_job_that_was_started_meanwhile_the_engine_says_nothing(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, phase: str, says: str
) -> None:
    found = {"phase": phase, "place": 2, "waitsFor": "room", "why": "runs with 1 pod"}
    monkeypatch.setattr(engine, "ask", lambda *_, **__: (200, json.dumps({"jobs": [found]})))
    run = Run(fleet, "train", "--mem=1", "--", "x")
    job = run.job("train")
    run.says(f"train: waits in its queue{says}")
    start(fleet, job)
    over(fleet, "train")
    assert run.end() == 0


def test_without_a_job_engine_it_says_how_to_install_one(fleet: Fleet) -> None:
    run = Run(fleet, "train", "--mem=1", "--rm", "--", "x")
    run.says("train: waits in its queue: no job engine is installed in namespace vgpu-system")
    start(fleet, run.job("train"))
    over(fleet, "train")
    assert run.end() == 0
    assert fleet.get(f"{JOBS}/train")["code"] == 404


def test_the_exit_status_is_that_of_the_program_that_failed_first(fleet: Fleet) -> None:
    run = Run(fleet, "train", "--cards=2", "--all-logs", "--", "x")
    job = run.job("train")
    pods = [start(fleet, job, index) for index in range(2)]
    for pod, code, second in zip(pods, (143, 7), (2, 1), strict=True):
        told(
            fleet, pod, "Failed",
            terminated={"exitCode": code, "finishedAt": f"2026-01-01T00:00:0{second}Z", "reason": "OOMKilled"},
        )  # fmt: skip
    over(fleet, "train", "Failed", reason="BackoffLimitExceeded", message="limit")
    assert run.end() == 7
    run.says("train failed: BackoffLimitExceeded: limit: pod train-1 ended with 7, OOMKilled")
    assert sorted(run.out.splitlines()) == ["[0] first", "[0] second", "[1] first", "[1] second"]


def test_a_program_that_cannot_be_started_is_given_up_after_three_pods(fleet: Fleet) -> None:
    run = Run(fleet, "train", "--mem=1", "--", "no-such-program")
    job = run.job("train")
    pods = [start(fleet, job)]
    for number in range(2):
        body = fleet.pods()[pods[0]]
        metadata = {key: body["metadata"][key] for key in ("labels", "ownerReferences")}
        pods.append(f"train-0-{number}")
        fleet.post(PODS, objects.pod(pods[-1], metadata=metadata, restartPolicy="Never"))
    for pod in pods:
        told(
            fleet, pod, "Failed", terminated={"exitCode": 128, "reason": "StartError", "message": "not found"}
        )
    assert run.end() == 128
    run.says("train failed: its program cannot be started: not found; it tries again: see it: vgpu why")


def test_a_job_that_somebody_deletes_ends_it(fleet: Fleet, capfd: pytest.CaptureFixture[str]) -> None:
    run = Run(fleet, "train", "--mem=1", "--rm", "--", "x")
    run.job("train")
    fleet.delete(f"{JOBS}/train")
    assert run.end() == 2
    assert "vgpu: job train was deleted" in capfd.readouterr().err


def test_a_name_that_is_taken_is_refused(fleet: Fleet, capfd: pytest.CaptureFixture[str]) -> None:
    for status in (0, 2):
        assert Run(fleet, "train", "--mem=1", "--detach", "--", "x").end() == status
    assert (
        "job default/train is there already: take another name, or delete it: kubectl"
        in capfd.readouterr().err
    )


def test_scripts_go_with_their_job(fleet: Fleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.sh").write_text("echo a\n")
    assert Run(fleet, "frames", "--mem=1", "--detach", f"--split={tmp_path}/a.sh").end() == 0, (
        capfd.readouterr().err
    )
    scripts, job = fleet.get(f"{CONFIGMAPS}/frames"), fleet.get(f"{JOBS}/frames")
    assert scripts["data"] == {"0": "echo a\n"}
    assert scripts["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"]
    fleet.delete(f"{JOBS}/frames")
    assert Run(fleet, "frames", "--mem=1", "--detach", f"--split={tmp_path}/a.sh").end() == 2
    assert "configmaps default/frames is there already" in capfd.readouterr().err
    assert fleet.get(f"{JOBS}/frames")["code"] == 404, "a Job that lacks its scripts is deleted"


@pytest.mark.parametrize(
    "words",
    [
        "--cards=4 --min=2 --max=8 --checkpoint-seconds=120 -- torchrun train.py",
        "--samples=1281167 --epochs=90 --duration=8h --duration-at-most=16h --model=resnet50 -- torchrun train.py",
        "--samples=1000 --duration=2h --model=m --min=2 --card-model=Z100 -- torchrun train.py",
        "--mem=4 --cores=15 --replicas=3 --expected-duration=6h --volume=data:/data -- train",
        "--mem=4 --split={0}/a.sh,{0}/a.sh",
    ],
)
def test_the_policies_accept_what_is_written(
    fleet: Fleet, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.sh").write_text("echo a\n")
    options = words.format(tmp_path).split()
    assert main(["run", "train", "--image=I", "--dry-run", "-o", "json", *options]) == 0
    made = json.loads(capsys.readouterr().out)
    (job,) = [each for each in made.get("items", [made]) if each["kind"] == "Job"]
    fleet.post(JOBS, job)
    fleet.post(
        PODS,
        {
            "metadata": {"name": "a", **job["spec"]["template"].get("metadata", {})},
            "spec": job["spec"]["template"]["spec"],
        },
    )


def test_what_the_api_server_refuses_is_said(fleet: Fleet, capfd: pytest.CaptureFixture[str]) -> None:
    assert Run(fleet, "train", "--mem=1", "--queue=a/b", "--", "x").end() == 2
    assert "metadata.labels: Invalid value" in capfd.readouterr().err


def test_s5_a_result_is_fetched_from_its_volume_after_the_end(
    fleet: Fleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Run(
        fleet, "train", "--mem=1", "--volume=data:/data", "--fetch=/data/model:model", "--rm", "--", "x"
    )
    start(fleet, run.job("train"))
    over(fleet, "train")
    until(lambda: any(name.startswith("train-fetch-") for name in fleet.pods()))
    (reader,) = (pod for name, pod in fleet.pods().items() if name.startswith("train-fetch-"))
    (container,) = reader["spec"]["containers"]
    assert "limits" not in container.get("resources", {}), "no card is held while it is fetched"
    assert container["volumeMounts"][0]["readOnly"] is True
    assert reader["spec"]["activeDeadlineSeconds"] == 3600
    name = reader["metadata"]["name"]
    told(fleet, name, "Running", **RUNS)
    assert run.end() == 0, capfd.readouterr().err
    assert f"cp --container=main {name}:/data/model model" in (tmp_path / "asked").read_text()
    assert name not in fleet.pods()


def test_output_that_cannot_be_read_is_said_once(fleet: Fleet, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    run = Run(fleet, "train", "--mem=1", "--", "x")
    told(fleet, start(fleet, run.job("train")), "Running", **RUNS)
    run.says("the output of pod train-0 cannot be read: refused")
    over(fleet, "train")
    assert run.end() == 0
    assert run.err.count("cannot be read") == 1


def test_output_that_does_not_come_is_not_waited_for_for_ever(
    fleet: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(follow, "OUTPUT_SECONDS", 0.1)
    (tmp_path / "slow").touch()
    run = Run(fleet, "train", "--mem=1", "--", "x")
    told(fleet, start(fleet, run.job("train")), "Succeeded", terminated={"exitCode": 0})
    over(fleet, "train")
    assert run.end() == 0
    assert "train: not all output is printed, see vgpu logs train -n default" in capfd.readouterr().err


def test_a_line_that_was_printed_is_not_printed_again(
    fleet: Fleet, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = Run(fleet, "train", "--mem=1", "--", "x")
    pod = start(fleet, run.job("train"))
    told(fleet, pod, "Running", **RUNS)
    asked = tmp_path / "asked"
    until(lambda: asked.exists() and "--since-time=2026-01-01T00:00:00.000000002Z" in asked.read_text())
    told(fleet, pod, "Succeeded", terminated={"exitCode": 0})
    over(fleet, "train")
    assert run.end() == 0
    assert capfd.readouterr().out == "first\nsecond\n"


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        (JobPod("a", phase="Running"), ""),
        (JobPod("a"), "pod a waits for a node"),
        (JobPod("a", unplaced="no room"), "pod a waits for a node: no room"),
        (JobPod("a", node="n"), "pod a is placed"),
        (JobPod("a", node="n", state={"waiting": {"reason": "PodInitializing"}}), "pod a is placed"),
        (
            JobPod("a", state={"waiting": {"reason": "Err", "message": "no\n\x1bimage"}}),
            "pod a: Err: no image",
        ),
    ],
)
def test_what_a_pod_waits_for(pod: JobPod, text: str) -> None:
    assert pod.waits_for == text


def test_a_failure_without_a_program_is_1() -> None:
    assert first_failure([]) == (1, "")
    assert first_failure(
        [JobPod("a", phase="Failed"), JobPod("b", state={"terminated": {"exitCode": 128}})]
    ) == (1, "")


def test_while_the_api_server_is_away_it_goes_on_looking(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, away = KubeClient.get, threading.Event()
    away.set()

    def lost(client: KubeClient, kind: Kind[Any], of: Named) -> Any:
        if away.is_set() and kind == JOB:
            raise UnknownError("it does not listen")
        return get(client, kind, of)

    monkeypatch.setattr(KubeClient, "get", lost)
    run = Run(fleet, "train", "--mem=1", "--", "x")
    start(fleet, run.job("train"))
    run.says("train: the API server does not answer: it does not listen")
    over(fleet, "train")
    away.clear()
    assert run.end() == 0


def test_why_the_replicas_are_fewer_is_said(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "NEWS_SECONDS", 0.01)
    run = Run(fleet, "train", "--cards=3", "--min=1", "--", "x")
    job = run.job("train")
    start(fleet, job)
    event(fleet, job, "JobShrunk", "for default/b", 1)
    event(fleet, job, "SuccessfulDelete", "Deleted pod: train-2", 2)
    fleet.patch(f"{JOBS}/train", {"spec": {"parallelism": 2, "completions": 2}})
    run.says("train: for default/b")
    over(fleet, "train")
    assert run.end() == 0


def test_the_time_left_is_measured_anew_at_another_width() -> None:
    speed = Speed()
    assert speed.left(0.0, Progress(10, 100), 4) is None
    assert speed.left(10.0, Progress(20, 100), 4) == 80.0
    assert speed.left(20.0, Progress(30, 100), 2) is None
    assert speed.left(30.0, Progress(35, 100), 2) == 130.0
    assert speed.left(40.0, Progress(0, 100), 2) is None, "the program began again"
