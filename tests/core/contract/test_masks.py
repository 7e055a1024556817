"""Masks under the hardware's rules, for every card shape that the project knows of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from device_plugin.core.contract import masks
from vgpu_runtime.rocm import RocmLimit

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
    assert RocmLimit(1, 128, units, xcc, paired, mask).mask == mask, "the library would refuse the mask"
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
def test_the_ids_of_a_set_of_core_groups_are_ascending(grant: tuple[int, int, bool, list[int]]) -> None:
    cores = grant[3]
    assert masks.core_ids(masks.core_mask(cores)) == tuple(sorted(cores))


def test_a_card_has_an_xcc() -> None:
    with pytest.raises(ValueError, match="at least one XCC"):
        masks.group_units(xcc=0, paired=False)
