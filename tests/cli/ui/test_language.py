"""Every text of the page comes from one catalogue, in English and in Chinese."""

import re
from collections import Counter

import pytest
from playwright.sync_api import Browser, expect

from device_plugin.cli.ui.server import PAGE
from tests.cli.ui.literals import literals, visible
from tests.cli.ui.shown import Shown

CATALOGUE = (PAGE / "texts.js").read_text(encoding="utf-8")
ENTRY = re.compile(
    r'^  "(?P<key>[^"]+)": \[\s*"(?P<english>[^"]+)",\s*"(?P<chinese>[^"]+)",?\s*\],$', re.MULTILINE
)
TEXTS = {found["key"]: (found["english"], found["chinese"]) for found in ENTRY.finditer(CATALOGUE)}
SCRIPTS = {
    file.name: file.read_text(encoding="utf-8") for file in PAGE.glob("*.js") if file.name != "texts.js"
}
HTML = (PAGE / "index.html").read_text(encoding="utf-8")
# Words that a person sees: two beside each other, or one with a capital letter.
WORDS = re.compile(r"[A-Za-z]{2,} |^[A-Z][a-z]| [A-Za-z]{2,}")
# Literals of this form that nobody reads, or that are the same in every language.
ALLOWED = {
    "(prefers-color-scheme: dark)", " · vgpu", "nav a", "Escape", "Bearer ", "Content-Type", "HTTP ", " TiB", " GiB",
    " MiB", " aged", "tick now", "queue ", "row queue", "row job", "plain copy", "plain why", "vgpu why ", "vgpu ",
    "vgpu why job/", "queue admit", "English", "transparent ", " calc(", "transparent calc(",
    "color-mix(in oklab, ", " 34%, var(--track))", "linear-gradient(to right, ",
    "oklch(L var(--chroma) ",
    "calc(var(--tone) + var(--apart))",
}  # fmt: skip
# Beginnings of keys to which a script adds a word of the server's, or the name of a view.
FAMILIES = (
    "phase-",
    "state-",
    "slice-",
    "is-",
    "cards-",
    "waiting-",
    "gangs-",
    "jobs-",
    "do-",
    "series-",
    "hours-",
)


def placeholders(text: str) -> Counter[str]:
    return Counter(re.findall(r"\{(\w+)", text))


def used() -> set[str]:
    """The keys that the HTML and the scripts name."""
    marked = set(re.findall(r'data-t(?:-\w+)?="([^"]+)"', HTML))
    return marked | {text for script in SCRIPTS.values() for text in literals(script)}


def test_the_catalogue_is_read_whole_and_has_each_key_once() -> None:
    assert len(TEXTS) == CATALOGUE.count('": [') > 150
    assert len(TEXTS) == len(ENTRY.findall(CATALOGUE))


def test_both_languages_have_the_same_values() -> None:
    assert {
        key: texts for key, texts in TEXTS.items() if placeholders(texts[0]) != placeholders(texts[1])
    } == {}


def test_chinese_texts_are_chinese() -> None:
    """But those that are only values, or names that Chinese keeps."""
    latin = {key for key, (_, text) in TEXTS.items() if not re.search(r"[\u3000-\u9fff\uff00-\uffef]", text)}
    assert latin <= {"pods", "jobs", "waiting-filter", "jobs-filter", "share-groups", "state-at"}


def test_no_script_has_a_text_of_its_own() -> None:
    for name, script in SCRIPTS.items():
        found = {text for text in literals(script) if WORDS.search(text)} - ALLOWED
        assert found == set(), f"{name}: put these into texts.js"


def test_the_html_has_no_text_of_its_own() -> None:
    without = re.sub(r"<noscript>.*?</noscript>", "", HTML)
    assert set(visible(without)) == {"vgpu", "kubectl create token NAME"}


def test_each_key_that_is_named_exists_and_each_that_exists_is_named() -> None:
    named = used()
    marked = set(re.findall(r'data-t(?:-\w+)?="([^"]+)"', HTML))
    called = {key for script in SCRIPTS.values() for key in re.findall(r'\bt\("([^"]+)"', script)}
    assert (marked | called) - TEXTS.keys() == set()
    assert {key for key in TEXTS.keys() - named if not key.startswith(FAMILIES)} == set()


def test_the_reader_of_literals_reads_them() -> None:
    script = "a('One', `two ${b ? `three ${c(\"four\")} five` : ''} six`); // 7\n/* 'eight' */ d(/'nine/.e(\"ten\"))"
    assert [text for text in literals(script) if text] == [
        "One",
        "two ",
        "three ",
        "four",
        " five",
        " six",
        "ten",
    ]


@pytest.fixture
def chinese(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> Shown:
    """The page in a browser of somebody who reads Chinese."""
    original = browser.new_context
    monkeypatch.setattr(browser, "new_context", lambda **options: original(**options, locale="zh-CN"))
    return Shown(browser, 6)


def test_a_browser_of_a_chinese_reader_shows_chinese_and_keeps_another_choice(chinese: Shown) -> None:
    try:
        page = chinese.page
        page.goto(chinese.server.address)
        page.locator(".card").first.wait_for()
        assert page.evaluate("document.documentElement.lang") == "zh-CN"
        expect(page.locator("#title")).to_have_text("卡")
        expect(page.locator("#map-text")).to_contain_text("6 个节点")
        for view, title in (("waiting", "等待中的 Pod"), ("gangs", "Pod 组"), ("jobs", "队列中的 Job")):
            page.locator(f"nav a[data-view={view}]").click()
            expect(page.locator("#title")).to_have_text(title)
        page.get_by_label("语言").select_option("en")
        expect(page.locator("#title")).to_have_text("Jobs in queues")
        assert page.evaluate("document.documentElement.lang") == "en"
        page.reload()
        expect(page.locator("#title")).to_have_text("Jobs in queues")
        assert (chinese.errors, chinese.foreign) == ([], [])
    finally:
        chinese.end()


def test_other_browsers_show_english(small: Shown) -> None:
    page = small.open()
    assert page.evaluate("document.documentElement.lang") == "en"
    expect(page.locator("#title")).to_have_text("Cards")
    expect(page.locator("nav a").first).to_contain_text("Cards")
