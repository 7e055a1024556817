"""Every way to a card that the table knows is held, and by the library."""

from pathlib import Path

import pytest

from hack.measure import fence_coverage
from hack.measure.fence_coverage import OPEN, PAGE

pytestmark = pytest.mark.usefixtures("native")


def test_every_cell_is_held_as_the_page_says(hip_libraries: Path, tmp_path: Path) -> None:
    found = fence_coverage.table(fence_coverage.build(tmp_path, hip_libraries, hook=True), tmp_path)
    assert OPEN not in found.values(), fence_coverage.text(found)
    assert len(found) >= 120
    assert PAGE.read_text(encoding="utf-8") == fence_coverage.page(found), "run hack/fence-coverage --page"


def test_without_the_librarys_hook_all_ways_are_open(hip_libraries: Path, tmp_path: Path) -> None:
    programs = fence_coverage.build(tmp_path, hip_libraries, hook=False)
    found = fence_coverage.table(programs, tmp_path, ["dlopen"])
    assert set(found.values()) == {OPEN}, {way.call: word for (way, _), word in found.items()}
