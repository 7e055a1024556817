"""Masks under the hardware's rules, for every card shape that the project knows of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract import masks

SHAPES = [
    (60, 1, False), (64, 1, False), (80, 1, True), (104, 1, False), (120, 1, False), (128, 1, False), (128, 1, True),
    (304, 8, False), (304, 4, False),
]  # fmt: skip


@st.composite
def grants(draw: st.DrawFn) -> tuple[int, int, bool, list[int]]:
    units, xcc, paired = draw(st.sampled_from(SHAPES))
    groups = units // masks.group_units(xcc=xcc, paired=paired)
    return units, xcc, paired, draw(st.lists(st.integers(0, groups - 1), min_size=1, unique=True))


@given(grants())
def test_any_set_of_core_groups_obeys_every_rule(grant: tuple[int, int, bool, list[int]]) -> None:
    units, xcc, paired, cores = grant
    per_group = masks.group_units(xcc=xcc, paired=paired)
    mask = masks.unit_mask(cores, per_group)
    assert mask.bit_count() == len(cores) * per_group
    assert mask >> units == 0
    assert masks.fault(mask, compute_units=units, xcc=xcc, paired=paired) == ""
    bits = [i for i in range(units) if mask >> i & 1]
    assert {i % xcc for i in bits} == set(range(xcc))
    if paired:
        assert {i ^ 1 for i in bits} == set(bits)


@given(grants(), grants())
def test_disjoint_core_groups_are_disjoint_units(
    one: tuple[int, int, bool, list[int]], two: tuple[int, int, bool, list[int]]
) -> None:
    per_group = masks.group_units(xcc=one[1], paired=one[2])
    others = set(two[3]) - set(one[3])
    assert masks.unit_mask(one[3], per_group) & masks.unit_mask(others, per_group) == 0


@given(grants())
def test_words_hold_the_mask_lowest_first(grant: tuple[int, int, bool, list[int]]) -> None:
    units, xcc, paired, cores = grant
    mask = masks.unit_mask(cores, masks.group_units(xcc=xcc, paired=paired))
    words = masks.words(mask, units)
    assert len(words) == -(-units // 32)
    assert sum(word << 32 * i for i, word in enumerate(words)) == mask
    assert masks.core_ids(masks.core_mask(cores)) == tuple(sorted(cores))


@pytest.mark.parametrize(
    ("mask", "shape", "text"),
    [
        (0, (60, 1, False), "no unit at all"),
        (1 << 60, (60, 1, False), "unit 60 of a card that has 60"),
        (0b0111, (80, 1, True), "half a workgroup processor"),
        (0b0110, (80, 1, True), "half a workgroup processor"),
        (0x7F, (304, 8, False), "an XCC without a unit"),
    ],
)
def test_a_mask_that_would_fail_open_is_named(mask: int, shape: tuple[int, int, bool], text: str) -> None:
    units, xcc, paired = shape
    assert text in masks.fault(mask, compute_units=units, xcc=xcc, paired=paired)


def test_a_card_has_an_xcc() -> None:
    with pytest.raises(ValueError, match="at least one XCC"):
        masks.group_units(xcc=0, paired=False)
