from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin.embedded.apiserver import EmbeddedApiServer
from tests.cli.fleet import USERS, Fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    server = EmbeddedApiServer(tokens=USERS)
    server.start()
    made = Fleet(server, tmp_path)
    yield made
    made.close()
    server.stop()
