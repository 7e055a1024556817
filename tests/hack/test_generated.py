"""Files that are made from others are marked as generated, so that reviews fold them."""

from hack.generate.reference.__main__ import FOLDER, PAGES
from tests.pages import PROJECT

PATTERNS = [
    line.split()[0]
    for line in (PROJECT / ".gitattributes").read_text(encoding="utf-8").splitlines()
    if line.endswith(" linguist-generated")
]


def marked() -> set[str]:
    files = (path for pattern in PATTERNS for path in PROJECT.glob(pattern.replace("/**", "/**/*")))
    return {str(path.relative_to(PROJECT)) for path in files if path.is_file()}


def test_each_pattern_names_files() -> None:
    assert PATTERNS
    for pattern in PATTERNS:
        assert any(path.is_file() for path in PROJECT.glob(pattern.replace("/**", "/**/*"))), pattern


def test_what_make_writes_is_marked() -> None:
    pages = {str((FOLDER / name).relative_to(PROJECT)) for name in PAGES}
    chart = {
        str(path.relative_to(PROJECT)) for path in (PROJECT / "manifests/chart/templates").glob("*.yaml")
    }
    assert pages | chart | {"manifests/chart/values.schema.json"} <= marked()


def test_what_people_write_is_not() -> None:
    assert not {"README.md", "docs/start.md", "manifests/admission/parameters.yaml", "Makefile"} & marked()
