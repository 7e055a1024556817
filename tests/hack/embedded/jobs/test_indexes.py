"""Indexes in a Job's status."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hack.embedded.jobs import indexes


@pytest.mark.parametrize(
    ("found", "text"), [((), ""), ((3,), "3"), ((3, 4), "3,4"), ((0, 1, 2, 5), "0-2,5"), ((9, 1), "1,9")]
)
def test_rows_of_three_are_shortened(found: tuple[int, ...], text: str) -> None:
    assert indexes.write(found) == text


@given(st.sets(st.integers(0, 60)), st.integers(0, 70))
def test_what_was_written_is_read_up_to_the_completions(found: set[int], completions: int) -> None:
    assert indexes.read(indexes.write(found), completions) == {
        index for index in found if index < completions
    }
