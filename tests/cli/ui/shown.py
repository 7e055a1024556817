"""The page in a real browser, over a generated cluster."""

import re
import threading
from typing import Any

from playwright.sync_api import Browser, Page, Route, expect

from device_plugin.cli.ui.entries import PageEntries
from device_plugin.cli.ui.loopback import LoopbackServer
from hack.measure import page_data
from tests.deadline import BROWSER_MS

expect.set_options(timeout=BROWSER_MS)


class Shown:
    """The page over a cluster; it fails where the page says an error, or asks anybody else for anything."""

    def __init__(self, browser: Browser, nodes: int, answers: Any = None) -> None:
        self.entries = PageEntries()
        self.truth = dict(page_data.fill(self.entries, nodes))
        self.server = LoopbackServer(self.entries, answers or {})
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.context = browser.new_context(viewport={"width": 1400, "height": 900})
        self.context.set_default_timeout(BROWSER_MS)
        self.errors: list[str] = []
        self.foreign: list[str] = []
        self.urls: list[str] = []
        self.context.route("**/*", self._route)
        self.page = self.tab()

    def tab(self) -> Page:
        page = self.context.new_page()
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        return page

    def _route(self, route: Route) -> None:
        self.urls.append(route.request.url)
        if route.request.url.startswith(f"http://127.0.0.1:{self.server.port}/"):
            route.continue_()
        else:
            self.foreign.append(route.request.url)
            route.abort()

    def open(self) -> Page:
        self.page.goto(self.server.address)
        self.page.locator(".card").first.wait_for()
        expect(self.page.locator("#map-text")).to_have_text(re.compile(f"^{len(self.truth):,} nodes?, "))
        return self.page

    def end(self) -> None:
        self.context.close()
        self.server.close()
        self.thread.join()


def wider(page: Page) -> list[str]:
    """The HTML of each element that reaches beyond the right edge of the window, at most 120 characters."""
    found: list[str] = page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('main *, header *')]"
        ".filter((each) => each.getBoundingClientRect().right > innerWidth).map((each) => each.outerHTML.slice(0, 120))"
    )
    return found
