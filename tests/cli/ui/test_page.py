"""The page in a real browser, over a generated cluster: content, hostile names, keys, sizes, what it may not do."""

import random
import re
from collections.abc import Iterator, Mapping
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from pytest_mock import MockerFixture

from device_plugin.cli.ui.browser import opened
from hack.measure import page_data
from tests.cli.ui.shown import Shown, wider
from tests.deadline import eventually

# Counting lines of a browser's server, which test_server.py does, would only slow the browser down.
pytestmark = pytest.mark.no_cover
NODES = 5000
HOSTILE = '<img src=x onerror="document.title=1">&lt;b&gt;{{7*7}}'
TURNED = "team\u202etxt.exe\u2066\u200f\u0007\u001b[31m\n"
LONG = "a" * 253


@pytest.fixture(scope="module")
def large(browser: Browser) -> Iterator[Shown]:
    made = Shown(browser, NODES)
    made.open()
    yield made
    made.end()
    assert (made.errors, made.foreign) == ([], [])


def labels(page: Page) -> dict[str, list[str]]:
    """By node, what each of its cards that are in sight says."""
    found: dict[str, list[str]] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.row')].map((row) => [row.dataset.key,"
        " [...row.querySelectorAll('.card')].map((card) => card.getAttribute('aria-label'))]))"
    )
    return found


def wanted(card: page_data.Row) -> list[str]:
    """What the label of a card must hold."""
    return [
        f"and {card['freeGroups']} of {card['groups']} core group",
        f"{len(card['slices'])} slice",
        card["state"],
    ]


def test_what_is_in_sight_is_the_cluster_and_little_else_is_made(large: Shown) -> None:
    page = large.page
    in_sight = "[815, 830].every((y) => document.elementFromPoint(700, y)?.closest('.row'))"
    for height in (0.0, 0.31, 0.77, 1.0):
        page.evaluate("share => scrollTo(0, share * (document.body.scrollHeight - innerHeight))", height)
        # Rows are made in pieces.
        assert eventually(lambda: page.evaluate(in_sight), 200), height
        found = labels(page)
        assert 3 <= len(found) <= 60
        for name, cards in found.items():
            truth = large.truth[name]["cards"]
            assert len(cards) == len(truth)
            for label, card in zip(cards, truth, strict=True):
                assert all(text in label for text in wanted(card)), (label, card)
    assert page.evaluate("document.querySelectorAll('*').length") < 3000
    held = sum(card["mib"] - card["freeMiB"] for node in large.truth.values() for card in node["cards"])
    given = sum(
        card["freeMiB"]
        for node in large.truth.values()
        for card in node["cards"]
        if node["serving"] and not card["state"] and card["free"] and card["freeMiB"] and card["freeGroups"]
    )
    totals = page.locator("#totals").inner_text().replace(",", "")
    assert f"Memory held\n{held / 1048576:.0f} TiB" in totals
    assert f"{given / 1048576:.0f} TiB to give" in totals
    page.evaluate("scrollTo(0, 0)")


def test_filters_show_what_they_name_and_the_address_holds_them(large: Shown) -> None:
    page = large.page
    page.get_by_label("Model").select_option("K100")
    page.get_by_label("Namespace", exact=True).fill("team-vision")
    among = [
        name
        for name, node in large.truth.items()
        if any(card["model"] == "K100" for card in node["cards"])
        and any(s["namespace"] == "team-vision" for card in node["cards"] for s in card["slices"])
    ]
    expect(page.locator("#map-text")).to_have_text(re.compile(f"^{len(among):,} nodes, "))
    assert set(labels(page)) <= set(among)
    address = page.url
    assert ("model=K100" in address, "namespace=team-vision" in address) == (True, True)
    assert large.server.token not in address
    # The link works in another tab of this browser: an open one gives it the token.
    other = large.tab()
    other.goto(address)
    expect(other.locator("#map-text")).to_have_text(re.compile(f"^{len(among):,} nodes, "))
    other.close()
    page.get_by_label("Model").select_option("")
    page.get_by_label("Namespace", exact=True).fill("")
    page.get_by_label("Name", exact=True).fill("gpu-0777")
    expect(page.locator("#map-text")).to_have_text(re.compile("^1 node, "))
    page.get_by_label("Name", exact=True).fill("")


def test_the_token_is_in_no_request_and_no_history(small: Shown) -> None:
    page = small.open()
    page.goto("about:blank")
    page.go_back()
    page.locator(".card").first.wait_for()
    assert all(small.server.token not in url for url in small.urls)
    assert small.server.token not in page.url
    stranger = small.context.browser.new_context() if small.context.browser else None
    assert stranger is not None
    lost = stranger.new_page()
    lost.goto(page.url)
    expect(lost.locator("#empty")).to_contain_text("Open the address that vgpu ui printed")
    stranger.close()


def test_the_file_that_the_browser_is_given_leads_to_the_page(
    small: Shown, browser: Browser, mocker: MockerFixture
) -> None:
    given = mocker.patch("webbrowser.open")
    context = browser.new_context()
    with opened(small.server.address):
        page = context.new_page()
        page.goto(given.call_args.args[0])
        page.locator(".card").first.wait_for()
        assert small.server.token not in page.url
    context.close()


def test_a_change_is_shown_on_the_row_the_panel_and_the_totals(small: Shown) -> None:
    page = small.open()
    page.locator(".card").first.click()
    panel = page.locator("#panel")
    expect(panel.locator("h2")).to_have_text(small.truth["gpu-0001"]["cards"][0]["uuid"])
    slice_ = {
        "namespace": "new", "pod": "comes-now", "container": "main", "mib": 1024, "cores": [[0, 3], [8, 8]],
        "since": "", "state": "covered",
    }  # fmt: skip
    node = small.truth["gpu-0001"]
    card = {**node["cards"][0], "slices": [slice_], "freeMiB": 1024, "freeGroups": 2, "free": 1, "state": ""}
    small.entries.put("node", {"gpu-0001": {**node, "serving": True, "cards": [card, *node["cards"][1:]]}})
    expect(panel).to_contain_text("comes-now")
    expect(panel).to_contain_text("something covers the files that limit it")
    expect(panel.locator(".units .tint-warn")).to_have_count(5)
    expect(page.locator(".card").first).to_have_attribute(
        "aria-label", re.compile("free 1 GiB .* 2 of .* 1 slice")
    )
    small.entries.put("node", {"gpu-0001": None})
    expect(panel).to_be_hidden()
    expect(page.locator("#map-text")).to_have_text(re.compile("^5 nodes, 40 cards"))


def test_why_a_pod_waits_is_told_in_full_in_the_place_of_its_button(browser: Browser) -> None:
    answers = {"/why": lambda query: {"paragraph": f"{query['pod']} needs <b>48</b> units"}}
    shown = Shown(browser, 2, answers)
    try:
        page = shown.open()
        page.locator("nav a[data-view=waiting]").click()
        page.locator("#waiting-table summary").press("Enter")
        page.get_by_role("button", name="Why sweep-3 waits, in full").press("Enter")
        expect(page.locator(".told")).to_have_text("research/sweep-3 needs <b>48</b> units")
        expect(page.locator(".told")).to_be_focused()
        assert shown.errors == []
    finally:
        shown.end()


def test_the_use_of_a_card_over_time_is_drawn_where_prometheus_is_given(small: Shown) -> None:
    ended = {"ended": [[0.0, 0.9], [60.0, 0.9]], "late": [[0.0, 0.9], [61.0, 0.8]]}
    series = {"memory used": [[0.0, 0.2], [50.0, 0.9], [100.0, 0.4]], "computing": [], **ended}
    small.server.answers = {
        "/day": lambda _: {},
        "/use": lambda _: {"from": 0.0, "to": 100.0, "step": 20, "series": series},
    }
    small.entries.put("about", {"page": {"use": True}})
    page = small.open()
    page.locator(".card").first.click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("memory used: now 40 %")
    expect(panel).to_contain_text("computing: no values")
    expect(panel).to_contain_text("ended: not known now")
    expect(panel).to_contain_text("late: now 80 %")
    expect(panel.locator(".chart .values").first).to_have_attribute("d", "M0.0 71.2L300.0 12.4L600.0 54.4")
    plot = panel.locator(".plot").first
    expect(panel.locator(".plot .at").first).to_have_text("100 %")
    plot.hover(position={"x": 150, "y": 40})
    expect(plot.locator(".read")).to_have_text(re.compile(": 90 %$"))
    plot.focus()
    for key, value in (
        ("Home", "20 %"),
        ("ArrowRight", "90 %"),
        ("ArrowRight", "40 %"),
        ("ArrowRight", "40 %"),
    ):
        page.keyboard.press(key)
        expect(plot).to_have_attribute("aria-valuetext", re.compile(f": {value}$"))
    cursor = plot.locator(".cursor").evaluate("line => line.style.left")
    assert cursor == "100%"
    page.locator(".card").nth(1).focus()
    expect(plot.locator(".cursor")).to_be_hidden()
    small.server.answers = {"/use": lambda _: {"problem": "Prometheus answers 503"}}
    page.locator(".card").nth(1).click()
    expect(panel).to_contain_text("Prometheus answers 503")


def test_people_choose_the_time_of_a_chart(small: Shown) -> None:
    asked: list[str] = []

    def use(query: Mapping[str, str]) -> object:
        asked.append(query["hours"])
        hours = int(query["hours"])
        pairs = [[0.0, 0.2], [hours * 3600.0, hours / 100]]
        return {"from": 0.0, "to": hours * 3600.0, "step": 20, "series": {"computing": pairs}}

    small.server.answers = {"/day": lambda _: {}, "/use": use}
    small.entries.put("about", {"page": {"use": True}})
    page = small.open()
    page.locator(".card").first.click()
    panel = page.locator("#panel")
    expect(panel).to_contain_text("computing: now 6 %")
    choice = panel.get_by_label("Use of the last")
    choice.focus()
    choice.select_option("24 hours")
    expect(panel).to_contain_text("computing: now 24 %")
    expect(panel.locator(".plot")).to_have_count(1)
    expect(choice).to_be_focused()
    # The choice stays for the next card.
    page.locator(".card").nth(1).click()
    expect(panel).to_contain_text("computing: now 24 %")
    expect(panel.get_by_label("Use of the last")).to_have_value("24")
    assert asked == ["6", "24", "24"]


def test_a_page_whose_command_has_ended_says_so_and_keeps_what_it_showed(browser: Browser) -> None:
    shown = Shown(browser, 2)
    page = shown.open()
    expect(page.locator("#live-text")).to_have_text("live")
    shown.server.close()
    expect(page.locator("#live-text")).to_have_text("the command has ended, or does not answer")
    expect(page.locator(".row")).to_have_count(2)
    expect(page.locator("#stale")).to_contain_text(
        re.compile("^Not live since [0-9:]{8}: the command has ended")
    )
    shown.context.close()
    shown.thread.join()


def test_a_page_whose_api_server_is_gone_says_so_until_it_answers_again(small: Shown) -> None:
    page = small.open()
    live = page.locator("#live")
    expect(live).to_have_attribute("data-state", "live")
    small.entries.put("about", {"watch": {"late": "12:34:56"}})
    expect(live).to_have_attribute("data-state", "lost")
    expect(live).to_have_text("the API server does not answer")
    expect(page.locator("#stale")).to_have_text(
        "Not live since 12:34:56: the API server does not answer. What is shown is from then."
    )
    small.entries.put("about", {"watch": {"late": ""}})
    expect(live).to_have_attribute("data-state", "live")
    expect(page.locator("#stale")).to_be_hidden()


def test_what_needs_a_look_is_counted_marked_and_found(small: Shown) -> None:
    rng = random.Random(5)
    page = small.open()
    quiet = {"state": "", "slices": [], "mib": 1024, "freeMiB": 1024, "groups": 4, "freeGroups": 4, "free": 4}
    for number, state in enumerate(("unhealthy", "cordoned", "short"), 1):
        node = page_data.node(rng, f"{number:04x}", 2) | {"serving": True}
        node["cards"][0] |= {"state": state, "slices": []}
        node["cards"][1] |= quiet
        small.entries.put("node", {f"gpu-000{number}": node})
    for number, serving in ((4, False), (5, True), (6, True)):
        node = page_data.node(rng, f"{number:04x}", 1) | {"serving": serving}
        node["cards"][0] |= quiet
        small.entries.put("node", {f"gpu-000{number}": node})
    closed = page.locator("#totals > div", has_text="Closed cards")
    expect(closed).to_contain_text("1 cordoned, 1 short, 1 unhealthy, 1 without an agent")
    page.get_by_label("State").select_option("look")
    expect(page.locator(".row")).to_have_count(4)
    assert "state=look" in page.url
    expect(page.locator(".row").nth(3)).to_contain_text("no agent")
    page.locator(".card[data-state=unhealthy]").click()
    expect(page.locator("#panel .state")).to_contain_text("its driver reports a fault")
    page.get_by_label("State").select_option("room")
    expect(page.locator(".row")).to_have_count(5)


def test_a_card_that_has_no_room_says_what_it_lacks(small: Shown) -> None:
    page = small.open()
    node = page_data.node(random.Random(5), "0001", 4) | {"serving": True}
    lacks = {
        "full": (0, 0, 1),
        "no memory left": (0, 9, 1),
        "no groups left": (9, 0, 1),
        "no slice left": (9, 9, 0),
    }
    for card, (mib, groups, free) in zip(node["cards"], lacks.values(), strict=True):
        card |= {"state": "", "slices": [], "freeMiB": mib, "freeGroups": groups, "free": free}
    small.entries.put("node", {"gpu-0001": node})
    row = page.locator(".row").first
    for index, text in enumerate(lacks):
        expect(row.locator(".card").nth(index).locator(".says")).to_have_text(text)


def test_slices_of_one_container_lead_to_each_other_and_linked_cards_are_named(small: Shown) -> None:
    page = small.open()
    node = page_data.node(random.Random(5), "0001", 8) | {"serving": True}
    part = {
        "namespace": "serving", "pod": "llm-0", "container": "main", "cores": [[0, 14]], "since": "", "state": "",
    }  # fmt: skip
    for index, card in enumerate(node["cards"]):
        held = [{**part, "mib": card["mib"] // 4}] if index in (1, 2) else []
        card |= {"state": "", "slices": held, "hive": "ab"[index // 4], "numa": index // 4}
    small.entries.put("node", {"gpu-0001": node})
    expect(page.locator(".row").first.locator(".node")).to_contain_text("2 hives")
    page.locator(".row").first.locator(".card").nth(1).click()
    panel = page.locator("#panel")
    expect(panel.locator(".slice")).to_contain_text("25 %, 15 groups")
    expect(panel.locator(".facts")).to_contain_text("Linked by XGMI withcards 1, 3, 4NUMA node0")
    panel.get_by_role("button", name="card 3").press("Enter")
    expect(panel.locator("h2")).to_have_text(node["cards"][2]["uuid"])
    expect(panel.locator("h2")).to_be_focused()
    expect(panel.locator(".other")).to_have_text("card 2")


def test_waiting_pods_of_one_controller_and_reason_share_a_row(small: Shown) -> None:
    odd = page_data.waiting(1) | {"pod": "odd", "owner": "", "reason": "too-large"}
    small.entries.put("waiting", {"research/odd": odd})
    page = small.open()
    page.locator("nav a[data-view=waiting]").click()
    rows = page.locator("#waiting-rows tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("sweepresearch, Job12")
    expect(rows.first).to_contain_text("No card fits: 312 cards have less free memory")
    expect(page.locator("#filter-reason option")).to_have_text(["any", "memory (12)", "too-large (1)"])
    rows.first.locator("summary").click()
    expect(rows.first.locator("li")).to_have_count(12)
    small.entries.put("waiting", {"research/sweep-3": None})
    # The list stays open.
    expect(rows.first.locator("li")).to_have_count(11)
    page.get_by_label("Reason").select_option("too-large")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("odd")
    expect(rows.get_by_role("button", name="Why odd waits, in full")).to_be_visible()


def test_the_number_that_fits_the_filter_is_of_all_entries_and_not_of_those_drawn(small: Shown) -> None:
    many = {
        f"research/many-{i}": page_data.waiting(1) | {"pod": f"many-{i}", "owner": ""} for i in range(150)
    }
    small.entries.put("waiting", many)
    page = small.open()
    page.locator("nav a[data-view=waiting]").click()
    expect(page.locator("#waiting-rows tr")).to_have_count(100)
    page.get_by_label("Name", exact=True).fill("many-")
    expect(page.get_by_text("Show more of 150")).to_be_visible()
    page.get_by_label("Name", exact=True).press("Enter")
    expect(page.locator("#said")).to_have_text("150 entries fit the filter")


def test_show_more_adds_to_the_list_that_is_shown_and_leaves_the_others_alone(small: Shown) -> None:
    made = {"waiting": page_data.waiting(1) | {"owner": ""}, "gang": page_data.gang(1)}
    for (kind, entry), named in zip(made.items(), ("pod", "group"), strict=True):
        small.entries.replace(kind, {f"research/{i}": entry | {named: f"many-{i}"} for i in range(350)})
    page = small.open()
    for view, entries in (
        ("gangs", page.locator("#list > li")),
        ("waiting", page.locator("#waiting-rows tr")),
    ):
        page.locator(f"nav a[data-view={view}]").click()
        for shown in (100, 200, 300):
            expect(entries).to_have_count(shown)
            page.locator("#more").click()
        expect(entries).to_have_count(350)
        expect(page.locator("#more")).to_be_hidden()


def test_gangs_are_listed_and_found_by_name(small: Shown) -> None:
    page = small.open()
    page.locator("nav a[data-view=gangs]").click()
    expect(page.locator(".item:visible")).to_have_count(3)
    expect(page.locator(".item", has_text="llama-0")).to_contain_text("0 are bound")
    page.get_by_label("Name", exact=True).fill("llama-1")
    expect(page.locator(".item:visible")).to_have_count(1)
    small.entries.put("gang", {"batch/llama-1": None})
    expect(page.locator("#empty")).to_have_text("Nothing fits the filter.")


def test_the_legend_has_a_colour_for_each_namespace_and_filters_by_it(small: Shown) -> None:
    held = dict[str, int]()
    for node in small.truth.values():
        for card in node["cards"]:
            for part in card["slices"]:
                held[part["namespace"]] = held.get(part["namespace"], 0) + part["mib"]
    page = small.open()
    legend = page.locator("#legend-spaces button")
    expect(legend).to_have_count(len(held))
    expect(legend.first).to_contain_text(max(held, key=lambda name: held[name]))
    colors = legend.locator("i").evaluate_all(
        "marks => marks.map((mark) => getComputedStyle(mark).backgroundColor)"
    )
    assert len(set(colors)) == len(held), "six namespaces have six colours"
    # A name that begins like the one of another namespace is found alone.
    few = {"namespace": "team", "pod": "a", "container": "main", "mib": 1, "cores": [[0, 0]], "since": "",
           "job": "", "state": ""}  # fmt: skip
    node = small.truth["gpu-0001"]
    small.entries.put("node", {"gpu-0001": {**node, "cards": [{**node["cards"][0], "slices": [few]}]}})
    legend.filter(has_text=re.compile("^team1 MiB")).click()
    expect(page.locator("#map-text")).to_have_text(re.compile("^1 node, 1 card, 1 slice"))
    assert "namespace=team" in page.url
    expect(page.locator("#legend-spaces button[aria-pressed=true]")).to_have_text("team1 MiB")
    page.locator("#legend-spaces button[aria-pressed=true]").click()
    expect(page.locator("#map-text")).to_have_text(re.compile("^6 nodes, "))


def test_cards_of_a_small_cluster_name_their_holders_and_what_their_jobs_have_done(small: Shown) -> None:
    page = small.open()
    node = page_data.node(random.Random(5), "0001", 1) | {"serving": True}
    part = {
        "namespace": "batch",
        "container": "main",
        "mib": 4096,
        "cores": [[0, 14]],
        "since": "",
        "state": "",
    }
    node["cards"][0] |= {
        "state": "",
        "slices": [{**part, "pod": f"p{i}", "job": "pretrain-1" if i == 0 else ""} for i in range(8)],
    }
    small.entries.put("node", {"gpu-0001": node})
    lines = page.locator(".row").first.locator(".holder")
    expect(lines).to_have_count(6)
    expect(lines.first).to_have_text("p04 GiB, 40 %, 1h30m left")
    expect(lines.nth(1)).to_have_text("p14 GiB")
    expect(lines.last).to_have_text("and 3 more")
    job = page_data.job(1)
    small.entries.put("job", {"batch/pretrain-1": {**job, "progress": {"done": 9, "total": 10}}})
    expect(lines.first).to_have_text("p04 GiB, 90 %, 1h30m left")
    more = {f"more-{i}": node for i in range(12)}
    small.entries.put("node", more)
    expect(page.locator(".holder")).to_have_count(0)


def test_hostile_names_stay_text(small: Shown) -> None:
    page = small.open()
    for text in (HOSTILE, TURNED, LONG):
        for kind, value in hostile(text).items():
            small.entries.put(kind, {text: value})
    expect(page.locator("#map-text")).to_have_text(re.compile("^9 nodes, "))
    for name in (HOSTILE, TURNED, LONG):
        page.get_by_label("Name", exact=True).fill(name[:8])
        page.locator(".row").filter(has_text=_clean(name)[:16]).locator(".card").first.click()
        expect(page.locator("#panel h2")).to_have_text(_clean(name))
        expect(page.locator("#panel .slice b")).to_have_text(_clean(name))
        assert wider(page) == []
    page.get_by_label("Name", exact=True).fill("")
    for view in ("waiting", "gangs", "jobs"):
        page.locator(f"nav a[data-view={view}]").click()
        for name in (HOSTILE, TURNED, LONG):
            expect(page.locator(".item:visible, .job:visible", has_text=_clean(name)[:40])).to_have_count(1)
        assert wider(page) == []
    assert page.locator("img").count() == 0
    assert page.title() == "Jobs in queues · vgpu"


def hostile(text: str) -> dict[str, page_data.Row]:
    """An entry of each kind whose texts are all this one."""
    node = page_data.node(random.Random(3), "ffff", 1)
    words = dict.fromkeys(("namespace", "pod", "container", "since", "state"), text)
    node["cards"][0] |= {
        **dict.fromkeys(("model", "uuid", "family"), text),
        "slices": [{**words, "job": text, "mib": 1, "cores": [[0, 0]]}],
    }
    return {
        "node": node,
        "waiting": _all_texts(page_data.waiting(0), text),
        "gang": {**_all_texts(page_data.gang(0), text), "why": text},
        "job": {**_all_texts(page_data.job(0), text), "why": text, "waitsFor": text},
        "times": {**_all_texts(page_data.times(0), text), "outcome": ""},
        "notice": {"text": text},
    }


def _all_texts(row: page_data.Row, text: str) -> page_data.Row:
    return {key: text if isinstance(value, str) else value for key, value in row.items()}


def _clean(name: str) -> str:
    return re.sub("[\u202e\u2066\u200f\u0007\u001b\n]", "\ufffd", name)


def test_everything_is_reached_by_keys_alone(small: Shown) -> None:
    page = small.open()
    keys = page.keyboard

    def focused() -> str:
        found: str = page.evaluate(
            "(({ ariaLabel, id, textContent }) => ariaLabel || id || textContent)(document.activeElement)"
        )
        return found

    box = "document.activeElement.getBoundingClientRect()"
    in_sight = f"(({{ top, bottom }}) => top >= 0 && bottom <= innerHeight)({box})"

    keys.press("Tab")
    assert focused() == "skip"
    keys.press("Enter")
    assert focused() == "main"
    for _ in range(12):
        keys.press("Tab")
        if focused().startswith("Card "):
            break
    assert focused().startswith("Card 1 of gpu-0001")
    for key, at in (
        ("ArrowRight", "Card 2 of gpu-0001"), ("ArrowDown", "Card 5 of gpu-0001"), ("End", "Card 1 of gpu-0006"),
        ("ArrowDown", "Card 4 of gpu-0006"), ("ArrowUp", "Card 1 of gpu-0006"), ("ArrowUp", "Card 1 of gpu-0005"),
        ("Shift+End", "Card 8 of gpu-0005"), ("Home", "Card 1 of gpu-0001"), ("ArrowLeft", "Card 1 of gpu-0001"),
        ("PageDown", "Card 1 of gpu-0002"), ("PageUp", "Card 1 of gpu-0001"), ("End", "Card 1 of gpu-0006"),
    ):  # fmt: skip
        keys.press(key)
        assert focused().startswith(at), key
        assert page.evaluate(in_sight), f"{key}: the focus is out of sight"
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) == "solid"
    keys.press("Enter")
    assert focused() == "panel-title"
    keys.press("Tab")
    assert focused() == "Close the card"
    keys.press("Escape")
    assert focused().startswith("Card 1 of gpu-0006")
    assert page.locator("#panel").is_hidden()
    keys.press("Space")
    keys.press("Shift+Tab")
    page.locator(".row .card").first.focus()
    keys.press("Escape")
    assert page.locator("#panel").is_hidden(), "Escape closes the card from outside of it too"
    page.get_by_label("Model").focus()
    reached = [focused()]
    for _ in range(3):
        keys.press("Tab")
        reached.append(focused())
    assert reached == ["filter-model", "filter-namespace", "filter-state", "filter-sort"]


@pytest.mark.parametrize(
    ("width", "scheme"), [(400, "dark"), (400, "light"), (2000, "light"), (2000, "dark")]
)
def test_axe_finds_nothing_serious(small: Shown, width: int, scheme: Literal["dark", "light"]) -> None:
    page = small.page
    page.set_viewport_size({"width": width, "height": 1000})
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    small.entries.put("notice", {"read-nodes": {"text": "you may not list the nodes of the cluster"}})
    small.entries.put("about", {"jobs": {"source": "From the job engine, every 10 s."}})
    small.open()
    for view in ("cards", "waiting", "gangs", "jobs"):
        page.locator(f"nav a[data-view={view}]").click()
        check_axe(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    for view, opens in (("cards", ".card"), ("jobs", ".job button")):
        page.locator(f"nav a[data-view={view}]").click()
        page.locator(opens).nth(1).click()
        expect(page.locator("#panel h2")).to_be_visible()
        check_axe(page, f"the panel of {view}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("Escape")


def check_axe(page: Page, view: str) -> None:
    found = Axe().run(page).response["violations"]
    grave = [each for each in found if each["impact"] in ("serious", "critical")]
    told = [(each["id"], [node["html"] for node in each["nodes"]][:3]) for each in grave]
    assert told == [], view


def test_at_a_zoom_of_200_percent_nothing_is_cut(small: Shown) -> None:
    page = small.page
    page.set_viewport_size({"width": 640, "height": 400})
    small.open()
    page.locator(".card").nth(1).click()
    expect(page.locator("#panel h2")).to_be_in_viewport()
    assert wider(page) == []
    page.keyboard.press("Escape")
    for view in ("cards", "waiting", "gangs", "jobs"):
        page.locator(f"nav a[data-view={view}]").click()
        assert wider(page) == [], view


def test_bars_are_seen_with_forced_colours_and_nothing_moves_where_that_is_asked(small: Shown) -> None:
    page = small.page
    page.emulate_media(forced_colors="active", reduced_motion="reduce")
    small.open()
    bar = page.locator(".memory").first
    assert bar.evaluate("bar => getComputedStyle(bar).backgroundColor") != page.evaluate(
        "getComputedStyle(document.querySelector('.card')).backgroundColor"
    )
    moving = "[...document.querySelectorAll('*')].filter((each) => getComputedStyle(each).transitionDuration !== '0s')"
    assert page.evaluate(f"{moving}.length") == 0


def test_a_change_is_made_after_a_second_question_and_its_command_stands_beside_it(small: Shown) -> None:
    asked: list[object] = []

    def change(wanted: Mapping[str, object]) -> str:
        asked.append(dict(wanted))
        return "it is cordoned"

    small.server.change = change
    small.entries.put("about", {"page": {"use": False, "changes": True}})
    page = small.open()
    page.locator(".card").first.click()
    page.get_by_text("Commands").click()
    command = page.locator(".action code").inner_text()
    page.get_by_role("button", name="Cordon", exact=True).click()
    assert asked == []
    page.get_by_role("button", name="Really: Cordon").click()
    expect(page.locator(".actions [role=status]")).to_have_text("It is cordoned.")
    (made,) = asked
    assert isinstance(made, dict)
    assert command == f"vgpu cordon {made['node']}/{made['card']}"
