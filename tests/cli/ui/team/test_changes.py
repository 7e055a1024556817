"""Changes of the page are made with the person's token alone, and do what the commands do."""

import json
from pathlib import Path

import pytest

from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.access.engine import EngineError
from device_plugin.cli.ui.team import changes as module
from device_plugin.cli.ui.team.changes import ChangeError, PersonalChanges
from device_plugin.core.contract.annotations import HOLD, QUEUE
from device_plugin.kube.errors import RefusedError
from hack.embedded.apiserver.server import job_policy_files
from tests.builders import objects
from tests.cli.fleet import ADMIN, Fleet

JOB = "/apis/batch/v1/namespaces/default/jobs/train"


@pytest.fixture
def policies(policies: list[Path]) -> list[Path]:
    return [*policies, *job_policy_files()]


@pytest.fixture
def changes(fleet: Fleet) -> PersonalChanges:
    """Changes of a page whose own credentials are worth nothing."""
    refused = Endpoint(fleet.url, lambda: "Bearer nobody", headers=(("Impersonate-User", "system:admin"),))
    return PersonalChanges(refused)


def job(fleet: Fleet) -> None:
    body = objects.job("train", suspend=True)
    body["metadata"]["labels"] = {QUEUE: "default"}
    fleet.post("/apis/batch/v1/namespaces/default/jobs", body)


def test_a_card_is_cordoned_and_uncordoned(fleet: Fleet, changes: PersonalChanges) -> None:
    fleet.node("n1", 2)
    card = {"node": "n1", "card": "n1-1"}
    assert changes.make(ADMIN, {"action": "cordon", **card}) == "n1-1 on n1 is cordoned"
    assert fleet.cordoned("n1") == "n1-1"
    assert "system:admin" in json.dumps(fleet.get("/api/v1/nodes/n1")["metadata"]["annotations"])
    assert changes.make(ADMIN, {"action": "uncordon", **card}) == "n1-1 on n1 is in service"
    assert fleet.cordoned("n1") == ""


def test_a_job_is_stopped_resumed_started_and_deleted(fleet: Fleet, changes: PersonalChanges) -> None:
    job(fleet)
    name = {"namespace": "default", "name": "train"}
    assert "is held" in changes.make(ADMIN, {"action": "stop", **name})
    assert fleet.get(JOB)["metadata"]["annotations"][HOLD] == "true"
    with pytest.raises(EngineError, match="vgpu resume train"):
        changes.make(ADMIN, {"action": "admit", **name})
    assert "waits for cards again" in changes.make(ADMIN, {"action": "resume", **name})
    assert "starts with 1 pod" in changes.make(ADMIN, {"action": "admit", **name})
    assert fleet.get(JOB)["spec"]["suspend"] is False
    assert "is deleted" in changes.make(ADMIN, {"action": "cancel", **name})
    with pytest.raises(EngineError, match="there is no job"):
        changes.make(ADMIN, {"action": "cancel", **name})


def test_the_pages_own_credentials_never_go_with_a_persons_token(
    fleet: Fleet, changes: PersonalChanges
) -> None:
    job(fleet)
    with pytest.raises(RefusedError, match="credentials"):
        changes.make("no-token", {"action": "stop", "namespace": "default", "name": "train"})
    assert "annotations" not in fleet.get(JOB)["metadata"]


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
def test_a_change_of_another_form_is_refused(changes: PersonalChanges, wanted: dict[str, object]) -> None:
    with pytest.raises(ChangeError):
        changes.make(ADMIN, wanted)


def test_a_name_leads_to_no_other_object(fleet: Fleet, changes: PersonalChanges) -> None:
    job(fleet)
    for name in ("../jobs/train", "train/status", "train?dryRun=All", "%2e%2e/train"):
        with pytest.raises(ChangeError, match="malformed"):
            changes.make(ADMIN, {"action": "cancel", "namespace": "default", "name": name})
    assert fleet.get(JOB)["metadata"]["name"] == "train"


def test_changes_at_the_same_time_are_bounded(
    changes: PersonalChanges, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner: list[str] = []

    def again(*_: object) -> str:
        try:
            return changes.make(ADMIN, {"action": "stop"})
        except ChangeError as error:
            inner.append(str(error))
            return "done"

    monkeypatch.setattr(module, "_CHANGES", {"stop": again})
    assert changes.make(ADMIN, {"action": "stop"}) == "done"
    assert inner == ["too many changes at the same time"]
