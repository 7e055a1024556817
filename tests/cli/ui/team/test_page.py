"""The page for a team in a real browser: the login, what is seen after it, and what is left when it ends."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, expect

from device_plugin.adapters.kube.endpoint import Endpoint
from device_plugin.cli.ui.team.changes import PersonalChanges
from device_plugin.kube.errors import ForbiddenError
from tests.cli.ui.conftest import browser
from tests.cli.ui.shown import wider
from tests.cli.ui.team.test_server import Team
from tests.cli.ui.test_page import check_axe

__all__ = ["browser"]


@pytest.fixture
def team() -> Iterator[Team]:
    made = Team()
    cards = [{
        "uuid": "GPU-1", "model": "Z100", "family": "hygon.com/dcu", "mib": 16384, "freeMiB": 8192, "groups": 60,
        "freeGroups": 30, "most": 4, "free": 2, "state": "", "hive": "", "numa": -1,
        "slices": [
            {"namespace": of, "pod": f"holds-{of}", "container": "main", "mib": 4096, "cores": [[i * 15, i * 15 + 14]],
             "since": "", "job": "", "state": ""}
            for i, of in enumerate(("team-a", "team-b"))
        ],
    }]  # fmt: skip
    made.entries.put("node", {"n1": {"serving": True, "complete": True, "cards": cards}})
    yield made
    made.end()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    made = context.new_page()
    errors: list[str] = []
    made.on("pageerror", lambda error: errors.append(str(error)))
    yield made
    context.close()
    assert errors == []


def log_in(page: Page, token: str) -> None:
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_a_person_logs_in_sees_the_own_pods_and_logs_out(team: Team, page: Page) -> None:
    page.goto(f"http://{team.host}/#/cards?namespace=team")
    log_in(page, "wrong")
    expect(page.locator("#login-problem")).to_contain_text("does not accept this token")
    expect(page.get_by_label("Token")).to_have_value("")
    log_in(page, "t-anna")
    expect(page.locator("#who")).to_contain_text("anna")
    expect(page.locator("#login")).to_be_hidden()
    expect(page.locator(".holder")).to_have_text(
        [re.compile("holds-team-a"), re.compile("another namespace")]
    )
    page.locator(".card").click()
    expect(page.locator("#panel")).to_contain_text("another namespace")
    assert "team-b" not in page.content()
    page.locator("nav a[data-view=waiting]").click()
    expect(page.locator(".command code")).to_have_text("vgpu why pod-of-team-a -n team-a")
    # Neither the token nor the session's name is where a script or another person could find it.
    kept = page.evaluate(
        "[location.href, document.cookie, JSON.stringify(localStorage), JSON.stringify(sessionStorage)]"
    )
    assert kept == [f"http://{team.host}/#/waiting?namespace=team", "", "{}", "{}"]
    page.get_by_role("button", name="Log out").click()
    expect(page.locator("#login")).to_be_visible()
    assert "team-a" not in page.inner_text("body")
    assert len(team.sessions) == 0


def test_a_change_is_asked_about_twice_and_its_refusal_is_shown(team: Team, page: Page) -> None:
    asked: list[tuple[str, object]] = []

    def make(token: str, wanted: Mapping[str, object]) -> str:
        asked.append((token, dict(wanted)))
        raise ForbiddenError('nodes "n1" is forbidden: User "anna" cannot patch', 403, "Forbidden")

    changes = PersonalChanges(Endpoint("http://127.0.0.1:1", lambda: None))
    changes.make = make  # type: ignore[method-assign]
    team.server.changes = changes
    team.entries.put("about", {"page": {"changes": True}})
    page.goto(f"http://{team.host}/#/cards?node=n1&card=GPU-1")
    log_in(page, "t-anna")
    page.get_by_text("Commands").click()
    expect(page.locator(".action code")).to_have_text("vgpu cordon n1/GPU-1")
    page.get_by_role("button", name="Cordon", exact=True).click()
    assert asked == []
    page.get_by_role("button", name="Really: Cordon").click()
    expect(page.locator(".actions [role=status]")).to_contain_text("cannot patch")
    assert asked == [("t-anna", {"action": "cordon", "node": "n1", "card": "GPU-1"})]


def test_a_command_to_copy_is_one_command_whatever_an_agent_calls_its_cards(team: Team, page: Page) -> None:
    uuid = "GPU'$(id);`id`"
    cards = [{
        "uuid": uuid, "model": "Z100", "family": "hygon.com/dcu", "mib": 16384, "freeMiB": 8192, "groups": 60,
        "freeGroups": 30, "most": 4, "free": 2, "state": "", "hive": "", "numa": -1, "slices": [],
    }]  # fmt: skip
    team.entries.put("node", {"n1": {"serving": True, "complete": True, "cards": cards}})
    page.goto(f"http://{team.host}/")
    log_in(page, "t-anna")
    page.locator(".card").click()
    page.get_by_text("Commands").click()
    assert shlex.split(page.locator(".action code").inner_text()) == ["vgpu", "cordon", f"n1/{uuid}"]


def test_without_changes_there_are_commands_to_copy(team: Team, page: Page) -> None:
    page.goto(f"http://{team.host}/#/cards?node=n1&card=GPU-1")
    log_in(page, "t-anna")
    page.get_by_text("Commands").click()
    expect(page.locator(".action code")).to_have_text("vgpu cordon n1/GPU-1")
    expect(page.locator(".action > button")).to_have_count(0)


def test_a_link_of_another_page_opens_its_place_in_the_session_that_is_there(team: Team, page: Page) -> None:
    page.goto(f"http://{team.host}/")
    log_in(page, "t-anna")
    expect(page.locator(".card")).to_have_count(1)
    other = page.context.new_page()
    other.goto(f"http://{team.host}/#/waiting?name=pod-of-team-a")
    expect(other.locator(".item")).to_have_count(1)


def test_what_was_shown_goes_when_the_session_ends(team: Team, page: Page) -> None:
    page.goto(f"http://{team.host}/")
    log_in(page, "t-anna")
    expect(page.locator(".card")).to_have_count(1)
    team.now += 4000
    expect(page.locator("#login")).to_be_visible()
    expect(page.locator(".card")).to_have_count(0)
    log_in(page, "t-bert")
    expect(page.locator("#who")).to_contain_text("bert")
    expect(page.locator(".holder").first).to_contain_text("another namespace")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_axe_finds_nothing_serious_before_and_after_the_login_and_it_fits_a_phone(
    team: Team, page: Page, width: int, scheme: Literal["dark", "light"]
) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"http://{team.host}/")
    expect(page.get_by_label("Token")).to_be_visible()
    check_axe(page, "login")
    log_in(page, "wrong")
    expect(page.locator("#login-problem")).to_contain_text("does not accept this token")
    check_axe(page, "a wrong token")
    assert wider(page) == []
    log_in(page, "t-anna")
    page.locator(".card").click()
    page.get_by_text("Commands").click()
    expect(page.locator(".action code")).to_be_visible()
    check_axe(page, "a card with its commands")
    assert wider(page) == []


def test_keys_alone_log_in_and_out(team: Team, page: Page) -> None:
    page.goto(f"http://{team.host}/")
    expect(page.get_by_label("Token")).to_be_visible()
    tab_to(page, "login-token")
    page.keyboard.type("t-anna")
    page.keyboard.press("Enter")
    expect(page.locator("#who")).to_contain_text("anna")
    tab_to(page, "Log out")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Token")).to_be_visible()


def tab_to(page: Page, wanted: str) -> None:
    """Press Tab until the element with this id or text has the focus."""
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id || document.activeElement.textContent") == wanted:
            return
    pytest.fail(f"Tab does not lead to {wanted}")
