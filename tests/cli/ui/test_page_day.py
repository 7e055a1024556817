"""The strip of a day below the map, in a real browser."""

import re
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from device_plugin.cli.ui.day import COLUMN_SECONDS, COLUMNS
from hack.measure.page_data import NOW
from tests.cli.ui.shown import Shown

pytestmark = pytest.mark.no_cover
LAST = NOW // COLUMN_SECONDS
ALPHAS = """canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]
.filter((_, i) => i % 4 === 3)"""


def alphas(shown: Shown, lines: int) -> list[list[int]]:
    """By line, the opacity of each column, once the strip has this number of lines: it is drawn after the map."""
    canvas = shown.page.locator("#day canvas")
    expect(canvas).to_have_attribute("height", str(lines))
    found: list[int] = canvas.evaluate(ALPHAS)
    return [found[i : i + COLUMNS] for i in range(0, len(found), COLUMNS)]


def test_a_line_for_each_node_is_darker_the_more_is_held_and_empty_where_nothing_is_known(
    small: Shown,
) -> None:
    days = {name: {"last": LAST, "levels": "0"} for name in small.truth}
    small.entries.put("day", {**days, "gpu-0002": {"last": LAST, "levels": "-0AK"}})
    page = small.open()
    lines = alphas(small, 6)
    assert len(lines) == 6
    # A column may have ended since the day was made.
    shown = [each for each in lines[1] if each]
    assert shown == sorted(shown)
    assert (len(shown), shown[-1]) == (3, 255)
    # The means of 0, 50 and 100 % of one node, and of now of six: 0 % but for one of 100 %.
    expect(page.locator("#day figcaption")).to_contain_text(
        re.compile(r"^Memory held in the last 24 hours, a line for each node: (17|not) ")
    )
    page.get_by_label("Name", exact=True).fill("gpu-0003")
    expect(page.locator("#map-text")).to_have_text(re.compile("^1 node, "))
    assert len(alphas(small, 1)) == 1
    small.entries.put("day", dict.fromkeys(small.truth))
    expect(page.locator("#day")).to_be_hidden()


def test_with_prometheus_it_shows_what_was_used(browser: Browser) -> None:
    answer: dict[str, Any] = {"last": LAST, "nodes": {"gpu-0001": "-" * (COLUMNS - 1) + "5"}}
    shown = Shown(browser, 2, {"/day": lambda _: answer})
    try:
        shown.entries.put("about", {"page": {"use": True}})
        page = shown.open()
        expect(page.locator("#day figcaption")).to_contain_text("Memory used in the last 24 hours")
        assert len(alphas(shown, 1)) == 1
        assert shown.errors == []
    finally:
        shown.end()


def test_many_nodes_share_lines(browser: Browser) -> None:
    shown = Shown(browser, 500)
    try:
        shown.open()
        assert len(alphas(shown, 96)) == 96
    finally:
        shown.end()
