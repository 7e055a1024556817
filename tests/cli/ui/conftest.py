"""A browser for the tests of the page, and the page over a small cluster."""

from collections.abc import Iterator

import pytest

from tests.requirement import require

try:
    from playwright.sync_api import Browser

    from hack.measure.chromium import NoChromiumError, chromium
    from tests.cli.ui.shown import Shown
except ImportError as error:
    pytest.fail(f"{error}: run make setup")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    try:
        with chromium() as found:
            yield found
    except NoChromiumError as error:
        require(condition=False, reason=str(error))


@pytest.fixture
def small(browser: Browser) -> Iterator[Shown]:
    made = Shown(browser, 6)
    yield made
    made.end()
    assert (made.errors, made.foreign) == ([], [])
