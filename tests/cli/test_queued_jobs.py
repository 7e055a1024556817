"""Rows of jobs: of the engine where it may be asked, else of the Jobs, and of those that have ended."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import queue
from device_plugin.cli.access import engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.access.port_forward import ForwardError
from device_plugin.cli.queued_jobs import MOST_TEXT, job_row
from device_plugin.core.batch import Job, JobCondition
from device_plugin.core.workload_kinds import JOB_SET
from device_plugin.kube.api import EVENTS
from device_plugin.kube.errors import ForbiddenError
from device_plugin.wiring.commands import main
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.server import job_policy_files, policy_files
from tests.builders import objects
from tests.builders.cards import FAMILY
from tests.builders.workloads import body, workload
from tests.cli.fleet import USERS, Fleet
from tests.contract.cluster import JOBS

NOW = "2026-11-24T12:00:00Z"
SUSPENDED = (JobCondition("Suspended", "JobSuspended", "", NOW),)


def job(**changes: Any) -> Job:
    fields: dict[str, Any] = {
        "namespace": "a", "name": "train", "uid": "u", "created": "2026-11-24T11:00:00Z",
        "labels": {"vgpu.io/queue": "default"}, "parallelism": 4, "completions": 4, "indexed": True,
        "replacement": "Failed", "restart_policy": "Never", **changes,
    }  # fmt: skip
    return Job(**fields)


BOUNDS = {"vgpu.io/min-replicas": "2", "vgpu.io/max-replicas": "8"}


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        (job(suspend=True), {"phase": "waiting", "width": 0, "min": 4, "max": 4, "widths": None, "progress": None}),
        (job(suspend=True, annotations=BOUNDS), {"phase": "waiting", "min": 2, "max": 8}),
        (job(suspend=True, kept="{}", conditions=SUSPENDED), {"phase": "stopped", "since": 1795521600}),
        (job(suspend=True, active=2, conditions=SUSPENDED), {"phase": "stopping", "width": 2}),
        (job(suspend=True, terminating=1), {"phase": "stopping", "width": 0}),
        (
            job(suspend=True, annotations={"vgpu.io/hold": "true"}, conditions=SUSPENDED),
            {"phase": "held", "since": 1795521600, "why": "is held by its author: `vgpu resume` lets it wait for cards"
                                                          " again"},
        ),
        (job(started=NOW, active=4, ready=4, annotations={"vgpu.io/hold": "true"}), {"phase": "stopping", "width": 4}),
        (
            job(started=NOW, active=1, failed=3, backoff_limit=6),
            {"phase": "starting", "why": "its pods fail: 3 have failed (its backoffLimit is 6)"},
        ),
        (job(started=NOW, active=4, ready=4, failed=3), {"phase": "running", "why": ""}),
        (
            job(started=NOW, failed=1, backoff_limit_per_index=0),
            {"phase": "starting", "why": "its pods fail: 1 has failed"},
        ),
        (job(suspend=True, annotations={"vgpu.io/hold": "false"}), {"phase": "waiting"}),
        (job(started=NOW, active=4, ready=4), {"phase": "running", "width": 4, "since": 1795521600}),
        (job(started=NOW, active=4, ready=3), {"phase": "starting", "width": 4}),
        (job(started=NOW), {"phase": "starting", "width": 0}),
        (
            job(annotations={"vgpu.io/split": "any"}, completions=30, parallelism=5, succeeded=12, active=5, ready=5),
            {"phase": "running", "min": 1, "max": 30, "progress": {"done": 12, "total": 30}},
        ),
        (job(suspend=True, annotations={"vgpu.io/widths": "1,2,4"}), {"min": 1, "max": 4, "widths": [1, 2, 4]}),
        (
            job(suspend=True, labels={"vgpu.io/queue": "default", "kueue.x-k8s.io/queue-name": "q"}),
            {"phase": "waiting", "why": "waits for Kueue, which starts it"},
        ),
        (
            job(suspend=True, annotations={"vgpu.io/min-replicas": "many"}),
            {"phase": "refused", "min": None, "why": "annotation vgpu.io/min-replicas is 'many': write a whole number "
                                                     "from 1 to 1024"},
        ),
    ],
)  # fmt: skip
def test_a_row_says_what_the_job_says(found: Job, shown: Mapping[str, Any]) -> None:
    row = job_row(found)
    assert {key: row[key] for key in shown} == shown
    assert row["place"] is None
    (_, line, *_) = queue.as_table([row]).splitlines()
    assert line.split()[0] == "train"


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    server = EmbeddedApiServer([*policy_files(), *job_policy_files()], tokens=USERS)
    server.start()
    made = Fleet(server, tmp_path)
    yield made
    made.close()
    server.stop()


def submit(fleet: Fleet, name: str, **labels: str) -> str:
    """A Job in a queue; returns its UID."""
    body = objects.job(name, 2, pod={"containers": [objects.container(limits={FAMILY: 1})]})
    body["metadata"]["labels"] = {"vgpu.io/queue": "default", **labels}
    body["spec"]["suspend"] = True
    fleet.post(JOBS, body)
    return str(fleet.get(f"{JOBS}/{name}")["metadata"]["uid"])


def end(fleet: Fleet, name: str, condition: str, at: str, message: str = "") -> None:
    found = {
        "type": condition,
        "status": "True",
        "reason": "Why",
        "message": message,
        "lastTransitionTime": at,
    }
    fleet.patch(f"{JOBS}/{name}/status", {"status": {"conditions": [found]}})


def event(fleet: Fleet, name: str, uid: str, reason: str, message: str, at: str) -> None:
    fleet.post("/api/v1/namespaces/default/events", {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.{reason.lower()}.{at[-2]}"},
        "reason": reason, "message": message, "lastTimestamp": at, "reportingComponent": "vgpu-jobs", "type": "Normal",
        "involvedObject": {"kind": "Job", "name": name, "namespace": "default", "uid": uid},
    })  # fmt: skip


def vgpu(fleet: Fleet, *words: str) -> int:
    return main([*words, "--kubeconfig", str(fleet.kubeconfig)])


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller may not forward a port to the engine."""

    def refuse(*_: object) -> None:
        raise ForwardError("pods/portforward is forbidden")

    monkeypatch.setattr(engine, "jobs", refuse)


@pytest.mark.usefixtures("unasked")
def test_without_the_engine_a_job_shows_its_last_event(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uid = submit(fleet, "train")
    submit(fleet, "quiet")
    event(fleet, "train", uid, "JobWaits", "waits for room for 1 pod", "2026-11-24T12:00:01Z")
    event(fleet, "train", uid, "JobWaits", "waits for\x1b[2J\n" + "x" * 5000, "2026-11-24T12:00:02Z")
    event(fleet, "train", uid, "JobAdmitted", "was started", "2026-11-24T12:00:03Z")
    assert vgpu(fleet, "jobs", "-o", "json") == 0
    said = json.loads(capsys.readouterr().out)
    quiet, train = said["jobs"]
    assert (quiet["name"], quiet["why"]) == ("quiet", "")
    assert train["why"] == "waits for [2J " + "x" * (MOST_TEXT - len("waits for?[2J?"))
    (note,) = said["notes"]
    assert note.endswith("only what the Jobs say: pods/portforward is forbidden")
    original = KubeClient.list

    def limited(client: Any, kind: Any, *where: Any) -> Any:
        if kind is EVENTS:
            raise ForbiddenError("forbidden", 403, "Forbidden")
        return original(client, kind, *where)

    monkeypatch.setattr(KubeClient, "list", limited)
    assert vgpu(fleet, "jobs", "-o", "name") == 0
    assert capsys.readouterr().out.split() == ["job/default/quiet", "job/default/train"]


@pytest.mark.parametrize("asked", [True, False])
def test_ended_jobs_are_shown_on_demand_the_last_first(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    for name in ("done", "broken", "train"):
        submit(fleet, name, team=name)
    end(fleet, "done", "Complete", "2026-11-24T12:00:00Z")
    end(fleet, "broken", "Failed", "2026-11-24T13:00:00Z", "the program \x1b[2J ended with 1")

    def answer(*_: object) -> list[Mapping[str, Any]]:
        if not asked:
            raise EngineError("the job engine does not plan yet")
        return [job_row(job(namespace="default", suspend=True))]

    monkeypatch.setattr(engine, "jobs", answer)
    assert vgpu(fleet, "queue") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert vgpu(fleet, "jobs", "--all") == 0
    _, train, broken, why, done = capsys.readouterr().out.splitlines()
    assert [line.split()[:5] for line in (train, broken, done)] == [
        ["train", "default", "<none>", "waiting", "0"],
        ["broken", "default", "<none>", "failed", "0"],
        ["done", "default", "<none>", "complete", "0"],
    ]
    assert why == "    Why: the program [2J ended with 1"
    assert vgpu(fleet, "jobs", "--all", "-l", "team!=broken", "-o", "name") == 0
    assert capsys.readouterr().out.split() == ["job/default/train", "job/default/done"]


@pytest.mark.parametrize("asked", [True, False])
def test_jobs_are_listed_by_name_also_those_that_have_ended(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    for name in ("done", "train", "other"):
        submit(fleet, name)
    end(fleet, "done", "Complete", "2026-11-24T12:00:00Z")

    def answer(*_: object) -> list[Mapping[str, Any]]:
        if not asked:
            raise EngineError("the job engine does not plan yet")
        return [job_row(job(namespace="default", name=name, suspend=True)) for name in ("train", "other")]

    monkeypatch.setattr(engine, "jobs", answer)
    for words, shown in (
        (["train"], ["train"]), (["done"], ["done"]), (["default/train", "done"], ["train", "done"]),
        (["-A", "train"], ["train"]), (["other/train"], []),
    ):  # fmt: skip
        assert vgpu(fleet, "jobs", *words, "-o", "name") == 0
        assert capsys.readouterr().out.split() == [f"job/default/{name}" for name in shown]
    assert vgpu(fleet, "jobs", "nobody") == 0
    assert "no job of a queue has this name: nobody" in "".join(capsys.readouterr())
    assert vgpu(fleet, "jobs", "a/train", "b/train") == 2
    assert capsys.readouterr().err == "vgpu: jobs of several namespaces are named: a, b: name those of one\n"
    assert vgpu(fleet, "queue", "admit") == 2
    assert capsys.readouterr().err == "vgpu: admit starts one job: write `vgpu queue admit JOB`\n"


@pytest.mark.parametrize("asked", [True, False])
def test_a_workload_of_another_kind_is_listed_by_name_also_when_it_has_ended(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, asked: bool
) -> None:
    path = f"/apis/{JOB_SET.group}/{JOB_SET.version}/namespaces/default/{JOB_SET.plural}"
    for name, suspended in (("tune", True), ("runs", False), ("done", False)):
        made = body(JOB_SET, name, ((2, 1),), suspend=suspended)
        # Created without the label, because the queue would suspend it.
        fleet.post(path, {**made, "metadata": {"name": name}})
        label = {"metadata": {"labels": {"vgpu.io/queue": "default"}}}
        fleet.patch(f"{path}/{name}", label)
    ended = {"type": "Completed", "status": "True", "lastTransitionTime": NOW}
    fleet.patch(f"{path}/done/status", {"status": {"conditions": [ended]}})

    def answer(*_: object) -> list[Mapping[str, Any]]:
        if not asked:
            raise EngineError("the job engine does not plan yet")
        return [job_row(workload(JOB_SET, "tune", ((2, 1),)))]

    monkeypatch.setattr(engine, "jobs", answer)
    assert vgpu(fleet, "jobs", "jobset/tune", "jobset/done", "rayjob/none", "-o", "json") == 0
    rows = json.loads(capsys.readouterr().out)["jobs"]
    assert [(row["name"], row["phase"], row["min"]) for row in rows] == [
        ("jobset/tune", "waiting", 2),
        ("jobset/done", "complete", 2),
    ]
    if not asked:
        assert vgpu(fleet, "jobs", "jobset/runs", "-o", "json") == 0
        (row,) = json.loads(capsys.readouterr().out)["jobs"]
        assert (row["phase"], row["width"]) == ("running", 2)


def test_who_may_ask_the_engine_and_list_no_jobs_is_told_that_ended_ones_are_not_known(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise ForbiddenError("forbidden", 403, "Forbidden")

    monkeypatch.setattr(engine, "jobs", lambda *_: [job_row(job(namespace="default", suspend=True))])
    monkeypatch.setattr(KubeClient, "list", forbidden)
    assert vgpu(fleet, "jobs", "--all", "-o", "name") == 0
    said = capsys.readouterr()
    assert said.out == "job/default/train\n"
    assert said.err.startswith("jobs that ended are not known: you may not list jobs of namespace default")


def test_a_list_that_began_with_the_engine_stays_with_it(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[Any] = [[], EngineError("the job engine does not plan yet: try again")]

    def answer(*_: object) -> Any:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(engine, "jobs", answer)
    monkeypatch.setattr(queue, "ASK_SECONDS", 0.01)
    submit(fleet, "train")
    assert vgpu(fleet, "jobs", "-w") == 2
    assert capsys.readouterr() == (
        "",
        "no job of namespace default is in a queue\nvgpu: the job engine does not plan yet: try again\n",
    )
