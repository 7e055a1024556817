import numpy as np
import pytest

from device_plugin.core.placement.duals import best_cut, central_duals


def costs(sizes: list[tuple[int, int]], demand: list[float], card: tuple[int, int]) -> list[float]:
    found = central_duals(np.array(sizes), np.array(demand, dtype=float), card)
    return [round(float(cost), 2) for cost in found]


def test_what_fills_a_card_evenly_costs_its_share() -> None:
    assert costs([(50, 0), (25, 0)], [10, 10], (100, 0)) == [0.5, 0.25]


def test_what_fits_beside_nothing_costs_a_whole_card_and_its_leftover_is_free() -> None:
    # 81 and 19 pair, but there is far less of 81: what is left beside them is never short.
    assert costs([(81, 0), (10, 0)], [100, 10], (100, 0)) == [1.0, 0.0]


def test_partners_share_a_card_whichever_is_larger() -> None:
    large, small = costs([(65, 0), (35, 0)], [50, 50], (100, 0))
    assert large + small == pytest.approx(1.0)


def test_two_dimensions_are_cut_together() -> None:
    # Much memory with few core groups, and the other way round: two slices of one card.
    wide, deep = costs([(8, 2), (2, 8)], [50, 50], (10, 10))
    assert wide + deep == pytest.approx(1.0)


def test_the_best_cut_is_the_most_that_fits() -> None:
    value, numbers = best_cut(np.array([5.0, 3.0]), np.array([(6, 0), (3, 0)]), (10, 0))
    assert numbers.tolist() == [0, 3]
    assert value == 9.0
