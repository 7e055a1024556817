"""The page of `vgpu ui` in a real browser: it shows what the API server has, within a second of each change."""

import statistics
import time
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Page, expect

from device_plugin.core.contract.annotations import CORDONED
from device_plugin.kube.api import NODES, Ref
from tests import deadline
from tests.e2e import nodes, pages
from tests.e2e.kubectl import Kubectl, api
from tests.e2e.slices import cards, grant
from tests.e2e.test_kubectl_plugin import listed
from tests.e2e.waiting import eventually
from tests.e2e.workloads import slice_pod

PROMISED_SECONDS = 1.0


@pytest.fixture
def page() -> Iterator[Page]:
    with pages.opened() as found:
        yield found


def shown(page: Page) -> dict[str, int]:
    """The number of cards of each node on the page."""
    found: dict[str, int] = page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.row')].map((row) => [row.dataset.key,"
        " row.querySelectorAll('.card').length]))"
    )
    return found


def follows(page: Page, *, cordoned: bool) -> bool:
    """True if the panel says that its card is cordoned, or nothing of its state where it is not."""
    said = page.evaluate(
        "[...document.querySelectorAll('#panel .state')].filter((each) => each.checkVisibility())"
        ".map((each) => each.textContent).join()"
    )
    return "Cordoned" in said if cordoned else not said


def test_the_page_is_the_cluster_and_follows_it_within_a_second(kubectl: Kubectl, page: Page) -> None:
    known = cards()
    names = {card["node"] for card in known.values()}
    wanted = {name: sum(card["node"] == name for card in known.values()) for name in names}
    assert eventually(lambda: shown(page) == wanted, 20), (shown(page), wanted)

    kubectl.create(slice_pod("holder", mem=4, cores=15, **nodes.on(nodes.first())))
    kubectl.create(slice_pod("too-large", mem=512))
    given = eventually(lambda: grant(kubectl, "holder"), 60)
    (taken,) = given["containers"]["main"]
    page.get_by_label("Namespace", exact=True).fill(kubectl.namespace)
    row = page.locator(".row")
    expect(row).to_have_count(1)
    uuids = [uuid for uuid, card in known.items() if card["node"] == nodes.first()]
    row.locator(".card").nth(uuids.index(taken["card"])).click()
    panel = page.locator("#panel")
    expect(panel.locator("h2")).to_have_text(taken["card"])
    line = panel.locator(".slice", has_text="holder")
    expect(line).to_contain_text(f"{kubectl.namespace}, container main")
    expect(line).to_contain_text(f"{len(taken['cores'])} groups")

    times = []
    for turn in range(7):
        text = "" if turn % 2 else taken["card"]
        api().patch(NODES, Ref(nodes.first()), {"metadata": {"annotations": {CORDONED: text or None}}})
        began = time.monotonic()
        # Not `expect`, which looks after 0.35, 0.85 and 1.85 s.
        assert deadline.eventually(partial(follows, page, cordoned=bool(text)), 20, every=0.02)
        times.append(time.monotonic() - began)
    api().patch(NODES, Ref(nodes.first()), {"metadata": {"annotations": {CORDONED: None}}})
    print(f"seconds from the write to the page: {sorted(round(each, 3) for each in times)}")
    assert statistics.median(times) < PROMISED_SECONDS

    page.locator("nav a[data-view=waiting]").click()
    expect(page.locator(".item")).to_have_count(1)
    expect(page.locator(".item")).to_contain_text("too-large")
    expect(page.locator(".item")).to_contain_text("Asks for hygon.com/dcu-mem: 512")
    page.get_by_role("button", name="Why too-large waits").click()
    expect(page.locator(".told")).to_contain_text("and the allocator's", timeout=90_000)
    kubectl("delete", "pod", "too-large", "--wait=false")
    expect(page.locator("#empty")).to_be_visible()


def test_a_slice_shows_what_is_used_of_it_as_the_command_does(kubectl: Kubectl, page: Page) -> None:
    kubectl.create(slice_pod("hoards", mem=8, cores=10, **nodes.on(nodes.first())))
    kubectl.running("hoards")
    kubectl.inside("hoards", "sh", "-c", "vgpu-probe hold 2048 </dev/null >/dev/null 2>&1 &")

    def used() -> int:
        found = listed("top", "-n", kubectl.namespace)["slices"]
        return max((use["usedBytes"] or 0 for use in found), default=0) >> 20

    assert eventually(lambda: used() >= 2048, 60), used()
    page.get_by_label("Namespace", exact=True).fill(kubectl.namespace)
    (taken,) = grant(kubectl, "hoards")["containers"]["main"]
    known = cards()
    uuids = [uuid for uuid, card in known.items() if card["node"] == nodes.first()]
    page.locator(".row .card").nth(uuids.index(taken["card"])).click()
    line = page.locator("#panel .slice", has_text="hoards")
    # The page asks the agents every 10 s.
    expect(line).to_contain_text("uses 2 GiB", timeout=60_000)
    expect(page.locator("#totals > div", has_text="Granted, not used")).to_contain_text("GiB")
