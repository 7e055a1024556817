import pytest

from tests.hack.embedded import launcher


@pytest.fixture(scope="session", autouse=True)
def _launcher() -> None:
    launcher.build()
