import pytest

from tests import compiled


@pytest.fixture(scope="session", autouse=True)
def _launcher() -> None:
    compiled.launcher()
