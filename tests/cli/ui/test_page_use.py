"""The used part of held slices on the page: bars, texts and sums; unknown use stays unknown."""

import time
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.cli.ui.shown import Shown, wider

pytestmark = pytest.mark.no_cover
NODE = "gpu-0001"
IDLE_SINCE = time.time() - 3 * 3600 - 5


def part(pod: str, namespace: str, first: int) -> dict[str, Any]:
    return {
        "namespace": namespace, "pod": pod, "container": "main", "mib": 4096, "cores": [[first, first + 14]],
        "since": "", "job": "", "state": "",
    }  # fmt: skip


def put_owners(shown: Shown, owners: dict[tuple[str, str], tuple[int, int, int, int | None]]) -> None:
    """Owners with their slices, those that are idle, and the MiB that they hold and do not use."""
    keys = ("slices", "idle", "heldMiB", "unusedMiB")
    shown.entries.replace("owner", {
        "/".join(of): {"namespace": of[0], "owner": of[1], **dict(zip(keys, figures, strict=True))}
        for of, figures in owners.items()
    })  # fmt: skip


def use(shown: Shown, figures: dict[str, list[float | None]]) -> dict[str, Any]:
    """Put a node with one card of three slices, and their use by pod, in place of the cluster."""
    card = {
        **shown.truth[NODE]["cards"][0], "mib": 16384, "freeMiB": 4096, "groups": 60, "freeGroups": 15, "free": 1,
        "most": 4, "state": "",
        "slices": [part("a", "team-a", 0), part("b", "team-b", 15), part("c", "team-b", 30)],
    }  # fmt: skip
    node = {**shown.truth[NODE], "serving": True, "complete": True, "cards": [card]}
    spaces = {each["pod"]: each["namespace"] for each in card["slices"]}
    uses = {
        f"{NODE} {space}": {
            card["uuid"]: {f"{pod}/main": each for pod, each in figures.items() if spaces[pod] == space}
        }
        for space in {spaces[pod] for pod in figures}
    }
    shown.entries.replace("node", {NODE: node})
    shown.entries.replace("use", uses)
    expect(shown.page.locator(".card")).to_have_count(1)
    return card


KNOWN: dict[str, list[float | None]] = {
    "a": [1024, 7.5, 3072, 0], "b": [2048, 0.0, 4096, IDLE_SINCE], "c": [4096, None, 0, 0],
}  # fmt: skip


def image(page: Page, bar: str) -> str:
    found: str = page.locator(f".card {bar}").first.evaluate("bar => bar.style.backgroundImage")
    return found


def test_the_used_part_of_each_slice_is_in_its_bar_and_computing_is_a_line(small: Shown) -> None:
    page = small.open()
    use(small, KNOWN)
    card = page.locator(".card")
    said = "7 GiB of 12 GiB held in use, 1 idle"
    expect(card).to_have_attribute(
        "aria-label",
        f"Card 1 of {NODE}, free 4 GiB of 16 GiB and 15 of 60 core groups, 3 slices, {said}: a, b, c",
    )
    memory, groups = image(page, ".memory"), image(page, ".groups")
    # 1 of 4 GiB of a card of 16: to 6.3 % used, then pale to 25 %.
    assert "6.3%" in memory
    assert memory.count("color-mix") >= 4, "the unused parts of a and b"
    assert groups.count("linear-gradient") == 2, "a layer of lines above the groups"
    assert "12.5%" in groups.split("linear-gradient")[1], "7.5 of 60 groups are busy"
    expect(page.locator(".node")).to_contain_text("7 GiB not used")
    box = page.locator("#totals > div", has_text="Granted, not used")
    expect(box).to_contain_text("7 GiB")
    expect(box).to_contain_text("of 12 GiB held, 1 slice idle")
    expect(page.locator(".space", has_text="team-b")).to_contain_text("8 GiB, 4 GiB not used")


def test_what_is_not_known_is_said_to_be_so_with_the_rule_that_would_allow_it(small: Shown) -> None:
    page = small.open()
    rule = 'use is not known: forbidden. A rule that allows to ask: apiGroups: [""], resources: [pods/proxy]'
    small.entries.put("about", {"use": {"notes": [rule]}})
    use(small, {})
    card = page.locator(".card")
    expect(card).to_have_attribute(
        "aria-label",
        f"Card 1 of {NODE}, free 4 GiB of 16 GiB and 15 of 60 core groups, 3 slices, use not known: a, b, c",
    )
    assert "color-mix" not in image(page, ".memory")
    expect(page.locator("#use-note")).to_have_text(f"U{rule[1:]}.")
    expect(page.locator("#totals > div", has_text="Granted, not used")).to_contain_text("not known")
    expect(page.locator(".node")).not_to_contain_text("not used")
    use(small, {"a": KNOWN["a"], "b": [None, 3.0, None, 0]})
    box = page.locator("#totals > div", has_text="Granted, not used")
    expect(box).to_contain_text("of 4 GiB held, known of 1 of 3 slices")
    expect(page.locator(".node")).not_to_contain_text("not used")
    card.click()
    panel = page.locator("#panel")
    expect(panel.locator(".slice", has_text="team-a")).to_contain_text("uses 1 GiB and 7.5 of 15 groups")
    expect(panel.locator(".slice").nth(1)).to_contain_text("uses ? and 3 of 15 groups")
    expect(panel.locator(".slice").nth(2)).to_contain_text("use not known")


def test_the_panel_of_a_card_has_the_use_of_each_slice_and_follows_it(small: Shown) -> None:
    page = small.open()
    use(small, KNOWN)
    page.locator(".card").click()
    slices = page.locator("#panel .slice")
    expect(slices.nth(0)).to_contain_text("uses 1 GiB and 7.5 of 15 groups")
    expect(slices.nth(1)).to_contain_text("uses 2 GiB and 0 of 15 groups")
    expect(slices.nth(1)).to_contain_text("idle for 3h")
    expect(slices.nth(2)).to_contain_text("uses 4 GiB")
    expect(page.locator("#panel .facts")).to_contain_text("7 GiB of 12 GiB held in use, 1 idle")
    assert "25%" in str(
        slices.nth(0).locator(".used span").first.evaluate("bar => bar.style.backgroundImage")
    )
    use(small, {**KNOWN, "a": [3072, 0.0, 1024, 0]})
    expect(slices.nth(0)).to_contain_text("uses 3 GiB and 0 of 15 groups")


def test_owners_that_leave_most_unused_are_listed_and_filtered_by_namespace(small: Shown) -> None:
    page = small.open()
    hostile = '<img src=x onerror="document.title=1">'
    put_owners(small, {
        ("team-a", f"Job {hostile}"): (2, 0, 8192, 4096), ("team-b", "ReplicaSet web"): (9, 3, 90112, 81920),
        ("team-b", "Pod p"): (1, 0, 1024, None),
    })  # fmt: skip
    page.get_by_text("Granted and not used, by owner").click()
    rows = page.locator("#owner-rows tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("webteam-b, ReplicaSet80 GiB88 GiB93")
    expect(rows.nth(1)).to_contain_text(hostile)
    page.get_by_label("Namespace", exact=True).fill("team-a")
    expect(rows).to_have_count(1)


@pytest.mark.parametrize(
    ("width", "scheme"), [(1400, "light"), (1400, "dark"), (390, "light"), (390, "dark")]
)
def test_use_is_read_by_screen_readers_and_fits_a_phone(
    small: Shown, width: int, scheme: Literal["dark", "light"]
) -> None:
    page = small.open()
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    use(small, KNOWN)
    small.entries.put("about", {"use": {"notes": ["no agent runs on gpu-0002"]}})
    put_owners(small, {("team-b", "ReplicaSet " + "web-" * 40): (9, 3, 9011, 8192)})
    page.get_by_text("Granted and not used, by owner").click()
    expect(page.locator("#owner-rows tr")).to_have_count(1)
    assert wider(page) == []
    page.locator(".card").click()
    expect(page.locator("#panel .used")).to_have_count(3)
    found = Axe().run(page).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == [], found
