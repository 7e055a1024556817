"""`vgpu why` of a pod: from lists, with the leader's decisions where they can be asked, and with few rights."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_mock import MockerFixture

from device_plugin.adapters.http.server import Server
from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli.access import caller, engine
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.reading import allocator_deployment
from device_plugin.cli.run.pods import JOB_PODS
from device_plugin.cli.why import planned
from device_plugin.core.answers import Answer
from device_plugin.core.contract.annotations import KUEUE_QUEUE, QUEUE
from device_plugin.core.http_values import HttpAnswer, HttpRequest
from device_plugin.core.workload_kinds import RAY_JOB
from device_plugin.kube.api import NODES, RESOURCE_CLAIMS, Kind
from device_plugin.kube.errors import from_status
from device_plugin.wiring.commands import main
from device_plugin.wiring.settings import ClusterSettings
from tests.builders import objects
from tests.builders.cards import MEM
from tests.builders.claims import claim
from tests.builders.workloads import body
from tests.cli.fleet import Fleet
from tests.cli.test_queue import KLOG, LEASES, kubectl
from tests.contract.cluster import JOBS, PODS


def why(fleet: Fleet, *words: str) -> int:
    return main(["why", *words, "--kubeconfig", str(fleet.kubeconfig)])


@pytest.fixture
def full(fleet: Fleet) -> Fleet:
    """A node whose two cards hold a slice of 12 units each, and a pod that needs 8."""
    fleet.node("n1", 2)
    for number in range(2):
        fleet.pod(f"holder-{number}", 12, f"n1-{number}")
    fleet.pod("waits", 8)
    return fleet


def test_a_pod_is_told_what_it_lacks_and_what_would_help(
    full: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why(full, "waits") == why(full, "pod/waits") == why(full, "default/waits") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:7] == said[7:14] == said[14:]
    assert said[:3] == [
        "default/waits asks for hygon.com/dcu-mem: 8 and fits no node now",
        "  1 node with Z100 (n1): 2 cards: 2 lack memory (largest free 4 GiB)",
        "What would help:",
    ]
    assert re.fullmatch(r"  It would fit on n1 once default/holder-[01] has ended", said[3])
    assert said[4:6] == [
        "  What fits now: hygon.com/dcu-mem: 4", "  Wait for slices to end, or ask for less memory"
    ]  # fmt: skip
    assert (
        "the allocator's reservations are not known: no cluster service is installed in namespace vgpu-sys"
        in said[6]
    )


def test_the_answer_is_json_for_programs(full: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(full, "waits", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], len(told["ends"]["pods"]), told["nodes"][0]["nodes"]) == ("memory", 1, ["n1"])
    parts = [told["answer"], *told["reasons"], *told["help"], told["source"]]
    assert told["paragraph"] == ". ".join(parts)
    assert len(parts) == 6


def test_a_node_selector_leaves_nodes_out(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    fleet.node("n1")
    fleet.post(
        "/api/v1/namespaces/default/pods",
        objects.pod("picky", {MEM: "4"}, schedulerName="vgpu-scheduler", nodeSelector={"zone": "a"}),
    )
    assert why(fleet, "picky") == 0
    said = capsys.readouterr().out
    assert "It goes only to nodes with zone=a (0 of 1 nodes)" in said
    assert "fits no node now" in said


@pytest.fixture
def leader(full: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What a leader answers at /decisions, which kubectl reaches."""
    told: dict[str, Any] = {"leader": True, "reserved": [], "workload": []}

    def app(request: HttpRequest) -> HttpAnswer:
        assert request.path == "/decisions"
        return HttpAnswer(json.dumps(told), "application/json")

    with Server(app, "127.0.0.1:0", silence=5) as server:
        forwards = (
            f'#!/bin/sh\ncase "$*" in *pod/vgpu-cluster-0*:9401*) echo \'Forwarding from 127.0.0.1:{server.port} ->'
            " 9401';; esac\nexec /bin/sleep 1000\n"
        )
        kubectl(monkeypatch, tmp_path, forwards)
        lease = {"metadata": {"name": "vgpu-scheduler"}, "spec": {"holderIdentity": "vgpu-cluster-0_abc"}}
        full.post(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
        yield told


def test_what_the_leader_has_reserved_counts(
    full: Fleet, leader: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    full.pod("small", 4)
    assert why(full, "small", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["source"]) == (
        "fits", "From the API server's lists and the allocator's 0 reservations",
    )  # fmt: skip
    for number in range(2):
        full.pod(f"reserved-{number}", 4)
        grant = {"v": 1, "gen": 1, "pod": full.pods()[f"reserved-{number}"]["metadata"]["uid"], "node": "n1"}
        slices = [{"card": f"n1-{number}", "memMiB": 4092, "cores": [*range(45, 60)]}]
        held = json.dumps({**grant, "containers": {"main": slices}})
        leader["reserved"].append({"pod": "", "stage": "waiting", "grant": held, "host": {}})
    assert why(full, "small", "-o", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["state"], told["source"]) == (
        "memory", "From the API server's lists and the allocator's 2 reservations",
    )  # fmt: skip


def test_of_kubectls_log_no_line_is_in_the_answer(
    full: Fleet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kubectl(monkeypatch, tmp_path, f"#!/bin/sh\n{KLOG * 4}echo 'error: it is not there' >&2\nexit 1\n")
    lease = {"metadata": {"name": "vgpu-scheduler"}, "spec": {"holderIdentity": "vgpu-cluster-0_abc"}}
    full.post(LEASES, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **lease})
    for words in (["why", "waits"], ["fit", "--mem", "4"]):
        main([*words, "--kubeconfig", str(full.kubeconfig)])
        said = capsys.readouterr()
        assert "kubectl cannot forward a port to pod vgpu-system/vgpu-cluster-0: it is not there" in said.out
        assert "memcache.go" not in said.out + said.err


def test_a_pod_for_which_the_leader_keeps_slices_is_told_who_leaves(
    full: Fleet, leader: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    uid = full.pods()["waits"]["metadata"]["uid"]
    slices = [{"card": "n1-0", "memMiB": 8184, "cores": [*range(30)]}]
    grant = {"v": 1, "gen": 1, "pod": uid, "node": "n1", "containers": {"main": slices}}
    leader["reserved"].append({"pod": "", "stage": "nominated", "grant": json.dumps(grant), "host": {}})
    assert why(full, "waits") == 0
    said = capsys.readouterr().out
    assert (
        "waits: 8184 MiB and core groups 0-29 of n1-0 on n1 is kept for it and still used by default/holder-0"
        in said
    )
    assert "Wait until these pods have ended" in said


def test_with_rights_to_the_pod_alone_kube_schedulers_words_are_explained(
    full: Fleet, capsys: pytest.CaptureFixture[str], mocker: MockerFixture
) -> None:
    listed = KubeClient.list

    def refused(client: KubeClient, kind: Kind[Any], *more: Any) -> Any:
        if kind is NODES:
            raise from_status(403, "Forbidden", "nodes is forbidden")
        return listed(client, kind, *more)

    mocker.patch.object(KubeClient, "list", refused)
    said = "0/1 nodes are available: 1 lack memory (largest free at least 4 GiB)."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
    full.patch("/api/v1/namespaces/default/pods/waits/status", {"status": {"conditions": [scheduled]}})
    assert why(full, "waits") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"default/waits asks for hygon.com/dcu-mem: 8 and waits\n  {said[:-1]}\n")
    assert "  Wait for slices to end, or ask for less memory" in text
    assert "From the pod alone: nodes is forbidden" in text
    claiming(full, "claims")
    assert why(full, "claims") == 0
    text = capsys.readouterr().out
    assert text.startswith("default/claims asks for what its ResourceClaims ask for (slice) and waits\n")


def test_a_name_of_nothing_says_where_to_look(full: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    assert why(full, "nobody") == why(full, "pod/nobody") == why(full, "job/nobody", "-n", "team-a") == 2
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "vgpu: there is no pod or job default/nobody: see `kubectl -n default get pods,jobs`"
    assert said[1:] == [
        "vgpu: there is no pod default/nobody: see `kubectl -n default get pods,jobs`",
        "vgpu: there is no job team-a/nobody: see `kubectl -n team-a get pods,jobs`",
    ]


def test_a_job_that_kueue_keeps_suspended_is_kueues(fleet: Fleet, capsys: pytest.CaptureFixture[str]) -> None:
    job = objects.job("theirs", suspend=True)
    job["metadata"]["labels"] = {KUEUE_QUEUE: "team"}
    fleet.post(JOBS, job)
    assert why(fleet, "job/theirs") == 2
    assert capsys.readouterr().err == (
        "vgpu: job default/theirs is Kueue's, which keeps it suspended: see its Workload with"
        " `kubectl -n default describe workloads`\n"
    )


def a_pod(fleet: Fleet, name: str, at: str, code: int, *, restarted: bool = False, **end: Any) -> None:
    """A pod of Job `train` whose container has ended so."""
    uid = fleet.get(f"{JOBS}/train")["metadata"]["uid"]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": uid, "controller": True}
    metadata = {"labels": {"batch.kubernetes.io/job-name": "train"}, "ownerReferences": [owner]}
    fleet.post(PODS, objects.pod(name, metadata=metadata, restartPolicy="Never"))
    ended = {"terminated": {"exitCode": code, "finishedAt": at, **end}}
    said = (
        {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended}
        if restarted
        else {"state": ended}
    )
    status = {
        "name": "main",
        "image": "I",
        "imageID": "",
        "ready": False,
        "restartCount": 4 if restarted else 0,
        **said,
    }
    fleet.say(name, phase="Running" if restarted else "Failed", containerStatuses=[status])


@pytest.mark.parametrize("labels", [{}, {QUEUE: "default"}])
def test_a_job_that_has_ended_says_when_and_how(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], labels: dict[str, str]
) -> None:
    job = objects.job("train", 2)
    job["metadata"]["labels"] = labels
    fleet.post(JOBS, job)
    a_pod(fleet, "train-0-a", "2026-11-24T11:00:00Z", 1, reason="Error")
    a_pod(fleet, "train-0-b", "2026-11-24T12:00:00Z", 137, reason="OOMKilled", message="too\x1b[2Jlarge")
    ended = {
        "type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "it has reached its limit",
        "lastTransitionTime": "2026-11-24T12:00:01Z",
    }  # fmt: skip
    fleet.patch(f"{JOBS}/train/status", {"status": {"conditions": [ended], "failed": 7, "succeeded": 1}})
    assert why(fleet, "job/train", "-o", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["phase"], found["since"]) == ("failed", 1795521601)
    assert found["answer"] == "default/train failed: BackoffLimitExceeded: it has reached its limit"
    assert found["reasons"] == [
        "It ended at 2026-11-24T12:00:01Z", "Of its pods 1 succeeded, and 7 failed",
        "The last one, pod train-0-b, ended with exit code 137: OOMKilled: too [2Jlarge, at 2026-11-24T12:00:00Z",
    ]  # fmt: skip
    assert why(fleet, "train") == 0
    line, ended_at, *_ = capsys.readouterr().out.splitlines()
    assert line == found["answer"]
    assert ended_at.startswith("  It ended ")
    ended["type"] = "Complete"
    fleet.patch(f"{JOBS}/train/status", {"status": {"conditions": [ended]}})
    assert why(fleet, "train") == 0
    assert capsys.readouterr().out.startswith("default/train complete: it is done\n")


def test_a_job_whose_containers_crash_says_how_often_and_how_the_last_one_ended(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet.post(JOBS, objects.job("train", 1))
    fleet.patch(f"{JOBS}/train/status", {"status": {"active": 1}})
    a_pod(fleet, "train-x", "2026-11-24T12:00:00Z", 3, restarted=True, reason="Error")
    row = {"namespace": "default", "name": "train", "phase": "starting", "why": "was admitted"}
    monkeypatch.setattr(engine, "ask", lambda *_, **__: (200, json.dumps({"jobs": [row]})))
    assert why(fleet, "job/train") == 0
    line, restarts, last = capsys.readouterr().out.splitlines()
    assert line == "default/train starting: was admitted"
    assert restarts == "  Its containers were restarted 4 times"
    assert last.startswith("  The last one, pod train-x, ended with exit code 3")
    listed = KubeClient.list

    def refused(client: KubeClient, kind: Kind[Any], *more: Any) -> Any:
        if kind is JOB_PODS:
            raise from_status(403, "Forbidden", "pods is forbidden")
        return listed(client, kind, *more)

    monkeypatch.setattr(KubeClient, "list", refused)
    assert why(fleet, "job/train") == 0
    assert capsys.readouterr().out == "default/train starting: was admitted\n"
    fleet.patch(f"{JOBS}/train/status", {"status": {"failed": 2}})
    assert why(fleet, "job/train") == 0
    assert "  How its pods ended is not known: pods is forbidden" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["rayjob/tune", "rayjobs/tune"])
def test_a_workload_of_another_kind_is_asked_of_the_engine_by_its_kind(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], mocker: MockerFixture, name: str
) -> None:
    job = {
        "namespace": "team-a",
        "name": "rayjob/tune",
        "answer": "team-a/rayjob/tune waiting: waits for room",
    }
    ask = mocker.patch.object(engine, "ask", return_value=(200, json.dumps({"jobs": [job]})))
    assert why(fleet, name, "-n", "team-a") == 0
    assert capsys.readouterr().out.splitlines()[0] == "team-a/rayjob/tune waiting: waits for room"
    assert ask.call_args.kwargs == {"job": "team-a/rayjob/tune"}
    ask.return_value = (404, "no job team-a/rayjob/tune waits or runs in a queue\n")
    assert why(fleet, name, "-n", "team-a") == 2
    assert capsys.readouterr().err.startswith(
        "vgpu: there is no rayjob team-a/tune: see `kubectl get rayjobs.ray.io"
    )


@pytest.mark.parametrize("answers", [True, False])
def test_a_workload_of_another_kind_that_the_engine_does_not_know(
    fleet: Fleet, capsys: pytest.CaptureFixture[str], mocker: MockerFixture, *, answers: bool
) -> None:
    ask = mocker.patch.object(engine, "ask", return_value=(404, "no job waits or runs\n"))
    if not answers:
        ask.side_effect = EngineError("no job engine")
    path = "/apis/ray.io/v1/namespaces/default/rayjobs"
    fleet.post(path, body(RAY_JOB, "tune", labels={}))
    assert why(fleet, "rayjob/tune") == 2
    said = (
        "default/rayjob/tune is in no queue: to queue it, give it the label" if answers else "no job engine"
    )
    assert said in capsys.readouterr().err
    fleet.patch(f"{path}/tune", {"metadata": {"labels": {"vgpu.io/queue": "default"}}})
    assert why(fleet, "rayjob/tune") == 2
    assert capsys.readouterr().err == f"vgpu: {'no job waits or runs' if answers else 'no job engine'}\n"
    ended = {"jobDeploymentStatus": "Failed", "message": "out of memory", "endTime": "2026-11-24T12:00:00Z"}
    fleet.patch(f"{path}/tune/status", {"status": ended})
    assert why(fleet, "rayjob/tune") == 0
    line, at = capsys.readouterr().out.splitlines()
    assert line == "default/rayjob/tune failed: Failed: out of memory"
    assert at.startswith("  It ended "), "and no number of pods, which nobody counts"


def test_an_engine_of_an_older_version_has_its_reasons_in_one_text() -> None:
    job = {"namespace": "default", "name": "a", "phase": "waiting", "why": "waits for room"}
    told = planned(json.dumps({"jobs": [job]}))
    assert (told.answer, told.object) == (Answer("default/a waiting: waits for room"), {"jobs": [job]})
    for text in ("", "[]", '{"jobs": []}', '{"jobs": [1]}', '{"jobs": [{}]}'):
        with pytest.raises(EngineError, match="cannot be read"):
            planned(text)


def test_the_leader_is_asked_where_it_listens() -> None:
    settings = ClusterSettings(pod_name="a")
    assert settings.extender_listen == f"127.0.0.1:{allocator_deployment.PORT}"
    assert (settings.lease_name, settings.lease_namespace) == (
        allocator_deployment.LEASE,
        caller.NAMESPACE,
    )


CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"


def claiming(fleet: Fleet, name: str) -> None:
    """A pod that asks by the ResourceClaim `slice`."""
    fleet.post(PODS, objects.claiming(name, "slice"))


def test_a_pod_that_asks_by_a_claim_is_told_what_its_claim_lacks(
    full: Fleet, capsys: pytest.CaptureFixture[str]
) -> None:
    claiming(full, "claims")
    assert why(full, "claims") == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "default/claims waits for its claim: container main waits for ResourceClaim slice: "
    )
    full.post(CLAIMS, claim())
    assert why(full, "claims") == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "default/claims asks for hygon.com/dcu-mem: 8, hygon.com/dcu-cores: 30 and fits no"
    )
    assert "2 on nodes that prepare no ResourceClaims" in said
    assert "Ask for the slice in limits, or ask an operator" in said


def test_without_the_right_to_list_claims_it_says_that_they_are_not_known(
    full: Fleet, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    claiming(full, "claims")
    listed = KubeClient.list

    def some(client: KubeClient, kind: Kind[Any], *where: Any) -> Any:
        if kind is RESOURCE_CLAIMS:
            raise from_status(403, "Forbidden", "resourceclaims is forbidden")
        return listed(client, kind, *where)

    monkeypatch.setattr(KubeClient, "list", some)
    assert why(full, "claims") == 0
    said = capsys.readouterr().out
    assert "what pods ask for in claims is not known: resourceclaims is forbidden" in said
