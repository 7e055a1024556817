"""Hooks of mkdocs, for links from pages to files of this project outside docs/: each such file becomes a page.

On GitHub a link such as `../manifests/base/kustomization.yaml` shows the file. The site has no such folder, so the file
becomes a page below `files/`, and the link leads to that page. The pages of MADE have no file: they are generated.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from hack.generate.reference import messages

PROJECT = Path(__file__).parents[3]
# Pages outside docs/, and their place in the site.
PAGES = {
    "README.md": "index.md",
    "README.zh.md": "index.zh.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changes.md",
    "examples/README.md": "examples.md",
    "manifests/README.md": "manifests.md",
}
# Pages that are generated from the code, by the path that links to them use.
MADE = {"docs/reference/messages.md": messages.page}
_LINK = re.compile(r"(?<=\]\()([^)#\s]+)((?:#[^)\s]*)?)(?=\))")
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".c": "c", ".sh": "sh"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of PAGES and of MADE, and a page for each file that a page links to."""
    for source, place in PAGES.items():
        files.append(File.generated(config, place, content=_read(source)))
    for path, made in MADE.items():
        files.append(File.generated(config, _place(path), content=made()))
    for page in [file for file in files if file.src_uri.endswith(".md")]:
        base = _folder(page.src_uri)
        for target, _ in _LINK.findall(page.content_string):
            linked = _project_path(base, target)
            place = _place(linked)
            if place.startswith("files/") and files.get_file_from_path(place) is None:
                files.append(File.generated(config, place, content=_shown(linked)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """The text of a page, with links changed to the places of their targets in the site."""
    place = page.file.src_uri
    if place.startswith("files/"):
        return markdown
    base = _folder(place)

    def moved(match: re.Match[str]) -> str:
        linked = _project_path(base, match[1])
        if not linked or (linked not in MADE and not (PROJECT / linked).exists()):
            return match[0]
        return posixpath.relpath(_place(linked), posixpath.dirname(place) or ".") + match[2]

    return _LINK.sub(moved, markdown)


def _folder(place: str) -> str:
    """The folder of a page in the project; the page's links are relative to it."""
    source = next((source for source, at in PAGES.items() if at == place), f"docs/{place}")
    return posixpath.dirname(source)


def _project_path(base: str, target: str) -> str:
    """The path in the project to which a link leads; empty for an external address."""
    return (
        ""
        if "://" in target or target.startswith("mailto:")
        else posixpath.normpath(f"{base}/{target}" if base else target)
    )


def _place(linked: str) -> str:
    """The place in the site of a file or folder of the project."""
    if linked in PAGES or not linked:
        return PAGES.get(linked, "")
    if linked.startswith("docs/"):
        return linked.removeprefix("docs/")
    return f"files/{linked}.md"


def _shown(path: str) -> str:
    """A page that shows a file of the project, or the names of a folder's files."""
    at = PROJECT / path
    if at.is_dir():
        return "\n".join([f"# {path}/", "", *(f"- `{entry.name}`" for entry in sorted(at.iterdir()))])
    language = _LANGUAGES.get(at.suffix, "")
    return f"# {path}\n\n````{language}\n{_read(path)}\n````\n"


def _read(path: str) -> str:
    return (PROJECT / path).read_text(encoding="utf-8")
