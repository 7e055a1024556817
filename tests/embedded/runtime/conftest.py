import pytest

from tests.embedded import launcher


@pytest.fixture(scope="session", autouse=True)
def _launcher() -> None:
    launcher.build()
