"""Changes of the page are made by the code of the commands, and only those of the page's list."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.ui.changes import ChangeError, make
from device_plugin.core.contract.annotations import HOLD, QUEUE
from device_plugin.core.workload_kinds import JOB_SET
from hack.embedded.apiserver.server import job_policy_files
from tests.builders import objects
from tests.builders.workloads import body
from tests.cli.fleet import ADMIN, Fleet

JOB = "/apis/batch/v1/namespaces/default/jobs/train"


@pytest.fixture
def policies(policies: list[Path]) -> list[Path]:
    return [*policies, *job_policy_files()]


@pytest.fixture
def client(fleet: Fleet) -> Iterator[KubeClient]:
    with closing(KubeClient(Endpoint(fleet.url, lambda: f"Bearer {ADMIN}"), "test")) as made:
        yield made


def job(fleet: Fleet) -> None:
    body = objects.job("train", suspend=True)
    body["metadata"]["labels"] = {QUEUE: "default"}
    fleet.post("/apis/batch/v1/namespaces/default/jobs", body)


def test_a_card_is_cordoned_and_uncordoned(fleet: Fleet, client: KubeClient) -> None:
    fleet.node("n1", 2)
    card = {"node": "n1", "card": "n1-1"}
    assert make(client, {"action": "cordon", **card}) == "n1-1 on n1 is cordoned"
    assert fleet.cordoned("n1") == "n1-1"
    assert "system:admin" in json.dumps(fleet.get("/api/v1/nodes/n1")["metadata"]["annotations"])
    assert make(client, {"action": "uncordon", **card}) == "n1-1 on n1 is in service"
    assert fleet.cordoned("n1") == ""


def test_a_job_is_stopped_resumed_started_and_deleted(fleet: Fleet, client: KubeClient) -> None:
    job(fleet)
    name = {"namespace": "default", "name": "train"}
    assert "is held" in make(client, {"action": "stop", **name})
    assert fleet.get(JOB)["metadata"]["annotations"][HOLD] == "true"
    with pytest.raises(EngineError, match="vgpu resume train"):
        make(client, {"action": "admit", **name})
    assert "waits for cards again" in make(client, {"action": "resume", **name})
    assert "starts with 1 pod" in make(client, {"action": "admit", **name})
    assert fleet.get(JOB)["spec"]["suspend"] is False
    assert "is deleted" in make(client, {"action": "cancel", **name})
    with pytest.raises(EngineError, match="there is no job"):
        make(client, {"action": "cancel", **name})


def test_a_workload_of_another_kind_is_named_with_its_kind(fleet: Fleet, client: KubeClient) -> None:
    path = f"/apis/{JOB_SET.group}/{JOB_SET.version}/namespaces/default/{JOB_SET.plural}"
    fleet.post(path, body(JOB_SET, "train"))
    name = {"namespace": "default", "name": "jobset/train"}
    assert make(client, {"action": "stop", **name}).startswith("default/jobset/train is held")
    with pytest.raises(EngineError, match="vgpu resume jobset/train"):
        make(client, {"action": "admit", **name})
    assert "waits for cards again" in make(client, {"action": "resume", **name})
    assert make(client, {"action": "admit", **name}) == "default/jobset/train starts with 1 pod"
    assert fleet.get(f"{path}/train")["spec"]["suspend"] is False
    for wrong in ("jobset/../train", "jobset/", "pod/train", "default/jobset/train"):
        with pytest.raises(ChangeError, match="malformed"):
            make(client, {"action": "cancel", **name, "name": wrong})
    assert "is deleted" in make(client, {"action": "cancel", **name})


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"action": "exec", "namespace": "default", "name": "train"},
        {"action": ["stop"]},
        {"action": "stop", "namespace": "default"},
        {"action": "stop", "namespace": "", "name": "train"},
        {"action": "stop", "namespace": "default", "name": 7},
        {"action": "stop", "namespace": "default", "name": "a\nb"},
        {"action": "stop", "namespace": "default", "name": "a" * 254},
        {"action": "cordon", "node": "n1"},
    ],
    ids=str,
)
def test_a_change_of_another_form_is_refused(client: KubeClient, wanted: dict[str, object]) -> None:
    with pytest.raises(ChangeError):
        make(client, wanted)


def test_a_name_leads_to_no_other_object(fleet: Fleet, client: KubeClient) -> None:
    job(fleet)
    for name in ("../jobs/train", "train/status", "train?dryRun=All", "%2e%2e/train"):
        with pytest.raises(ChangeError, match="malformed"):
            make(client, {"action": "cancel", "namespace": "default", "name": name})
    assert fleet.get(JOB)["metadata"]["name"] == "train"
