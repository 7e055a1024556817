"""Percent of a card: rounded so that the parts of a card make a whole, and no slice gets less than its share."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.percent import MOST, at_least, most, rounded

PERCENT, GROUPS = st.integers(1, MOST), st.integers(1, 304)


def arrivals(groups: int, *percents: int) -> list[int]:
    """The groups that slices of these percents get one after the other of a card that is free at first."""
    given_: list[int] = []
    for number, percent in enumerate(percents):
        given_.append(rounded(percent, groups, sum(percents[:number]), sum(given_)))
    return given_


@pytest.mark.parametrize(
    ("groups", "percents", "given_"),
    [
        (60, (25,) * 4, [15, 15, 15, 15]),
        (38, (25,) * 4, [9, 10, 9, 10]),
        (15, (25,) * 4, [3, 4, 4, 4]),
        (60, (33,) * 3, [19, 20, 20]),
        (15, (10,) * 10, [1, 2] * 5),
        (8, (50, 25, 25), [4, 2, 2]),
        (60, (100,), [60]),
        (4, (1,), [1]),  # never none at all
    ],
)
def test_parts_of_a_card_make_a_whole(groups: int, percents: tuple[int, ...], given_: list[int]) -> None:
    assert arrivals(groups, *percents) == given_


@given(PERCENT, GROUPS, st.integers(0, MOST), st.integers(0, 304))
def test_a_slice_gets_its_share_rounded_down_or_up(percent: int, groups: int, before: int, held: int) -> None:
    exact = percent * groups / MOST
    got = rounded(percent, groups, before, held)
    assert at_least(percent, groups) <= got <= max(1, -(-percent * groups // MOST))
    assert abs(got - exact) < 1 or got == 1


@given(st.lists(PERCENT, max_size=100), GROUPS)
def test_as_long_as_slices_only_come_they_hold_no_more_than_their_percent_together(
    percents: list[int], groups: int
) -> None:
    given_ = arrivals(groups, *percents)
    if all(percent * groups >= MOST for percent in percents):  # no minimum of one group
        assert sum(given_) == sum(percents) * groups // MOST


@pytest.mark.parametrize("percent", [1, 3, 5, 10, 20, 25, 33, 50])
def test_slices_of_one_size_fit_whichever_of_them_end(percent: int) -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for groups in range(-(-MOST // percent), 129):
        held: list[int] = []
        for _ in range(200):
            if held and rng.random() < 0.5:
                held.pop(rng.randrange(len(held)))
            elif (len(held) + 1) * percent <= MOST:
                held.append(rounded(percent, groups, percent * len(held), sum(held)))
            assert sum(held) <= groups


@given(st.lists(PERCENT), st.integers(MOST, 2**40))
def test_memory_is_never_more_than_its_percent_together(percents: list[int], mem_mib: int) -> None:
    assert sum(at_least(each, mem_mib) for each in percents) <= sum(percents) * mem_mib // MOST


@given(st.integers(0, 70_000), st.integers(1, 70_000))
def test_the_most_that_is_free_fits_and_one_percent_more_does_not(free: int, whole: int) -> None:
    free = min(free, whole)
    found = most(free, whole)
    assert found == 0 or at_least(found, whole) <= free
    assert found == MOST or at_least(found + 1, whole) > free
