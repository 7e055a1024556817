"""Changes of the page are made with the person's token alone."""

from pathlib import Path

import pytest

from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.ui import changes as module
from device_plugin.cli.ui.changes import ChangeError
from device_plugin.cli.ui.team.changes import PersonalChanges
from device_plugin.core.contract.annotations import QUEUE
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


def test_the_pages_own_credentials_never_go_with_a_persons_token(
    fleet: Fleet, changes: PersonalChanges
) -> None:
    job(fleet)
    with pytest.raises(RefusedError, match="credentials"):
        changes.make("no-token", {"action": "stop", "namespace": "default", "name": "train"})
    assert "annotations" not in fleet.get(JOB)["metadata"]


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

    monkeypatch.setattr(module, "make", again)
    assert changes.make(ADMIN, {"action": "stop"}) == "done"
    assert inner == ["too many changes at the same time"]
