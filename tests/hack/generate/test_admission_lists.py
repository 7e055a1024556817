"""The parts of admission policies that have one source in the code are as that source says."""

from pathlib import Path

import pytest

from device_plugin.core.requests import SUFFIXES
from hack.generate.admission_lists import LISTS, MANIFESTS, asks, manifests, renewed

FOUND = [path.relative_to(MANIFESTS) for path, _ in manifests()]


@pytest.mark.parametrize("name", FOUND, ids=str)
def test_the_committed_manifests_are_those_that_make_chart_writes(name: Path) -> None:
    text = dict(manifests())[MANIFESTS / name]
    assert (MANIFESTS / name).read_text(encoding="utf-8") == text, (
        f"manifests/{name} is out of date: run `make chart`"
    )


def test_every_manifest_with_a_list_is_found() -> None:
    assert LISTS.keys() <= set(map(str, FOUND))


def test_a_list_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 variables are named gone"):
        renewed("", {"gone": ["a"]})


def test_a_condition_that_lacks_a_resource_is_written_anew() -> None:
    text = (MANIFESTS / "admission/isolation.yaml").read_text(encoding="utf-8")
    other = text.replace(
        ', "-slices"].exists(s, p + s in c.resources.limits)))',
        "].exists(s, p + s in c.resources.limits)))",
        1,
    )
    assert other != text
    assert renewed(other, LISTS["admission/isolation.yaml"]) == text


def test_a_condition_of_another_form_is_an_error() -> None:
    with pytest.raises(ValueError, match="not the one that asks"):
        renewed("\n  - name: asks\n    expression: 'true'\n", {})


def test_the_condition_names_every_resource_of_a_family() -> None:
    found = asks("object.spec", '"a/b"')
    assert all(f'"{suffix}"' in found for suffix in SUFFIXES)
