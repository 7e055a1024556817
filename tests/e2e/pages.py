"""The page of `vgpu ui` over the cluster, in a real browser."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, expect

from hack.measure.chromium import NoChromiumError, chromium
from tests.e2e.waiting import PATIENCE
from tests.pages import PROJECT
from tests.requirement import require

# Milliseconds in which the page shows what it is expected to show.
expect.set_options(timeout=PATIENCE * 5_000)


@contextmanager
def opened(*options: str) -> Iterator[Page]:
    """The page of the administrator, with these options of the command. The page must say no error."""
    command = [
        sys.executable,
        "-m",
        "device_plugin",
        "ui",
        "--kubeconfig",
        os.environ["KUBECONFIG"],
        *options,
    ]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) as serving:
        try:
            assert serving.stdout is not None
            address = serving.stdout.readline().strip()
            with chromium() as browser:
                made = browser.new_page(viewport={"width": 1600, "height": 2000})
                errors: list[str] = []
                made.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
                made.on("pageerror", lambda error: errors.append(str(error)))
                made.goto(address)
                made.locator(".card").first.wait_for()
                yield made
                assert errors == []
        except NoChromiumError as error:
            require(condition=False, reason=str(error))
        finally:
            serving.terminate()
    assert serving.returncode == 0
