"""The widths that a job may have: any, or only those that its author lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.jobs import job_spec

POWERS = job_spec("powers", most=8, widths=(1, 2, 4, 8))
ANY = job_spec("any", least=2, most=8)
LISTS = st.lists(st.integers(1, 1024), min_size=1, max_size=16, unique=True).map(
    lambda found: tuple(sorted(found))
)


@pytest.mark.parametrize(
    ("width", "following", "largest", "nearest"),
    [(0, 1, 0, 1), (1, 2, 1, 1), (3, 4, 2, 4), (4, 8, 4, 4), (7, 8, 4, 8), (8, 9, 8, 8), (20, 21, 8, 8)],
)
def test_of_listed_widths_the_next_one_and_the_one_before(
    width: int, following: int, largest: int, nearest: int
) -> None:
    assert POWERS.next_width(width) == following
    assert POWERS.width_at_most(width) == largest
    assert POWERS.nearest_width(width) == nearest
    assert POWERS.allows(width) is (width in (1, 2, 4, 8))


@given(st.integers(0, 2000))
def test_without_a_list_every_width_is_allowed(width: int) -> None:
    assert ANY.allows(width)
    found = ANY.next_width(width), ANY.width_at_most(width), ANY.nearest_width(width)
    assert found == (width + 1, width, width)
    assert list(ANY.widths_between(2, width)) == list(range(2, width + 1))


@given(LISTS, st.integers(0, 1100))
def test_every_answer_is_listed_or_says_that_there_is_none(widths: tuple[int, ...], width: int) -> None:
    job = job_spec("a", least=widths[0], most=widths[-1], widths=widths)
    following, largest = job.next_width(width), job.width_at_most(width)
    assert following > width
    assert following in widths or following > job.most
    assert not any(width < each < following for each in widths)
    assert largest in (*widths, 0)
    assert not any(largest < each <= width for each in widths)
    assert job.nearest_width(width) in widths
    assert [each for each in widths if each <= width] == list(job.widths_between(1, width))
