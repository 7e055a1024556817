"""The lists in admission policies are those of the code."""

import pytest

from hack.generate.admission_lists import LISTS, MANIFESTS, renewed


@pytest.mark.parametrize("name", LISTS)
def test_the_committed_lists_are_those_that_make_chart_writes(name: str) -> None:
    text = (MANIFESTS / name).read_text(encoding="utf-8")
    assert renewed(text, LISTS[name]) == text, f"manifests/{name} is out of date: run `make chart`"


def test_a_list_without_a_place_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 variables are named gone"):
        renewed("", {"gone": ["a"]})
