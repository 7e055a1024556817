"""Messages name pages of the documentation that exist, by their titles or, with an address, by their place."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from device_plugin.core import pages
from vgpu_runtime.paths import SOURCES

DOCS = SOURCES.parent / "docs"
TITLES = {
    path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# "): path
    for path in DOCS.rglob("*.md")
}
NAMED = {name: text for name, text in vars(pages).items() if name.isupper() and name != "SITE"}
_TITLE, _FILE = re.compile(r'\bpage "([^"]+)" of the'), re.compile(r"\bdocs/[a-z/-]+\.md")


def test_a_page_is_named_by_its_title() -> None:
    assert pages.INSTALL == 'page "Install" of the documentation'


def test_with_a_site_a_page_is_named_by_its_address() -> None:
    found = pages.named("Events", "reference/events", "https://docs.example.com/vgpu")
    assert found == "https://docs.example.com/vgpu/reference/events.html"


def test_each_title_is_that_of_the_named_page() -> None:
    source = Path(pages.__file__).read_text(encoding="utf-8")
    calls = re.findall(r'named\("([^"]+)", "([^"]+)"\)', source)
    assert len(calls) == len(NAMED)
    for title, name in calls:
        assert TITLES[title] == DOCS / f"{name}.md"


def test_a_text_names_no_file_of_a_checkout() -> None:
    """Docstrings may, but for those of commands, which `--help` prints."""
    named = []
    for path in sorted((SOURCES.parent / "device_plugin").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        command = any(
            isinstance(node, ast.FunctionDef) and node.name == "add_arguments" for node in tree.body
        )
        quiet = {id(each) for each in _docstrings(tree) if each is not _docstring(tree) or not command}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in quiet:
                named += [f"{path.name}:{node.lineno}: {each}" for each in _FILE.findall(node.value)]
                named += [f"{path.name}: {each}" for each in _TITLE.findall(node.value) if each not in TITLES]
    assert named == []


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts that stand alone: of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value


def _docstring(tree: ast.Module) -> ast.Constant | None:
    return next((each for each in _docstrings(tree) if each.lineno == 1), None)
