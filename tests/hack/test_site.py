"""The site of docs/: links between its pages hold, and files of the project that a page links to are pages."""

import html
import os
import re
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import TimeoutError as BrowserTimeoutError
from playwright.sync_api import expect

from hack.measure.chromium import NoChromiumError, chromium
from tests.deadline import BROWSER_MS
from tests.requirement import require

PROJECT = Path(__file__).parents[2]
_CALL = (sys.executable, "-m", "mkdocs", "build", "--config-file")


def build(config: Path, to: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*_CALL, str(config), "--site-dir", str(to)], cwd=PROJECT, check=False, text=True, capture_output=True,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("site")
    built = build(PROJECT / "mkdocs.yml", to)
    assert built.returncode == 0, built.stderr
    return to


def test_every_page_of_docs_is_a_page(site: Path) -> None:
    for page in (PROJECT / "docs").rglob("*.md"):
        assert (site / page.relative_to(PROJECT / "docs").with_suffix(".html")).exists(), page


def test_the_page_of_messages_is_made_with_the_site_and_links_lead_to_it(site: Path) -> None:
    assert "showing no card" in (site / "reference/messages.html").read_text()
    for page in ("index.html", "kubectl.html"):
        assert 'href="reference/messages.html"' in (site / page).read_text()


def test_a_link_to_a_file_of_the_project_leads_to_a_page_with_its_text(site: Path) -> None:
    page = site / "files/manifests/admission/parameters.yaml.html"
    assert 'href="files/manifests/admission/parameters.yaml.html"' in (site / "requests.html").read_text()
    assert "mostGraceSeconds" in page.read_text()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert not re.findall(
            r"<(?:script|img|link|iframe)[^>]*(?:src|href)=[\"']?(?:https?:)?//", page.read_text()
        ), page


@pytest.mark.no_cover
def test_pages_ask_nobody_else_for_anything(site: Path) -> None:
    """In a browser: scripts could ask for more than the text of the pages names."""
    asked: list[str] = []
    errors: list[str] = []

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002 - as the base class names it

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    address = f"http://127.0.0.1:{server.server_port}/"
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        with chromium() as browser:
            page = browser.new_page()
            page.set_default_timeout(BROWSER_MS)
            page.on("request", lambda request: asked.append(request.url))
            page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
            for shown in sorted(site.rglob("*.html")):
                if shown.name != "404.html" and "files" not in shown.relative_to(site).parts:
                    page.goto(address + str(shown.relative_to(site)))
            field = page.locator("[data-md-component=search-query]").first
            result = page.locator(".md-search-result__item").first
            # The search may not look up what is typed too early, and typing again ends a search that is under way.
            for seconds in (1, 4, 16, 64, BROWSER_MS / 1000):
                for text in ("", "ledger"):
                    field.fill(text)
                with suppress(BrowserTimeoutError):
                    result.wait_for(timeout=seconds * 1000)
                    break
            expect(result).to_be_visible()
    except NoChromiumError as error:
        require(condition=False, reason=str(error))
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    assert asked
    assert [url for url in asked if not url.startswith(address)] == []
    assert errors == []


def test_a_broken_link_fails_the_build(tmp_path: Path) -> None:
    text = (PROJECT / "mkdocs.yml").read_text()
    text = text[: text.index("\nnav:")].replace("docs_dir: docs", f"docs_dir: {tmp_path}/docs")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/index.md").write_text("[gone](gone.md)\n")
    config = tmp_path / "mkdocs.yml"
    config.write_text(text.replace("hooks: [hack/generate/site/hooks.py]\n", ""))
    broken = build(config, tmp_path / "site")
    assert broken.returncode != 0
    assert "gone.md" in broken.stderr + broken.stdout


@pytest.mark.parametrize(
    "source", sorted((PROJECT / "docs/pictures").glob("*.dot")), ids=lambda path: path.stem
)
def test_a_picture_is_drawn_from_its_text(source: Path) -> None:
    """The drawing program is not everywhere; every word of the text is in what it drew."""
    drawn = html.unescape(source.with_suffix(".svg").read_text())
    words = {
        word
        for label in re.findall(r'label="([^"]*)"', source.read_text())
        for word in re.split(r"\s|\\n", label)
    }
    assert [word for word in sorted(words) if word not in drawn] == []
