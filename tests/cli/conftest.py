from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.cli import drain
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.server import policy_files
from tests.cli.fleet import USERS, Fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    # Here is no kubelet to end a pod: one without a grace period is gone at once.
    policies = [file for file in policy_files() if file.name != "grace.yaml"]
    server = EmbeddedApiServer(policies, tokens=USERS)
    server.start()
    made = Fleet(server, tmp_path)
    yield made
    made.close()
    server.stop()


@pytest.fixture(autouse=True)
def prompt_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent runs here, so there are no reports to wait for."""
    monkeypatch.setattr(drain, "SETTLE_SECONDS", 0.0)
