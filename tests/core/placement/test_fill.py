"""What is left of a card is worth what pods will make of it."""

import numpy as np
import pytest

from device_plugin.core.placement.fill import FREE_CARD, UNTOUCHED, Fill
from tests.builders.requests import KIND, shape, target


def worth(fill: Fill, mem_units: int, cores: int | None = None, price: int = 0) -> float:
    """Of a card with so many units of its memory left, and core groups in proportion."""
    groups = -(-KIND.groups * mem_units // KIND.units) if cores is None else cores
    level = fill.grid.levels(
        np.array([mem_units * KIND.mem_mib // KIND.units]), np.array([groups]),
        np.array([KIND.mem_mib]), np.array([KIND.groups]),
    )  # fmt: skip
    return float(fill.worth[0, price, level[0]])


def test_a_free_card_is_the_measure() -> None:
    fill = Fill([KIND], [10], target((shape(4), 50), (shape(8), 20), (shape(whole=1), 10)))
    assert worth(fill, 16) == pytest.approx(FREE_CARD + UNTOUCHED)
    assert worth(fill, 0) == 0


def test_what_nobody_can_use_is_worth_nothing() -> None:
    fill = Fill([KIND], [10], target((shape(10), 50), (shape(5), 200)))
    assert worth(fill, 4) == 0
    assert worth(fill, 5) == worth(fill, 6) > 0


def test_more_room_is_never_worth_less_and_one_room_never_less_than_two_of_the_same_sum() -> None:
    fill = Fill([KIND], [10], target((shape(3), 30), (shape(5), 40), (shape(11), 20), (shape(whole=1), 5)))
    values = [worth(fill, units) for units in range(17)]
    assert values == sorted(values)
    for first in range(17):
        for second in range(17 - first):
            assert values[first] + values[second] <= values[first + second] + 1e-9


def test_memory_without_core_groups_is_worth_nothing_where_pods_need_both() -> None:
    fill = Fill([KIND], [10], target((shape(4, 30), 50), (shape(12, 15), 50)))
    assert fill.grid.cores
    assert worth(fill, 12, 0) == worth(fill, 0, 60) == 0
    assert worth(fill, 12, 15) > 0


def test_where_cpu_is_dear_a_card_is_worth_less() -> None:
    fill = Fill([KIND], [10], target((shape(4, cpu=4000), 50), (shape(8, cpu=1000), 20)))
    values = [worth(fill, 16, price=price) for price in range(len(fill.cpu))]
    assert values == sorted(values, reverse=True)
    assert values[0] > values[-1]


def test_only_a_kind_that_others_depend_on_has_a_price() -> None:
    other = KIND._replace(model="K100")
    fill = Fill([KIND, other], [50, 50], target((shape(4, models="K100"), 80), (shape(4), 20)))
    assert fill.price[0] == 0
    assert fill.price[1] > 0


def test_without_pods_yet_an_opened_card_comes_before_an_untouched_one() -> None:
    fill = Fill([KIND], [10], ())
    assert worth(fill, 16) > worth(fill, 8) == worth(fill, 0) == 0
