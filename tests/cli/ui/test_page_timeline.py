"""The timeline of Jobs in a real browser: shapes, forecasts, words, keys, and thousands of rows."""

import re
import time

import pytest
from playwright.sync_api import Browser, Page, expect

from hack.measure import page_data
from hack.measure.page_data import NOW
from tests.cli.ui.shown import Shown

pytestmark = pytest.mark.no_cover
# The height of a bar of the largest width, in pixels.
BAR = 26


def jobs(shown: Shown) -> Page:
    page = shown.open()
    page.locator("nav a[data-view=jobs]").click()
    page.locator(".job").first.wait_for()
    return page


def bars(page: Page, name: str, part: str = "known") -> list[int]:
    """The heights of a Job's bars in the order of time, in pixels; the heights follow from the outline."""
    outline = page.locator(".job", has_text=name).locator(f"path.{part}").get_attribute("d") or ""
    return [BAR - int(y) for y in re.findall(r"V(\d+)(?!\d*Z)", outline)]


def part(page: Page, name: str, part: str) -> dict[str, float]:
    """Left edge and width of a part of a Job's row, counted from the left edge of its bars, and the width of `all`."""
    found: dict[str, float] = page.locator(".job", has_text=name).evaluate(
        "(row, part) => { const [track, { x, width }] = ['.track', part].map((each) =>"
        " row.querySelector(each).getBoundingClientRect()); return { left: x - track.x, width, all: track.width } }",
        part,
    )
    return found


def test_a_bar_is_as_high_as_its_job_is_wide_and_falls_where_it_stops(small: Shown) -> None:
    page = jobs(small)
    expect(page.locator(".queue h2")).to_have_text("Queue default: 4 running, 3 waiting")
    # Two pods before the command saw the Job and after, then eight, none, and four, of eight at most.
    assert bars(page, "pretrain-0", "before") == [7]
    assert bars(page, "pretrain-0") == [7, BAR, 13]
    assert bars(page, "pretrain-4") == []
    now = page.locator(".lines .now").evaluate("line => parseFloat(line.style.left)")
    edge = page.locator(".job").first.locator(".who").evaluate("who => who.getBoundingClientRect().width")
    grown = {**page_data.times(0), "stays": [*page_data.times(0)["stays"], [NOW - 60, 8, "running"]]}
    small.entries.put("times", {"uid-0": grown})
    expect(page.locator(".job", has_text="pretrain-0").locator("path.known")).to_have_attribute(
        "d", re.compile(r"V0H[\d.]+V26Z$")
    )
    assert bars(page, "pretrain-0") == [7, BAR, 13, BAR]
    runs = part(page, "pretrain-0", ".expected")
    assert abs(runs["left"] - (now - edge)) < 3, "what is expected begins now"
    waits = part(page, "pretrain-4", ".expected")
    # Of six hours.
    until = page_data.job(4)["expected"]["start"] - time.time()
    assert abs(waits["left"] - runs["left"] - waits["all"] * until / (6 * 3600)) < 5
    expect(page.locator(".job", has_text="pretrain-4").locator(".expected")).to_have_class(
        re.compile("promised")
    )
    assert part(page, "pretrain-0", ".progress i")["width"] == pytest.approx(
        part(page, "pretrain-0", ".progress")["width"] * 0.2, abs=1
    )


def test_a_job_that_ended_is_below_the_others_until_it_is_out_of_sight(small: Shown) -> None:
    page = jobs(small)
    ended = {**page_data.times(1), "ended": NOW - 5400, "outcome": "failed"}
    small.entries.put("times", {"uid-1": ended})
    small.entries.put("job", {"batch/pretrain-1": None})
    expect(page.locator(".queue h2")).to_have_text("Queue default: 3 running, 3 waiting, 1 ended")
    last = page.locator(".job[aria-posinset='8']")
    expect(last).to_contain_text("pretrain-1")
    expect(last).to_contain_text("failed")
    page.locator("#filter-span").select_option("1 hour")
    expect(page.locator(".job")).to_have_count(6)
    assert "span=1" in page.url
    page.locator("#filter-span").select_option("6 hours")
    page.get_by_label("Phase").select_option("ended")
    expect(page.locator(".job")).to_have_count(1)
    page.locator("#filter-namespace").fill("other")
    expect(page.locator("#empty")).to_have_text("Nothing fits the filter.")


def test_why_a_job_waits_is_said_on_hover_on_focus_and_to_screen_readers(small: Shown) -> None:
    small.entries.put(
        "job", {"batch/pretrain-4": page_data.job(4) | {"why": "waits for room; it is due: <b>cards</b>"}}
    )
    page = jobs(small)
    row, tip = page.locator(".job", has_text="pretrain-4"), page.locator("#tip")
    text = "Waits for room; it is due: <b>cards</b>."
    for words in (text, "Cards are kept for it.", "Expected to start at"):
        expect(row.locator("button")).to_have_attribute("aria-label", re.compile(re.escape(words)))
    # The reason says already for what the Job waits.
    expect(row.locator("button")).not_to_have_attribute("aria-label", re.compile("room for 4 pods"))
    row.hover()
    expect(tip).to_contain_text(text)
    page.mouse.move(5, 5)
    expect(tip).to_be_hidden()
    page.locator(".job", has_text="pretrain-0").locator(".track").hover(position={"x": 5, "y": 5})
    expect(tip).to_contain_text(re.compile(r"\d\d:\d\d: no pods\."))
    page.locator(".job", has_text="pretrain-3").locator("button").focus()
    page.keyboard.press("ArrowDown")
    expect(tip).to_contain_text(text)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.keyboard.press("Enter")
    panel = page.locator("#panel")
    expect(panel.locator("h2")).to_be_focused()
    expect(panel).to_contain_text(text)
    expect(panel).to_contain_text("vgpu why job/pretrain-4 -n batch")
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(row.locator("button")).to_be_focused()


def test_what_happened_to_a_job_is_listed_with_what_only_the_object_says(small: Shown) -> None:
    page = jobs(small)
    page.locator(".job", has_text="pretrain-1").locator("button").click()
    cells = page.locator("#panel .stays tr td:nth-child(2)")
    expect(cells).to_have_text(["4", "0", "8", "2"])
    expect(page.locator("#panel")).to_contain_text("may have 1, 2, 4, 8")
    expect(page.locator("#panel")).to_contain_text("2,400 of 6,000 done, about 1h30m left.")
    expect(page.locator("#panel .stays caption")).to_contain_text("this command saw it first at")
    assert "job=uid-1" in page.url
    page.reload()
    expect(page.locator("#panel h2")).to_have_text("pretrain-1")


def test_of_thousands_of_jobs_only_those_in_sight_are_made(browser: Browser) -> None:
    shown = Shown(browser, 2)
    try:
        many = range(5000)
        shown.entries.put("job", {f"batch/pretrain-{i}": page_data.job(i) for i in many})
        shown.entries.put("times", {f"uid-{i}": page_data.times(i) for i in many})
        page = jobs(shown)
        assert page.locator(".job").count() < 80
        page.locator(".job").first.locator("button").focus()
        page.keyboard.press("End")
        last = page.locator(".job[aria-posinset='5001']")
        expect(last.locator("button")).to_be_focused()
        expect(last).to_be_in_viewport()
        assert page.locator(".job").count() < 80
        page.keyboard.press("PageUp")
        expect(page.locator("button:focus")).to_be_in_viewport()
        page.get_by_label("Name", exact=True).fill("pretrain-4321")
        expect(page.locator(".job")).to_have_count(1)
        assert shown.errors == []
    finally:
        shown.end()


def test_on_a_phone_no_line_of_an_hour_is_drawn_over_a_name(small: Shown) -> None:
    page = small.open()
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("nav a", has_text="Jobs").click()
    expect(page.locator(".lines i").first).to_be_attached()
    names = page.locator(".who > *")
    names.first.wait_for()

    def drawn() -> list[bytes]:
        """The first names as images, without the parts of pixels at their edges."""
        boxes = [names.nth(i).bounding_box() for i in range(4)]
        return [
            page.screenshot(
                clip={"x": b["x"] + 1, "y": b["y"] + 1, "width": b["width"] - 2, "height": b["height"] - 2}
            )
            for b in boxes
            if b is not None
        ]

    before = drawn()
    page.evaluate("document.querySelector('.lines').hidden = true")
    assert drawn() == before
