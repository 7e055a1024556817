"""Starts Debian's Chromium without a screen, for measurements and tests of pages."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

INSTALL = "apt-get install chromium"


class NoChromiumError(Exception):
    """Chromium is not installed; the text has the command that installs it."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start a browser, which ends with the context. Raises NoChromiumError.

    Chromium refuses to run as root in its sandbox, so only for root the sandbox is off.
    """
    path = shutil.which("chromium")
    if path is None:
        raise NoChromiumError(f"there is no chromium: {INSTALL}")
    options = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        try:
            yield browser
        finally:
            browser.close()
