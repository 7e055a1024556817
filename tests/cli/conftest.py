from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from device_plugin.adapters.kube.client import KubeClient
from device_plugin.cli import drain
from device_plugin.kube.api import EVERYWHERE, Kind, Listed, Where
from device_plugin.kube.errors import ForbiddenError
from hack.embedded.apiserver import EmbeddedApiServer
from hack.embedded.apiserver.server import policy_files
from tests.cli.figures import Figures
from tests.cli.fleet import USERS, Fleet


@pytest.fixture
def policies() -> list[Path]:
    """The admission policies in force: here is no kubelet to end a pod, so one without a grace period goes at once."""
    return [file for file in policy_files() if file.name != "grace.yaml"]


@pytest.fixture
def fleet(tmp_path: Path, policies: list[Path]) -> Iterator[Fleet]:
    server = EmbeddedApiServer(policies, tokens=USERS)
    server.start()
    made = Fleet(server, tmp_path)
    yield made
    made.close()
    server.stop()


@pytest.fixture
def prometheus() -> Iterator[Figures]:
    made = Figures()
    yield made
    made.close()


@pytest.fixture
def rights_of_one_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing may be listed in all namespaces."""
    listed = KubeClient.list

    def limited(client: KubeClient, kind: Kind[Any], where: Where = EVERYWHERE) -> Listed[Any]:
        if not where.namespace:
            raise ForbiddenError("forbidden", 403, "Forbidden")
        return listed(client, kind, where)

    monkeypatch.setattr(KubeClient, "list", limited)


@pytest.fixture(autouse=True)
def prompt_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """No agent runs here, so there are no reports to wait for."""
    monkeypatch.setattr(drain, "SETTLE_SECONDS", 0.0)
